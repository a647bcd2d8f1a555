"""`cascadia serve` as a user runs it: a process of its own, a plan, addresses, SIGTERM."""

import asyncio
import json
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvloop

from cascadia.cli.serve import _settings
from cascadia.cli.shared.errors import failure
from cascadia.domain.errors import BadInput
from cascadia.domain.objective import Objective
from cascadia.domain.plan import Balancing, ForesightPlan, JudgePlan, LatencyLine, Plan, ReplicaGroup
from cascadia.files.plan_file import write_plan
from cascadia.router.settings.from_plan import settings_of, under_plan
from cascadia.router.settings.model import (
    AdminSettings,
    JudgeSettings,
    KeySettings,
    ReplicaSettings,
    RouterSettings,
    StageSettings,
)
from cascadia.testing.engines import FakeEngine, completion, send, started
from cascadia.testing.plans import FRONTIER_API, POOLS, plan, stage
from cascadia_judge.llm.prompt import PROMPT_VERSION
from tests.unit.planner.policies.one_pass_plans import planned as planned_one_pass

CERTAINTY = JudgePlan(
    "certainty", "router", None, engine="vllm", quantization=None, max_model_len=0, replicas=()
)


def two(judge: JudgePlan = CERTAINTY) -> Any:
    return plan(
        [
            stage("small", ReplicaGroup("l4", 1, 1, 2, 0.4), ReplicaGroup("h100", 1, 1, 1, 0.6)),
            stage("medium"),
            stage("large", ReplicaGroup("h100", 4, 1, 1, 1.0)),
        ],
        POOLS,
        judge,
    )


def two_plain() -> Plan:
    one = ReplicaGroup("h100", 1, 1, 1, 1.0)
    return plan([stage("small", one), stage("large", one)], POOLS, CERTAINTY)


def test_a_plan_gives_thresholds_shares_and_skipped_stages() -> None:
    urls = ["http://h:1", "http://h:2", "http://h:3"]
    settings = settings_of(two(), {"small": urls, "large": ["http://h:4"]}, "plan.json")
    small, large = settings.stages
    assert (small.threshold, small.max_model_len) == (50.0, 8192)
    assert [replica.share for replica in small.replicas] == pytest.approx([0.2, 0.2, 0.6])
    assert large.replicas[0].max_concurrency == 512
    assert settings.names == ("small", "medium", "large")
    assert settings.judge is not None
    assert settings.judge.kind == "certainty"


@pytest.mark.parametrize(
    ("addresses", "said"),
    [
        ({"small": ["http://h:1"]}, "--endpoint large"),
        (
            {"small": ["http://h:1"], "large": ["http://h:1"], "medium": ["http://h:1"]},
            "deploys no such stage",
        ),
        ({"small": ["h"], "large": ["http://h:1"]}, "is no address"),
    ],
)
def test_addresses_that_do_not_fit_the_plan_are_refused(addresses: dict[str, list[str]], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        settings_of(two(), addresses, "plan.json")


def test_a_judge_that_this_router_cannot_be_itself_needs_an_address() -> None:
    urls = {"small": ["http://h:1"], "large": ["http://h:2"]}
    embedding = JudgePlan(
        "embedding", "router", None, engine="vllm", quantization=None, max_model_len=0, replicas=()
    )
    with pytest.raises(BadInput, match="--endpoint judge"):
        settings_of(two(embedding), urls, "plan.json")
    settings = settings_of(two(embedding), urls | {"judge": ["http://h:3"]}, "plan.json")
    assert settings.judge is not None
    assert settings.judge.kind == "embedding"


def test_whom_a_stage_skips_is_the_plans_where_it_foresaw_anything_else_the_files() -> None:
    urls = {"small": ["http://h:1"], "large": ["http://h:2"], "judge": ["http://h:3"]}
    old = two(
        JudgePlan("embedding", "router", None, engine="vllm", quantization=None, max_model_len=0, replicas=())
    )
    skipping, never = replace(old, skip_below=(20.0, 0.0)), replace(old, skip_below=(0.0, 0.0))
    files = settings_of(skipping, urls, "plan.json")
    assert [stage.skip_below for stage in files.stages] == [20.0, None]
    assert [stage.skip_below for stage in under_plan(files, old).stages] == [20.0, None]
    assert [stage.skip_below for stage in under_plan(files, never).stages] == [None, None]
    assert [stage.skip_below for stage in under_plan(files, skipping).stages] == [20.0, None]


def test_a_plan_put_bounds_answers_that_nobody_else_bounds() -> None:
    urls = {"small": ["http://h:1"], "large": ["http://h:2"]}
    one = ReplicaGroup("h100", 1, 1, 1, 1.0)
    free, bound = (
        plan([stage("small", one, max_tokens=most), stage("large", one)], POOLS, CERTAINTY)
        for most in (None, 300)
    )
    put = under_plan(settings_of(free, urls, "plan.json"), bound)
    assert [each.max_tokens for each in put.stages] == [300, None]
    assert [each.max_tokens for each in under_plan(put, free).stages] == [300, None]


def test_a_plan_put_brings_how_its_stages_are_balanced_whatever_the_plan_of_the_files_had() -> None:
    """A plan for `matching` has half the places of others: beside the files' balancing they would be too few."""
    urls = {"small": ["http://h:1"], "large": ["http://h:2"]}

    def made(balancing: Balancing, within_s: float, step_s: float) -> Plan:
        one = ReplicaGroup("h100", 1, 1, 1, 1.0, latency=LatencyLine(0.1, 0.0005, step_s, 0.0001))
        planned = plan([stage("small", one, balancing=balancing), stage("large", one)], POOLS, CERTAINTY)
        return replace(planned, objective=Objective("cost", quality_min=80.0, latency_max_s=within_s))

    before, after = made("earliest-finish", 12.0, 0.02), made("matching", 20.0, 0.01)
    for files, put in ((before, after), (after, before)):
        told = settings_of(put, urls, "plan.json")
        assert under_plan(settings_of(files, urls, "plan.json"), put).stages == told.stages
    plain = two_plain()
    assert [each.balancing for each in under_plan(settings_of(before, urls, "plan.json"), plain).stages] == [
        "earliest-finish",
        "least-outstanding",
    ]


def test_a_plan_put_with_a_stage_elsewhere_that_the_files_do_not_have_is_refused() -> None:
    urls = {"small": ["http://h:1"], "large": ["http://h:2"]}
    one = ReplicaGroup("h100", 1, 1, 1, 1.0)
    api = stage("frontier", model="any", external=FRONTIER_API)
    planned = plan([stage("small", one), api], POOLS, CERTAINTY)
    with pytest.raises(
        BadInput, match=r"deploys stage frontier, which the router's files have not: small, large"
    ):
        under_plan(settings_of(two_plain(), urls, "plan.json"), planned)


def test_a_plan_put_brings_its_policies_to_the_workers_of_the_files() -> None:
    planned = planned_one_pass().plan
    urls = [f"http://h:{8100 + number}" for number in range(planned.gpus)]
    files = settings_of(planned, {"guard": urls}, "plan.json")
    sooner = replace(planned, policies=(replace(planned.policies[0], slo_s=0.05),))
    put = under_plan(files, sooner)
    assert [group.policies for group in put.groups] == list(sooner.policies)
    assert put.groups[0].stages == files.groups[0].stages
    assert [stage.replicas for stage in put.stages] == [stage.replicas for stage in files.stages]


def test_a_plan_with_foresight_needs_the_address_of_its_heads_and_where_it_judges_nobody_no_judge() -> None:
    urls = {"small": ["http://h:1"], "large": ["http://h:2"]}
    planned = two(
        JudgePlan("llm", "external", "gpt-4o", engine="vllm", quantization=None, max_model_len=0, replicas=())
    )
    alone = replace(
        planned, thresholds=(0.0, 0.0), skip_below=(20.0, 0.0), foresight=ForesightPlan("d" * 64, 0.02)
    )
    with pytest.raises(BadInput, match="--endpoint foresight"):
        settings_of(alone, urls, "plan.json")
    files = settings_of(alone, urls | {"foresight": ["http://h:3"]}, "plan.json")
    assert files.judge is None
    assert files.foresight is not None
    assert under_plan(files, alone).foresight == files.foresight
    with pytest.raises(BadInput, match="no such stage"):
        settings_of(planned, urls | {"judge": ["http://h:4"], "foresight": ["http://h:3"]}, "plan.json")


def test_a_plan_put_where_names_stand_for_groups_gives_each_pod_its_part_of_the_share() -> None:
    groups = ReplicaGroup("l4", 1, 1, 3, 0.6), ReplicaGroup("h100", 1, 1, 1, 0.4)
    planned = plan([stage("small", *groups), stage("large", groups[1])], POOLS, CERTAINTY)
    named = tuple(ReplicaSettings(f"http://{name}:80", resolve="dns") for name in ("l4-pods", "h100-pods"))
    stages = StageSettings("small", "m", named), StageSettings("large", "m", named[1:])
    files = RouterSettings(stages, JudgeSettings("certainty"))
    found = under_plan(files, planned)
    assert [[r.share for r in s.replicas] for s in found.stages] == [[pytest.approx(0.2), 0.4], [0.4]]


def test_addresses_are_those_of_render_where_none_is_given_and_the_plan_is_of_one_node(
    tmp_path: Path,
) -> None:
    one = plan(
        [stage("small", ReplicaGroup("l4", 1, 1, 2, 1.0)), stage("large", ReplicaGroup("l4", 1, 1, 1, 1.0))],
        POOLS,
        CERTAINTY,
    )
    write_plan(one, tmp_path / "plan.json")
    settings = _settings(tmp_path, ())
    assert [r.url for s in settings.stages for r in s.replicas] == [
        f"http://127.0.0.1:{p}" for p in (8100, 8101, 8102)
    ]
    write_plan(two(), tmp_path / "plan.json")
    with pytest.raises(BadInput, match="more than one node"):
        _settings(tmp_path, ())
    with pytest.raises(BadInput, match="names no stage"):
        _settings(tmp_path, ("http://h:1",))
    with pytest.raises(BadInput, match="of a plan only"):
        _settings(tmp_path / "router.yaml", ("small=http://h:1",))
    assert failure(BadInput("a", "b")).exit_code == 2


def test_a_process_serves_a_plan_until_sigterm_and_finishes_what_it_began(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def wait(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if body.get("wait"):
            await go.wait()
        margin = [[-0.01, -5.0]] if engine.text == "four" else None
        send(writer, 200, completion(engine.text, margin))

    async def main() -> None:
        small, large = FakeEngine("four", answer=wait), FakeEngine("4", answer=wait)
        async with started(small, large):
            write_plan(two(), tmp_path / "plan.json")
            program = Path(sys.executable).with_name("cascadia")
            endpoints = [f"--endpoint=small={small.url}", f"--endpoint=large={large.url}"]
            process = await asyncio.create_subprocess_exec(
                program, "serve", tmp_path, *endpoints, "--port=0", "--json",
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert process.stdout is not None
            document = json.loads(await process.stdout.readuntil(b"}\n"))
            body = {"model": "cascadia", "messages": [{"role": "user", "content": "secret words"}]}
            async with httpx.AsyncClient(base_url=document["url"], timeout=60, trust_env=False) as client:
                answer = await client.post("/v1/chat/completions", json=body)
                small.arrived.clear()
                asking = asyncio.create_task(client.post("/v1/chat/completions", json=body | {"wait": True}))
                await small.arrived.wait()
                process.send_signal(signal.SIGTERM)
                go.set()
                last = await asking
            _, errors = await process.communicate()
        assert document["stages"] == ["small", "large"]
        assert answer.headers["x-cascadia-stage"] == "small"
        assert last.status_code == 200
        assert process.returncode == 0
        lines = [json.loads(line) for line in errors.splitlines()]
        assert [line["status"] for line in lines] == [200, 200]
        assert b"secret words" not in errors
        assert b"four" not in errors

    uvloop.run(main())


def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine):
            write_plan(two(), tmp_path / "plan.json")
            program = Path(sys.executable).with_name("cascadia")
            arguments = [f"--endpoint={s}={engine.url}" for s in ("small", "large")]
            process = await asyncio.create_subprocess_exec(
                program,
                "serve",
                tmp_path,
                *arguments,
                f"--port={engine.port}",
                stderr=asyncio.subprocess.PIPE,
            )
            _, errors = await process.communicate()
        assert process.returncode == 2
        assert errors.startswith(b"error: --port: cannot listen")
        assert errors.count(b"\n") == 1

    uvloop.run(main())


def test_a_plans_router_has_keys_a_redis_and_an_admin_port_by_options(tmp_path: Path) -> None:
    write_plan(two(), tmp_path / "plan.json")
    (tmp_path / "redis.url").write_text("redis://h:6379/0\n")
    endpoints = ("small=http://h:1", "large=http://h:2")
    keys, redis = tmp_path / "keys.json", tmp_path / "redis.url"
    settings = _settings(tmp_path, endpoints, keys, 9901, redis)
    assert settings.keys == KeySettings(keys, redis_url="redis://h:6379/0")
    assert settings.admin == AdminSettings(9901)
    assert settings.files == (tmp_path / "plan.json", redis)
    for given, said in (
        ((None, 9901, None), "needs keys"),
        ((None, None, redis), "add --keys"),
        ((keys, None, tmp_path / "nothing"), "no such file"),
    ):
        with pytest.raises(BadInput, match=said):
            _settings(tmp_path, endpoints, *given)
    with pytest.raises(BadInput, match="of a plan only"):
        _settings(tmp_path / "router.yaml", (), keys)


LLM = JudgePlan(
    "llm", "external", "org/judge", engine="vllm", quantization=None, max_model_len=4096, replicas=()
)


def test_a_plan_on_scores_of_another_prompt_is_refused() -> None:
    urls = {"small": ["http://h:1"], "large": ["http://h:2"], "judge": ["http://h:3"]}
    assert settings_of(two(replace(LLM, prompt_version=PROMPT_VERSION)), urls, "plan.json").judge is not None
    with pytest.raises(
        BadInput, match=f"prompt_version: is old, and this router's judge is asked with {PROMPT_VERSION}"
    ):
        settings_of(two(replace(LLM, prompt_version="old")), urls, "plan.json")


@pytest.mark.parametrize(
    ("planned", "said"),
    [
        (CERTAINTY, "is of kind certainty, the router's of kind llm"),
        (replace(LLM, scale=5.0), "is of scale 5, the router's of scale 10"),
        (
            replace(LLM, scale=10.0, model="org/other"),
            "is of model org/other, the router's of model org/judge",
        ),
    ],
)
def test_a_plan_on_another_judges_scores_is_refused(planned: JudgePlan, said: str) -> None:
    urls = {"small": ["http://h:1"], "large": ["http://h:2"], "judge": ["http://h:3"]}
    files = settings_of(two(LLM), urls, "plan.json")
    assert files.judge is not None
    files = replace(files, judge=replace(files.judge, scale=10.0))
    with pytest.raises(BadInput, match=said):
        under_plan(files, two(planned))
    assert under_plan(files, two(replace(LLM, scale=10.0))).judge == files.judge
