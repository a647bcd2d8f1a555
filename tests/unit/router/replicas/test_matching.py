"""Requests that wait at the router for the replica that suits them: through the router, and as the simulator has it."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from time import monotonic
from typing import Any

import numpy as np
import pytest

from cascadia.clients.engines.held_bytes import HeldBytes
from cascadia.dispatch.latency_model import Coefficients, LatencyModel
from cascadia.dispatch.matching import Matching
from cascadia.dispatch.simulated import Known, SimulatedMatching
from cascadia.router.replicas import admission, attempts, stage
from cascadia.router.replicas.replica import Call
from cascadia.router.replicas.replica import Replica as RouterReplica
from cascadia.router.replicas.stage import Stage
from cascadia.router.settings.model import Limits, ReplicaSettings, StageSettings
from cascadia.router.telemetry import stage_record
from cascadia.router.telemetry.metrics import Metrics
from cascadia.router.telemetry.stage_record import begun
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import run, running, stages, until
from cascadia_sim.cascade.stage import Replica, simulate_stage
from tests.unit.router.replicas.test_earliest_finish import asked_while_kinds_come_and_go
from tests.unit.sim.machines import machine

LINES = {"fast": (0.05, 1e-5, 0.01, 1e-4), "slow": (0.1, 3e-5, 0.03, 3e-4)}


def settings(*kinds: str, places: int = 2, latency_max_s: float | None = 2.0) -> StageSettings:
    replicas = tuple(
        ReplicaSettings(f"http://127.0.0.1:{8100 + i}", 1.0, places, None, kind=kind, latency=LINES[kind])
        for i, kind in enumerate(kinds)
    )
    return StageSettings("small", "small", replicas, balancing="matching", latency_max_s=latency_max_s)


def served_by(*engines: FakeEngine, places: int = 2) -> tuple[StageSettings, ...]:
    (told,) = stages([*engines])
    kinds = zip(told.replicas, ("fast", "slow") * len(engines), strict=False)
    replicas = tuple(replace(r, kind=kind, latency=LINES[kind], max_concurrency=places) for r, kind in kinds)
    return (replace(told, replicas=replicas, balancing="matching", latency_max_s=10.0),)


def test_nothing_is_lost_while_replicas_of_a_kind_come_and_go_and_requests_wait() -> None:
    async def main() -> None:
        engines = [FakeEngine(name) for name in "abcd"]
        async with started(*engines), running(served_by(*engines)) as up:
            served = up.router.stages[0]
            matching = served.admission.matching
            assert matching is not None
            matching.length.tells = True
            await asked_while_kinds_come_and_go(up, served)
            await until(lambda: all(replica.running == 0 for replica in served.replicas))
            assert all(replica.load == 0 for replica in served.replicas)
            assert not served.wait_queue.tickets
            metrics = (await up.client.get("/metrics")).text
        assert matching.matches > 0
        assert f'cascadia_matches_total{{stage="small"}} {float(matching.matches)}' in metrics
        assert 'cascadia_slow_matches_total{stage="small"}' in metrics

    run(main)


def test_who_goes_away_gives_back_what_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    # A match that a busy machine makes slow is followed by others' choices.
    monkeypatch.setattr(admission, "perf_counter", lambda: 0.0)

    async def main() -> None:
        one = stage_of("fast", places=1)
        assert one.admission.matching is not None
        one.admission.matching.length.tells = True
        replica = one.replicas[0]
        end = one.attempts.given(replica, call(), monotonic()).done
        waiting = [asyncio.ensure_future(one.admission.replica(call(), [], monotonic() + 60)) for _ in "ab"]
        await asyncio.sleep(0)
        assert len(one.wait_queue) == 2
        end(True)
        assert replica.running == 1, "kept for the first"
        waiting[0].cancel()
        await asyncio.sleep(0)
        assert await waiting[1] is replica
        assert replica.running == 0

    run(main)


def test_who_waits_is_told_when_no_replica_is_left() -> None:
    async def main() -> None:
        one = stage_of("fast", places=1)
        one.attempts.given(one.replicas[0], call(), monotonic())
        waiting = asyncio.ensure_future(one.admission.replica(call(), [], monotonic() + 60))
        await asyncio.sleep(0)
        one.replicas[0].state = "down"
        one.wait_queue.wake()
        with pytest.raises(Exception, match="no-replica"):
            await waiting

    run(main)


def test_a_plan_that_goes_back_to_another_balancing_serves_those_who_wait() -> None:
    async def main() -> None:
        one = stage_of("fast", places=1)
        end = one.attempts.given(one.replicas[0], call(), monotonic()).done
        waiting = asyncio.ensure_future(one.admission.replica(call(), [], monotonic() + 60))
        await asyncio.sleep(0)
        other = Stage(
            replace(one.settings, balancing="least-outstanding"),
            Limits(),
            Metrics().stage("small"),
            HeldBytes(1),
        )
        other.inherit(one)
        assert other.admission.matching is None
        end(True)
        assert await waiting is one.replicas[0]

    run(main)


def stage_of(*kinds: str, places: int = 2) -> Stage:
    return Stage(settings(*kinds, places=places), Limits(), Metrics().stage("small"), HeldBytes(1 << 20))


def call(tokens: int = 20) -> Call:
    return Call(b"/", b"", b"", tokens, None, monotonic() + 600, step=begun("small"))


class Twin:
    """The router's admission, on a clock that is set, beside the simulator's rule: both place alike, each time."""

    def __init__(self, served: Stage, rule: SimulatedMatching, clock: list[float]) -> None:
        self.served, self.rule, self.clock = served, rule, clock
        self.asked: dict[int, Call] = {}
        self.waiting: dict[int, Coroutine[Any, Any, RouterReplica]] = {}
        self.given: dict[int, Any] = {}
        self.ends: list[Any] = []
        self.waited = 0
        self.relied: list[bool] = []

    @property
    def waits(self) -> bool:
        return self.rule.waits

    @property
    def again_s(self) -> float:
        return self.rule.again_s

    def came(self, request: int, input_tokens: int, now_s: float) -> None:
        self.clock[0] = now_s
        self._end()
        self.rule.came(request, input_tokens, now_s)
        self.relied.append(self.rule.rule.relied)
        one = Call(b"/", b"", b"", input_tokens, None, now_s + 1e6, step=begun("small"))
        self.asked[request] = one
        coroutine = self.served.admission.replica(one, [], now_s + 1e6)
        self._go_on(request, coroutine, now_s)

    def placed(self, now_s: float) -> Any:
        self.clock[0] = now_s
        self._end()
        pairs = self.rule.placed(now_s)
        left = -1
        while left != len(self.waiting):
            left = len(self.waiting)
            for request, coroutine in list(self.waiting.items()):
                self._go_on(request, coroutine, now_s)
            if left != len(self.waiting):
                # As the loop would, once who was placed is counted.
                self.served.wait_queue.wake()
        for request, at in pairs:
            assert self.given[request][0] is self.served.replicas[at], "both choose alike"
        assert set(self.waiting) == {one.request for one in self.rule.waiting}
        return pairs

    def ended(self, request: int, replica: int, output_tokens: int, now_s: float) -> None:
        self.rule.ended(request, replica, output_tokens, now_s)
        _, done, trial, since_s = self.given.pop(request)
        timed = self.served.admission.timed
        assert timed is not None
        self.ends.append((done, trial, output_tokens, now_s - since_s))

    def _end(self) -> None:
        """What ended at one moment, the simulator's rule looks at together."""
        queue = self.served.wait_queue
        ended, self.ends = self.ends, []
        matches, queue.matches = queue.matches, lambda: True
        timed = self.served.admission.timed
        assert timed is not None
        for done, trial, output_tokens, seconds in ended:
            done(True)
            timed.ended(trial, output_tokens, seconds)
        queue.matches = matches
        if queue.tickets:
            queue.wake()

    def _go_on(self, request: int, coroutine: Coroutine[Any, Any, RouterReplica], now_s: float) -> None:
        future = self.waiting.pop(request, None) and self.futures.pop(request)
        if future and not future.done():
            self.waiting[request], self.futures[request] = coroutine, future
            return
        try:
            self.futures[request] = coroutine.send(None)
        except StopIteration as end:
            replica = end.value
            one = self.asked.pop(request)
            done = self.served.attempts.given(replica, one, now_s).done
            assert one.step is not None
            assert one.step.tried is not None
            self.given[request] = replica, done, one.step.tried.trial, now_s
        else:
            self.waiting[request] = coroutine
            self.waited += 1

    futures: dict[int, Any] = {}  # noqa: RUF012


def test_router_and_simulator_place_alike_before_and_after_lengths_are_gone_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds, clock, n = ("fast", "slow", "fast", "slow"), [0.0], 600
    for module in (admission, attempts, stage, stage_record):
        monkeypatch.setattr(module, "monotonic", lambda: clock[0])
    monkeypatch.setattr(admission, "perf_counter", lambda: 0.0)

    async def main() -> None:
        served, rng = stage_of(*kinds), np.random.default_rng(0)
        models = {kind: LatencyModel(Coefficients(*LINES[kind]), seeded=True) for kind in LINES}
        known = [Known(f"small-{i}", kind, max_concurrency=2) for i, kind in enumerate(kinds)]
        assert served.admission.matching is not None
        rule = Matching(models, least=replace(served.admission.matching.least))
        twin = Twin(served, SimulatedMatching(rule, known, latency_max_s=2.0), clock)
        step_ps = {"fast": 10**10, "slow": 3 * 10**10}
        replicas = [
            Replica(
                machine(
                    token_ps=np.arange(100, 400, dtype=np.int64) * step_ps[k.kind] // 100, seqs=2, kv=20_000
                )
            )
            for k in known
        ]
        arrival_ps = np.cumsum(rng.exponential(0.06, n) * 10**12).astype(np.int64)
        read = rng.integers(1, 80, n)
        wrote = 1 + 3 * read // 4
        none = np.zeros(n, np.int64)
        run_ = simulate_stage(replicas, "least-outstanding", arrival_ps, read, wrote, none, rule=twin)
        assert set(run_.replica.tolist()) == {0, 1, 2, 3}
        assert twin.waited > 0.2 * n
        assert rule.matches > 0.3 * n
        assert (twin.relied[0], twin.relied[-1]) == (False, True)

    run(main)
