"""Rankings of a group: which model reads one is the policy's, and each is a batch of its own."""

import asyncio
import json
from typing import Any

import httpx

from cascadia.domain.policy import Policies, Policy, PolicyRow
from cascadia.router.settings.groups import GroupSection, groups_of
from cascadia.router.settings.model import ReplicaSettings, RouterSettings, StageSettings
from cascadia.testing.engines import FakeEngine, send
from cascadia.testing.routers import QUICK, Running, run, running, started, until

ASKED = {"query": "q", "documents": ["a", "b", "c"]}


class Ranks:
    """A worker that ranks the last document first, once it is `free`; and refuses a query that is empty."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.engine = FakeEngine(answer=self._answer)

    async def _answer(self, engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await self.free.wait()
        if not body["query"]:
            send(writer, 400, b'{"error":{"message":"empty","code":"bad"}}')
            return
        count = len(body["documents"])
        results = [{"index": at, "relevance_score": at / count} for at in reversed(range(count))]
        results = results[: body.get("top_n") or None]
        send(writer, 200, json.dumps({"id": "r", "usage": {"prompt_tokens": 8}, "results": results}).encode())


def settings(engine: FakeEngine, threshold: float = 0.0) -> RouterSettings:
    """`good` for a ranking that waits alone, `quick` where more wait."""
    replicas = (ReplicaSettings(engine.url),)
    stages = tuple(
        StageSettings(name, name, replicas, bar, task="rerank", group="ranks")
        for name, bar in (("quick", threshold), ("good", 0.0))
    )
    rows = (PolicyRow((0.0,), ("good",), (1,)), PolicyRow((0.0,), ("quick",), (1,)))
    policies = Policies(
        *("ranks", ("quick", "good")), slo_s=5.0, workers=1, queue="central", index="rate",
        levels=(Policy(100.0, rows),),
    )  # fmt: skip
    (group,) = groups_of([GroupSection(name="ranks")], stages, None, "router.yaml")  # type: ignore[arg-type]
    group = group.__class__(group.name, group.stages, policies)
    return RouterSettings(stages, None, groups=(group,), health=QUICK)


def ask(router: Running, model: str = "cascadia", **more: Any) -> "asyncio.Task[httpx.Response]":
    return asyncio.create_task(router.client.post("/v1/rerank", json={"model": model} | ASKED | more))


def test_each_ranking_goes_alone_to_the_model_that_the_policy_names() -> None:
    async def main() -> None:
        worker = Ranks()
        async with started(worker.engine), running(settings(worker.engine)) as router:
            first = ask(router, top_n=1, deadline_ms=9000)
            await until(lambda: len(worker.engine.requests) == 1)
            rest = [ask(router, "ranks"), ask(router, "ranks", query=""), ask(router, "good")]
            await until(lambda: router.router.active_plan.batchers["ranks"].waiting == 3)
            worker.free.set()
            found = await asyncio.gather(first, *rest)
        assert [one.status_code for one in found] == [200, 200, 400, 200]
        assert [one["index"] for one in found[0].json()["results"]] == [2]
        assert [one["index"] for one in found[1].json()["results"]] == [2, 1, 0]
        assert found[2].json()["error"]["code"] == "bad"
        stages = [one.headers.get("x-cascadia-stage") for one in found]
        assert stages == ["good", "quick", "good", "good"]
        assert {request["model"] for request in worker.engine.requests} == {"quick", "good"}
        assert "deadline_ms" not in worker.engine.requests[0]

    run(main)


def test_a_cascade_by_margin_takes_its_turn_among_the_batches() -> None:
    async def main() -> None:
        worker = Ranks()
        async with started(worker.engine), running(settings(worker.engine, threshold=50.0)) as router:
            asked = [ask(router, top_n=2) for _ in range(2)]
            await until(lambda: len(worker.engine.requests) == 1)
            await until(lambda: router.router.active_plan.batchers["ranks"].waiting == 1)
            worker.free.set()
            found = await asyncio.gather(*asked)
        assert [one.headers["x-cascadia-stage"] for one in found] == ["good", "good"]
        assert [one.json()["cascadia"]["usage"]["prompt_tokens"] for one in found] == [16, 16]
        assert all(len(one.json()["results"]) == 2 for one in found)

    run(main)
