"""Stages that are somebody else's API, in a fleet of this machine."""

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cascadia.clients.processes.ports import free_port
from cascadia.controller.local.apis import check_apis
from cascadia.controller.local.desired import local_plan
from cascadia.controller.local.launch import launch_of
from cascadia.domain.errors import BadInput
from cascadia.testing.engines import FakeEngine, send, started
from cascadia.testing.plans import FRONTIER_API, stage
from tests.unit.controller.machine import local, two_stages


def test_only_stages_of_ours_are_waited_for_and_each_of_them_keeps_its_own_threshold(tmp_path: Path) -> None:
    plan = two_stages(1, 1)
    small, large = plan.stages
    between = stage("between", engine="external", external=FRONTIER_API)
    found = local_plan(
        replace(plan, stages=(small, between, large), thresholds=(50.0, 70.0)), local(tmp_path)
    )
    assert (found.routing.stages, found.routing.thresholds) == (("small", "large"), (50.0,))
    assert {kind.stage for kind in found.desired().counts} == {"small", "large"}
    assert found.served == ("small", "between", "large")


def test_another_api_is_another_routing(tmp_path: Path) -> None:
    plan = two_stages(1, 1)
    away = replace(plan.stages[1], engine="external", replicas=(), external=FRONTIER_API)
    dear = replace(away, external=replace(FRONTIER_API, base_url="https://other.example.com"))
    told = local(tmp_path)
    told = told.model_copy(update={"stages": {"small": told.stages["small"]}})
    one, other = (local_plan(replace(plan, stages=(plan.stages[0], each)), told) for each in (away, dear))
    assert one.routing != other.routing


def test_engines_are_started_without_the_keys_of_the_router_unless_their_command_names_one(
    tmp_path: Path,
) -> None:
    told = local(tmp_path)
    keys = {"keys": {"redis_url_env": "REDIS_URL"}, "judge": {"replicas": [{"api_key_env": "JUDGE_KEY"}]}}
    small = told.stages["small"].model_copy(update={"env": {"OPENAI_API_KEY": "$JUDGE_KEY"}})
    told = told.model_copy(
        update={"router": {**told.router, **keys}, "stages": {**told.stages, "small": small}}
    )
    launches = {kind.stage: launch for kind, launch in local_plan(two_stages(1, 1), told).launches.items()}
    assert launches["large"].withheld == {"REDIS_URL", "JUDGE_KEY"}
    assert launches["small"].withheld == {"REDIS_URL"}
    assert launch_of(launches["large"].document) == launches["large"]


def routed(url: str) -> dict[str, Any]:
    return {"stages": [{"name": "frontier", "replicas": [{"url": url, "api_key_env": "FRONTIER_KEY"}]}]}


def test_an_api_that_nobody_answers_for_is_told_before_engines_load() -> None:
    with pytest.raises(BadInput, match=r"stage frontier: http://127.0.0.1:\d+ cannot be reached"):
        check_apis(routed(f"http://127.0.0.1:{free_port()}"), {})
    with pytest.raises(BadInput, match="cannot be reached"):
        check_apis(routed("ftp://127.0.0.1"), {})


GONE = {"replicas": [{"url": "http://127.0.0.1:PORT", "health_path": None}]}


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("judge", {"judge": GONE}),
        ("judge.members[1]", {"judge": {"kind": "ensemble", "members": [{"kind": "certainty"}, GONE]}}),
        ("foresight", {"foresight": GONE}),
    ],
)
def test_a_judge_that_nobody_answers_for_is_told_as_a_stage_is(where: str, told: dict[str, Any]) -> None:
    """Its gates would escalate all that comes, and nobody be told."""
    gone = json.loads(json.dumps(told).replace("PORT", str(free_port())))
    with pytest.raises(BadInput, match=rf"^{re.escape(where)}: http://127.0.0.1:\d+ cannot be reached"):
        check_apis({"stages": [{"name": "small"}], **gone}, {})


def test_a_judge_that_the_fleet_starts_is_not_asked_before() -> None:
    check_apis({"stages": [{"name": "small"}], "judge": {"kind": "llm", "model": "judge"}}, {})


@pytest.mark.parametrize(("status", "refused"), [(200, False), (404, False), (503, False), (401, True)])
def test_any_answer_will_do_but_a_refused_key(status: int, refused: bool) -> None:
    async def main() -> None:
        api = Answering(status)
        async with started(api):
            await asyncio.to_thread(check_apis, routed(api.url), {"FRONTIER_KEY": "sk-mine"})

    if refused:
        with pytest.raises(BadInput, match=r"answers 401: it refuses the key; set FRONTIER_KEY to its key"):
            asyncio.run(main())
    else:
        asyncio.run(main())


class Answering(FakeEngine):
    """An API whose list of models answers with one status."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        assert b"authorization: bearer sk-mine" in (await reader.readuntil(b"\r\n\r\n")).lower()
        send(writer, self.status, b"{}")
        await writer.drain()
        return True
