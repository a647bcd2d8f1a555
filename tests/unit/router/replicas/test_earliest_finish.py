"""Replicas chosen by what is learnt of their answers: through the router, and with the simulator's own choices."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace as replace_of

from cascadia.clients.engines.held_bytes import HeldBytes
from cascadia.dispatch.answer_length import FIRST_ANSWER_TOKENS
from cascadia.dispatch.earliest_finish import SPARE, EarliestFinish
from cascadia.dispatch.latency_model import TOKENS_A_REQUEST, Coefficients, LatencyModel
from cascadia.dispatch.output_length import FEWEST
from cascadia.dispatch.simulated import Known, Simulated
from cascadia.domain.plan import Balancing
from cascadia.router.openai.bounded import MOST_SAID
from cascadia.router.replicas import admission, attempts
from cascadia.router.replicas.replica import Call
from cascadia.router.replicas.stage import Stage
from cascadia.router.settings.model import Limits, ReplicaSettings, StageSettings
from cascadia.router.telemetry import stage_record
from cascadia.router.telemetry.metrics import Metrics
from cascadia.router.telemetry.stage_record import begun
from cascadia.testing.engines import FakeEngine, begin_stream, delta, event, send, started
from cascadia.testing.routers import Running, run, running, stages, until
from cascadia_sim.cascade.stage import Replica, simulate_stage
from tests.unit.sim.machines import machine

FAST, SLOW = (0.05, 1e-5, 0.01, 1e-4), (0.1, 3e-5, 0.03, 3e-4)


def settings(*engines: FakeEngine) -> tuple[StageSettings, ...]:
    (stage,) = stages([*engines])
    return (replace(stage, balancing="earliest-finish", latency_max_s=10.0),)


def test_answers_are_learnt_from_whatever_way_they_come() -> None:
    async def main() -> None:
        engines = [FakeEngine("a"), FakeEngine("b")]
        async with started(*engines), running(settings(*engines)) as up:
            for stream in (False, True, False):
                assert (await up.chat("small", stream=stream)).status_code == 200
            assert (await up.chat("cascadia")).status_code == 200
            stage = up.router.stages[0]
            timed = stage.admission.timed
            assert timed is not None
            await until(lambda: all(r.running == 0 for r in stage.replicas))
            assert sum(model.answers for model in timed.models.values()) == 4
            assert all(replica.load == 0 for replica in stage.replicas)
            metrics = (await up.client.get("/metrics")).text
        assert 'cascadia_stage_foresees{stage="small"} 0.0' in metrics
        assert 'cascadia_latency_error{kind="1",stage="small"}' in metrics

    run(main)


def saying(usages: list[Any]) -> FakeEngine:
    """An engine that answers with 400 letters a choice, and tells one of `usages` after the other; None: none."""

    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        told, choices = usages.pop(0), body.get("n") or 1
        usage = None if told is None else {"prompt_tokens": 10, "completion_tokens": told}
        texts = ["four" * 100] * choices
        if body.get("stream"):
            begin_stream(writer)
            # As where an engine tells its usage in every event.
            for tokens in (told // 2, told):
                event(writer, {**delta("four"), "usage": {"prompt_tokens": 10, "completion_tokens": tokens}})
            event(writer, {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": told}})
            event(writer, "[DONE]")
            writer.write(b"0\r\n\r\n")
            return
        listed = [{"index": i, "message": {"content": text}} for i, text in enumerate(texts)]
        send(writer, 200, json.dumps({"choices": listed, "usage": usage}).encode())

    return FakeEngine(answer=answer)


ODD: list[tuple[list[Any], dict[str, Any]]] = [
    ([10**9, 2**24, 10**6], {}),
    ([10**9, 2**24, 10**6], {"max_tokens": 200}),
    ([0, None, None], {}),
    ([800, 800, 800], {"n": 8}),
    ([100, 100, 100], {"stream": True, "stream_options": {"include_usage": True}}),
]


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("model", ["small", "cascadia"])
@pytest.mark.parametrize(("odd", "more"), ODD, ids=["absurd", "beyond", "none", "several", "streams"])
def test_whatever_an_engine_says_of_three_answers_the_others_are_expected_to_be_as_long_as_they_are(
    model: str, odd: list[Any], more: dict[str, Any]
) -> None:
    async def main() -> None:
        usual = [100] * 150
        engine = saying([*usual, *odd, *usual, *usual])
        async with started(engine), running(settings(engine)) as up:
            timed = up.router.stages[0].admission.timed
            assert timed is not None
            for fields in [{}] * 150 + [more] * 3 + [{}] * 300:
                assert (await up.chat(model, **fields)).status_code == 200
            (learnt,) = timed.models.values()
            assert learnt.answers == 453, "each is learnt from"
            assert timed.any_length.expected() <= 300
            assert timed.length.tells
            assert timed.length.expected(15).mean == pytest.approx(100, rel=0.25)
            assert up.router.stages[0].admission.length.expected() <= 300
            metrics = (await up.client.get("/metrics")).text
        line = 'cascadia_stage_tokens_total{direction="output",stage="small"} '
        counted = sum(told for told in odd if told and told <= MOST_SAID)
        assert float(metrics.partition(line)[2].partition("\n")[0]) == 450 * 100 + counted

    run(main)


def test_several_answers_at_once_count_for_as_many_and_each_is_as_long_as_one() -> None:
    served, several = stage_of("fast", "slow"), replace_of(call_of(20), answers=8)
    timed = served.admission.timed
    assert timed is not None
    one, eight = served.admission.tokens(call_of(20)), served.admission.tokens(several)
    assert eight - 20 == 8 * (one - 20)
    begun_ = served.attempts.given(served.replicas[0], several, 0.0)
    assert served.replicas[0].load == 8 + eight / TOKENS_A_REQUEST
    assert served.replicas[0].outstanding_tokens == eight
    assert several.step is not None
    assert several.step.tried is not None
    timed.ended(several.step.tried.trial, 8 * 33, 1.0)
    assert timed.any_length.tokens == FIRST_ANSWER_TOKENS + 33
    begun_.done(True)
    assert (served.replicas[0].load, served.replicas[0].running) == (0.0, 0)


async def asked_while_kinds_come_and_go(up: Running, served: Stage) -> None:
    """Sends 120 requests, each of which is answered, while the replicas of one kind after the other drain."""
    found = []
    for kind in ("slow", "fast", "slow"):
        gone = [replica for replica in served.replicas if replica.kind == kind]
        asked = [asyncio.ensure_future(up.chat("small", stream=k % 2 == 0)) for k in range(20)]
        await asyncio.sleep(0)
        for replica in gone:
            replica.drain()
        asked += [asyncio.ensure_future(up.chat("small")) for _ in range(20)]
        found += await asyncio.gather(*asked)
        for replica in gone:
            replica.undrain()
        await until(lambda: all(replica.state == "ready" for replica in served.replicas))
    assert [answer.status_code for answer in found] == [200] * 120


def test_nothing_is_lost_while_replicas_of_a_kind_come_and_go() -> None:
    async def main() -> None:
        engines = [FakeEngine(name) for name in "abcd"]
        async with started(*engines):
            (stage,) = settings(*engines)
            kinds = zip(stage.replicas, ("fast", "fast", "slow", "slow"), strict=True)
            told = replace(stage, replicas=tuple(replace(r, kind=kind) for r, kind in kinds))
            async with running((told,)) as up:
                served = up.router.stages[0]
                await asked_while_kinds_come_and_go(up, served)
                timed = served.admission.timed
                assert timed is not None
                assert set(timed.models) == {"fast", "slow"}
                await until(lambda: all(replica.running == 0 for replica in served.replicas))

    run(main)


def test_a_new_plan_goes_on_with_what_was_learnt() -> None:
    before, after = stage_of("fast", "slow"), stage_of("fast", "slow", latency_max_s=3.0)
    after.inherit(before)
    assert after.admission.timed is before.admission.timed
    assert after.admission.latency_max_s == 3.0


@pytest.mark.parametrize("balancing", ["earliest-finish", "matching"])
def test_under_a_new_plan_replicas_are_of_the_kinds_and_begin_with_the_times_that_it_tells(
    balancing: Balancing,
) -> None:
    """As after a restart: one that stays may be another GPU's now, and one that comes of a kind nobody had."""

    async def main() -> None:
        engines = [FakeEngine(name) for name in "abc"]
        async with started(*engines):
            (stage,) = settings(*engines)
            of = [replace(r, kind="fast", latency=FAST) for r in stage.replicas]
            before = replace(stage, balancing=balancing, replicas=tuple(of[:2]))
            async with running((before,)) as up:
                timed = up.router.stages[0].admission.timed
                assert timed is not None
                await up.chat("small")
                learnt = timed.models["fast"]
                assert learnt.answers == 1
                others = [
                    replace(r, kind=kind, latency=SLOW)
                    for r, kind in zip(of[1:], ("slow", "new"), strict=True)
                ]
                now = replace(up.router.settings, stages=(replace(before, replicas=(of[0], *others)),))
                up.router.swap(now)
                (served,) = up.router.stages
                assert [replica.kind for replica in served.replicas] == ["fast", "slow", "new"]
                assert served.admission.timed is timed
                assert timed.models["fast"] is learnt
                for kind in ("slow", "new"):
                    assert timed.models[kind].seeded
                    assert timed.models[kind].coefficients == SLOW
                await until(lambda: all(replica.state == "ready" for replica in served.replicas))
                for _ in range(3):
                    assert (await up.chat("small")).status_code == 200

    run(main)


def stage_of(*kinds: str, latency_max_s: float | None = 2.0) -> Stage:
    lines = {"fast": FAST, "slow": SLOW}
    replicas = tuple(
        ReplicaSettings(f"http://127.0.0.1:{8100 + i}", kind=kind, latency=lines[kind], health_path=None)
        for i, kind in enumerate(kinds)
    )
    told = StageSettings("small", "small", replicas, balancing="earliest-finish", latency_max_s=latency_max_s)
    return Stage(told, Limits(), Metrics().stage("small"), HeldBytes(1 << 20))


def call_of(tokens: int, left_s: float = 600.0) -> Call:
    step = begun("small")
    return Call(b"/", b"", b"", tokens, None, step.started_at_s + left_s, step=step)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of calls and of who admits them, which stands still until it is set."""
    now_s = [1000.0]
    for module in (admission, attempts, stage_record):
        monkeypatch.setattr(module, "monotonic", lambda: now_s[0])
    return now_s


def test_what_a_call_has_waited_is_taken_from_the_time_that_its_answer_may_take(clock: list[float]) -> None:
    admitted, one, urgent = stage_of("fast", "slow").admission, call_of(20), call_of(20, left_s=1.5)
    assert (admitted.asked(one).left_s, admitted.asked(urgent).left_s) == (2.0, 1.5)
    clock[0] += 1.25
    assert (admitted.asked(one).left_s, admitted.asked(urgent).left_s) == (0.75, 0.25)
    clock[0] += 5.0
    assert admitted.asked(one).left_s == 0.0


def test_who_has_waited_gets_the_fast_replica_that_still_keeps_its_time(clock: list[float]) -> None:
    """The slow one, which costs less, answers in 1.1 s, and the fast one, which is busy, in 0.7 s."""
    served, one = stage_of("fast", "slow", latency_max_s=6.0), call_of(20)
    assert served.admission.timed is not None
    served.admission.timed.length.tells = True
    for _ in range(FEWEST):
        served.admission.timed.length.seen(20, 33)
    fast, slow = served.replicas
    fast.running, fast.load = 85, 85.0
    assert served.admission.free(one, ()) is slow
    clock[0] += 6.0 - 0.85 * SPARE
    assert served.admission.free(one, ()) is fast


class Twin:
    """The router's admission beside the simulator's rule, told the same: they choose alike, each time."""

    def __init__(self, stage: Stage, rule: Simulated) -> None:
        self.stage, self.rule = stage, rule
        self.given: dict[int, Any] = {}
        self.choices: set[int] = set()
        self.relied: list[bool] = []

    def choose(self, request: int, input_tokens: int, now_s: float) -> int:
        chosen = self.rule.choose(request, input_tokens, now_s)
        call = call_of(input_tokens)
        replica = self.stage.admission.free(call, ())
        assert replica is self.stage.replicas[chosen]
        assert self.stage.admission.timed is not None
        assert self.stage.admission.timed.relied == self.rule.rule.relied
        self.relied.append(self.rule.rule.relied)
        done = self.stage.attempts.given(replica, call, now_s).done
        assert call.step is not None
        assert call.step.tried is not None
        self.given[request] = done, call.step.tried.trial, now_s
        self.choices.add(chosen)
        return chosen

    def ended(self, request: int, replica: int, output_tokens: int, now_s: float) -> None:
        self.rule.ended(request, replica, output_tokens, now_s)
        done, trial, since_s = self.given.pop(request)
        done(True)
        timed = self.stage.admission.timed
        assert timed is not None
        timed.ended(trial, output_tokens, now_s - since_s)


@pytest.mark.usefixtures("clock")
def test_router_and_simulator_choose_alike_and_begin_and_stop_to_go_by_lengths_at_the_same_choice() -> None:
    """Prompts tell lengths at first, which has to be learnt, and later nothing of them."""
    stage, rng, n = stage_of("fast", "slow", "fast", "slow"), np.random.default_rng(0), 1500
    models = {
        kind: LatencyModel(Coefficients(*line), seeded=True)
        for kind, line in (("fast", FAST), ("slow", SLOW))
    }
    known = [Known(f"{i}", kind) for i, kind in enumerate(("fast", "slow", "fast", "slow"))]
    assert stage.admission.timed is not None
    least = replace(stage.admission.timed.least)
    twin = Twin(stage, Simulated(EarliestFinish(models, least=least), known, latency_max_s=2.0))
    step_ps = {"fast": 10**10, "slow": 3 * 10**10}
    replicas = [
        Replica(
            machine(token_ps=np.arange(100, 400, dtype=np.int64) * step_ps[k.kind] // 100, seqs=16, kv=20_000)
        )
        for k in known
    ]
    arrival_ps = np.cumsum(rng.exponential(0.01, n) * 10**12).astype(np.int64)
    read = rng.integers(1, 80, n)
    wrote = np.where(np.arange(n) < 600, 1 + 3 * read // 4, rng.integers(1, 60, n))
    simulate_stage(replicas, "least-outstanding", arrival_ps, read, wrote, np.zeros(n, np.int64), rule=twin)
    assert twin.choices == {0, 1, 2, 3}
    assert (twin.relied[0], True in twin.relied, twin.relied[-1]) == (False, True, False)
