"""Batches: who goes together and first, that one bad input fails alone, and that each is answered once."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import pytest
from pyarrow import parquet

from cascadia.domain.policy import Policies, Policy, PolicyRow
from cascadia.router.openai.one_pass import refused_at
from cascadia.router.settings.groups import GroupSection, MinQueueSection, minimum_queue
from cascadia.router.settings.model import (
    GroupSettings,
    ReplicaSettings,
    RouterSettings,
    SampleSettings,
    StageSettings,
)
from cascadia.testing.engines import FakeEngine, send
from cascadia.testing.one_pass import classification, classifier
from cascadia.testing.routers import QUICK, Running, run, running, started, until


def greedy(models: tuple[str, ...] = ("quick", "good"), **more: Any) -> Policies:
    """`good` for one that waits alone, `quick` for all that wait together."""
    rows = [PolicyRow((0.0,), (models[-1],), (1,))]
    rows += [PolicyRow((0.0,), (models[0],), (n,)) for n in range(2, 33)]
    told: dict[str, Any] = {"slo_s": 5.0, "workers": 1, "queue": "central", "index": "rate"}
    return Policies("intent", models, levels=(Policy(100.0, tuple(rows)),), **told | more)


def settings(
    engines: Sequence[FakeEngine], policies: Policies | None, section: GroupSection
) -> RouterSettings:
    """A group `intent` of two models, each at all `engines`."""
    replicas = tuple(ReplicaSettings(engine.url) for engine in engines)
    stages = tuple(
        StageSettings(name, name, replicas, bar, task="classify", group="intent")
        for name, bar in (("quick", 50.0), ("good", 0.0))
    )
    own = {stage.name: minimum_queue(stage.name, section, len(engines)) for stage in stages}
    return RouterSettings(stages, None, groups=(GroupSettings("intent", own, policies),), health=QUICK)


SLO_S = 0.5
"""Longer than a busy machine holds up a request that is to be sent at once."""
SECTION = GroupSection(name="intent")


class Slow:
    """A worker that answers what it was asked when `free` is set, and keeps what came together."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.batches: list[list[str]] = []
        self.models: list[str] = []
        self.kills = 0
        self.engine = FakeEngine(answer=self._answer)

    async def _answer(self, engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        texts = body["input"]
        self.batches.append(texts)
        self.models.append(body["model"])
        if self.kills:
            self.kills -= 1
            writer.transport.abort()
            return
        await self.free.wait()
        if "poison" in texts:
            send(writer, 400, b'{"error":{"message":"cannot be read","code":"bad"}}')
        else:
            send(writer, 200, classification([[0.6, 0.4] for _ in texts]))


def ask(
    router: Running, text: str | list[str], model: str = "intent", **more: Any
) -> "asyncio.Task[httpx.Response]":
    body = {"model": model, "input": text} | more
    return asyncio.create_task(router.client.post("/v1/classify", json=body))


def test_what_waits_when_a_worker_is_free_goes_together_as_the_policy_says() -> None:
    async def main() -> None:
        slow = Slow()
        async with started(slow.engine), running(settings([slow.engine], greedy(), SECTION)) as router:
            first = ask(router, "0")
            await until(lambda: len(slow.batches) == 1)
            rest = [ask(router, str(n)) for n in range(1, 6)]
            await until(lambda: router.router.active_plan.batchers["intent"].waiting == 5)
            slow.free.set()
            found = await asyncio.gather(first, *rest)
        assert slow.models == ["good", "quick"]
        assert sorted(slow.batches[1]) == ["1", "2", "3", "4", "5"]
        assert [one.status_code for one in found] == [200] * 6
        assert [one.headers["x-cascadia-stage"] for one in found] == ["good"] + ["quick"] * 5
        assert found[1].json()["data"][0]["index"] == found[5].json()["data"][0]["index"] == 0
        assert {one.json()["usage"]["prompt_tokens"] for one in found} == {5}
        assert len({one.json()["id"] for one in found}) == 6

    run(main)


def test_each_request_in_a_batch_is_an_arrival_of_the_samples(tmp_path: Path) -> None:
    async def main() -> None:
        worker = classifier(lambda text: [0.6, 0.4])
        async with started(worker):
            sampled = replace(settings([worker], greedy(), SECTION), samples=SampleSettings(tmp_path))
            async with running(sampled) as router:
                await asyncio.gather(*[ask(router, str(n)) for n in range(3)])
                await ask(router, ["a", "b"])

    run(main)
    (file,) = tmp_path.glob("arrivals-*.parquet")
    assert parquet.read_table(file).num_rows == 4


def test_the_earliest_deadline_goes_first() -> None:
    async def main() -> None:
        slow = Slow()
        one = PolicyRow((0.0,), ("quick",), (1,))
        singly = Policies(
            *("intent", ("quick",)),
            slo_s=9.0,
            workers=1,
            queue="central",
            index="rate",
            levels=(Policy(1.0, (one,)),),
        )
        async with started(slow.engine), running(settings([slow.engine], singly, SECTION)) as router:
            tasks = [ask(router, "first")]
            await until(lambda: len(slow.batches) == 1)
            batcher = router.router.active_plan.batchers["intent"]
            for at, (text, ms) in enumerate((("late", 8000), ("soon", 2000), ("between", 5000)), start=1):
                tasks.append(ask(router, text, deadline_ms=ms))
                await until(lambda at=at: batcher.waiting == at)  # type: ignore[misc]
            slow.free.set()
            await asyncio.gather(*tasks)
        assert slow.batches == [["first"], ["soon"], ["between"], ["late"]]

    run(main)


def test_one_bad_input_among_32_fails_alone() -> None:
    async def main() -> None:
        slow = Slow()
        async with started(slow.engine), running(settings([slow.engine], greedy(), SECTION)) as router:
            tasks = [ask(router, "0")]
            await until(lambda: len(slow.batches) == 1)
            tasks += [ask(router, "poison" if n == 13 else str(n)) for n in range(1, 33)]
            await until(lambda: router.router.active_plan.batchers["intent"].waiting == 32)
            slow.free.set()
            found = await asyncio.gather(*tasks)
        assert [one.status_code for one in found] == [200] * 13 + [400] + [200] * 19
        assert found[13].json()["error"]["code"] == "bad"
        assert [len(batch) for batch in slow.batches if "poison" in batch] == [32, 16, 8, 4, 2, 1]

    run(main)


def test_a_bad_input_is_told_with_its_place_in_the_clients_own_list() -> None:
    """Whatever batches it went out in, and from whichever stage it comes."""

    async def main() -> None:
        slow = Slow()
        slow.free.set()
        texts = ["0", "1", "poison", "3"]
        async with started(slow.engine), running(settings([slow.engine], greedy(), SECTION)) as router:
            grouped = await ask(router, texts)
            alone = await ask(router, "poison")
        engine = classifier(lambda _: [0.9, 0.1])
        async with started(engine), running(settings([engine], None, SECTION)) as router:
            cascaded = await ask(router, ["0", "poison", "2"], "cascadia")
        assert grouped.json()["error"]["message"] == "input[2]: cannot be read"
        assert grouped.json()["error"]["param"] == "input[2]"
        assert alone.json()["error"]["message"] == "cannot be read"
        assert cascaded.json()["error"]["message"] == "input[1]: cannot be read"

    run(main)


def test_places_are_those_of_what_was_sent_on() -> None:
    body = b'{"error":{"message":"input[1]: The text is empty.","param":"input[1]","code":"c"}}'
    told = json.loads(refused_at(body, [2, 5]))["error"]
    assert told == {"message": "input[5]: The text is empty.", "param": "input[5]", "code": "c"}
    # As older engines write it; of one that was sent alone there is no doubt.
    assert json.loads(refused_at(b'{"message":"too long"}', [7]))["message"] == "input[7]: too long"
    for odd in (
        b"",
        b"[]",
        b"null",
        b'{"error":7}',
        b'{"error":{"message":null}}',
        b"\xff",
        b'{"message":"?"}',
    ):
        assert refused_at(odd, [1, 2]) == odd


def test_who_has_long_texts_cut_shares_no_batch_with_who_has_not() -> None:
    async def main() -> None:
        slow = Slow()
        async with started(slow.engine), running(settings([slow.engine], greedy(), SECTION)) as router:
            tasks = [ask(router, "0")]
            await until(lambda: len(slow.batches) == 1)
            tasks += [
                ask(router, f"{n}", **({"truncate_prompt_tokens": -1} if n % 2 else {})) for n in range(6)
            ]
            await until(lambda: router.router.active_plan.batchers["intent"].waiting == 6)
            slow.free.set()
            found = await asyncio.gather(*tasks)
        assert {one.status_code for one in found} == {200}
        assert sorted(map(sorted, slow.batches[1:])) == [["0", "2", "4"], ["1", "3", "5"]]
        asked = {
            bool(int(r["input"][0]) % 2): r.get("truncate_prompt_tokens") for r in slow.engine.requests[1:]
        }
        assert asked == {False: None, True: -1}

    run(main)


def test_a_batch_whose_worker_is_gone_is_answered_by_another() -> None:
    async def main() -> None:
        killed, other = Slow(), Slow()
        other.free.set()
        killed.kills = 1
        killed.free.set()
        both = [killed.engine, other.engine]
        section = GroupSection(name="intent", slo_ms=60_000, max_wait_ms=9_000, min_queue=[_lengths(16)])
        async with started(*both), running(settings(both, None, section)) as router:
            found = await asyncio.gather(*(ask(router, str(n), "quick") for n in range(16)))
        assert [one.status_code for one in found] == [200] * 16
        answered = [text for batch in (*killed.batches, *other.batches) for text in batch]
        assert sorted(answered) == sorted([*map(str, range(16))] * 2)

    run(main)


def _lengths(least: int) -> MinQueueSection:
    return MinQueueSection(up_to_rps=1000.0, lengths={"quick": least})


def test_a_batch_waits_for_its_least_length_but_not_for_ever() -> None:
    async def main() -> None:
        slow = Slow()
        slow.free.set()
        section = GroupSection(name="intent", slo_ms=900, max_wait_ms=300, min_queue=[_lengths(4)])
        async with started(slow.engine), running(settings([slow.engine], None, section)) as router:
            await asyncio.gather(*(ask(router, str(n), "quick") for n in range(4)))
            alone = await ask(router, "alone", "quick")
        assert [len(batch) for batch in slow.batches] == [4, 1]
        assert 0.28 < alone.elapsed.total_seconds() < 2

    run(main)


@pytest.mark.parametrize("model", ["intent", "cascadia"])
def test_who_leaves_is_left_out_and_the_others_are_answered(model: str) -> None:
    async def main() -> None:
        slow = Slow()
        async with started(slow.engine), running(settings([slow.engine], greedy(), SECTION)) as router:
            batcher = router.router.active_plan.batchers["intent"]
            first = ask(router, "0", model)
            await until(lambda: len(slow.batches) == 1)
            tasks = [ask(router, str(n), model) for n in range(1, 4)]
            await until(lambda: batcher.waiting == 3)
            tasks[1].cancel()
            await until(lambda: len(router.lines) == 1)
            slow.free.set()
            found = await asyncio.gather(first, tasks[0], tasks[2])
        assert [one.status_code for one in found] == [200] * 3
        assert slow.batches[1] == ["1", "3"]
        assert router.lines[0]["status"] == 499

    run(main)


@pytest.mark.parametrize("model", ["intent", "quick", "cascadia"])
def test_who_gave_a_deadline_and_waits_for_a_worker_that_hangs_is_told_by_then(model: str) -> None:
    async def main() -> None:
        slow = Slow()
        async with started(slow.engine), running(settings([slow.engine], greedy(), SECTION)) as router:
            patient = ask(router, "0", model)
            await until(lambda: len(slow.batches) == 1)
            behind = ask(router, "1", model, deadline_ms=100)
            assert (await asyncio.wait_for(behind, 60)).status_code == 504
            slow.free.set()
            assert (await patient).status_code == 200
        assert ["1"] not in slow.batches

    run(main)


@pytest.mark.parametrize("model", ["quick", "cascadia"])
def test_who_gave_a_deadline_is_told_by_then_though_others_of_the_batch_wait_on(model: str) -> None:
    async def main() -> None:
        slow = Slow()
        section = GroupSection(name="intent", slo_ms=60_000, max_wait_ms=9_000, min_queue=[_lengths(2)])
        async with started(slow.engine), running(settings([slow.engine], None, section)) as router:
            patient = ask(router, "0", model)
            hurried = ask(router, "1", model, deadline_ms=300)
            assert (await asyncio.wait_for(hurried, 60)).status_code == 504
            slow.free.set()
            assert (await patient).status_code == 200
        assert sorted(slow.batches[0]) == ["0", "1"]

    run(main)


def test_a_batch_that_nobody_waits_for_is_broken_off() -> None:
    async def main() -> None:
        slow = Slow()
        async with started(slow.engine), running(settings([slow.engine], greedy(), SECTION)) as router:
            only = ask(router, "0")
            await until(lambda: len(slow.batches) == 1)
            only.cancel()
            await slow.engine.left.wait()
            slow.free.set()
            assert (await ask(router, "next")).status_code == 200

    run(main)


def test_the_cascade_sends_its_inputs_in_batches() -> None:
    async def main() -> None:
        engine = classifier(lambda text: [0.55, 0.45] if "hard" in text else [0.9, 0.1])
        async with started(engine), running(settings([engine], None, SECTION)) as router:
            found = await ask(router, ["easy", "hard", "easy too"], "cascadia")
        assert [request["model"] for request in engine.requests] == ["quick", "good"]
        assert engine.requests[1]["input"] == ["hard"]
        assert found.json()["cascadia"]["stages"] == ["quick", "good", "quick"]
        assert found.json()["usage"]["prompt_tokens"] == 15

    run(main)


def test_without_thresholds_the_cascades_own_name_is_served_by_the_policies() -> None:
    async def main() -> None:
        for threshold, models in ((0.0, ["good"]), (60.0, ["quick", "good"])):
            engine = classifier(lambda _: [0.55, 0.45])
            async with started(engine):
                told = settings([engine], greedy(), SECTION)
                first = replace(told.stages[0], threshold=threshold)
                async with running(replace(told, stages=(first, told.stages[1]))) as router:
                    assert (await ask(router, "a", "cascadia")).status_code == 200
            assert [request["model"] for request in engine.requests] == models

    run(main)


def test_where_no_worker_is_left_everybody_is_told() -> None:
    async def main() -> None:
        slow = Slow()
        async with started(slow.engine), running(settings([slow.engine], greedy(), SECTION)) as router:
            slow.engine.healthy = False
            await until(lambda: router.router.stages[0].replicas[0].state == "down")
            await until(lambda: router.router.stages[1].replicas[0].state == "down")
            found = await ask(router, "a")
        assert (found.status_code, found.json()["error"]["code"]) == (503, "stage_unavailable")

    run(main)


def test_whom_a_policy_refuses_beside_a_batch_is_told_at_once() -> None:
    async def main() -> None:
        slow = Slow()
        rows = (PolicyRow((0.0,), ("good",), (1,)), PolicyRow((0.0,), ("quick",), (1,), (True,)))
        refuses = replace(greedy(), late="drop", levels=(Policy(100.0, rows),))
        async with started(slow.engine), running(settings([slow.engine], refuses, SECTION)) as router:
            first = ask(router, "0")
            await until(lambda: len(slow.batches) == 1)
            later = [ask(router, each) for each in "123"]
            await until(lambda: router.router.active_plan.batchers["intent"].waiting == 3)
            slow.free.set()
            found = await asyncio.gather(first, *later)
            assert router.router.active_plan.batchers["intent"].waiting == 0
        assert sorted(one.status_code for one in found) == [200, 200, 504, 504]
        assert len(slow.batches) == 2

    run(main)


def test_who_has_less_time_than_the_fastest_takes_is_dropped() -> None:
    async def main() -> None:
        slow = Slow()
        drops = replace(greedy(), late="drop", slo_s=5.0, least_s=4.9)
        async with started(slow.engine), running(settings([slow.engine], drops, SECTION)) as router:
            first = ask(router, "0")
            await until(lambda: len(slow.batches) == 1)
            late = ask(router, "late")
            await until(lambda: router.router.active_plan.batchers["intent"].waiting == 1)
            too_late_s = monotonic() + 0.1
            await until(lambda: monotonic() > too_late_s)
            slow.free.set()
            found = await asyncio.gather(first, late)
        assert [one.status_code for one in found] == [200, 504]

    run(main)


def test_a_late_request_is_dropped_where_the_policy_drops() -> None:
    async def main() -> None:
        slow = Slow()
        drops = replace(greedy(), late="drop", slo_s=SLO_S)
        async with started(slow.engine), running(settings([slow.engine], drops, SECTION)) as router:
            first = ask(router, "0")
            await until(lambda: len(slow.batches) == 1)
            late = ask(router, "late")
            await until(lambda: router.router.active_plan.batchers["intent"].waiting == 1)
            too_late_s = monotonic() + SLO_S
            await until(lambda: monotonic() > too_late_s)
            slow.free.set()
            found = await asyncio.gather(first, late)
        assert [one.status_code for one in found] == [200, 504]

    run(main)
