"""A deployment on the workload, end to end: stages, judge and escalation (DESIGN section 5.6)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cascadia.dispatch.earliest_finish import EarliestFinish
from cascadia.dispatch.latency_model import Coefficients, LatencyModel
from cascadia.dispatch.seed import REQUESTS, seed_of
from cascadia.dispatch.simulated import Known, Simulated, SimulatedMatching
from cascadia.domain.plan import LEARNS, Balancing
from cascadia.domain.problem import Problem
from cascadia.planner.allocation.demand import JUDGE, Replicas
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.deployment.options import Mix
from cascadia.planner.routing.routings import Decisions
from cascadia.planner.tables.loads import (
    Load,
    arrival_ps,
    cached_tokens,
    found_in,
    keeps_blocks,
    verdict_reads,
    verdicts_each,
)
from cascadia.planner.tables.shapes import Shape
from cascadia_sim.cascade.by_rule import MakeRule, QueueingRule, Rule
from cascadia_sim.cascade.cascade import CascadeRun, CascadeStage, JudgeStage, simulate_cascade
from cascadia_sim.cascade.elsewhere import Elsewhere, simulate_elsewhere
from cascadia_sim.cascade.first_stage import FirstRuns
from cascadia_sim.cascade.stage import Replica, simulate_stage
from cascadia_sim.engine.dispatch import DEFAULT
from cascadia_sim.engine.results import quantile
from cascadia_sim.iteration.timing import PS_PER_S, ReplicaTiming

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WEIGHT_DIGITS = 9
Z95 = 1.6448536269514722
"""Of the normal distribution's 95th percentile."""


@dataclass(frozen=True, eq=False)
class Simulator:
    """Common random numbers: every deployment sees the same requests, rows of the table and judge delays."""

    problem: Problem
    arrivals: Ints
    cached: Ints
    delays: Ints | None
    apis: tuple[Elsewhere | None, ...]
    """By stage; None: it is on GPUs of ours."""
    lines: dict[tuple[int, bytes], tuple[ReplicaTiming, Coefficients]] = field(default_factory=dict)
    """What was worked out for rules that learn, by replica and lengths."""
    first_runs: FirstRuns = field(default_factory=FirstRuns)

    @staticmethod
    def of(problem: Problem, first_runs: FirstRuns | None = None) -> "Simulator":
        """`first_runs`: those of other simulators, to be shared."""
        cached = np.stack([cached_tokens(problem, s) for s in range(len(problem.stages))])
        return Simulator(
            problem,
            arrival_ps(problem),
            cached,
            verdict_delays(problem),
            apis_of(problem),
            first_runs=FirstRuns() if first_runs is None else first_runs,
        )

    def run(self, deployment: Deployment, decided: Decisions) -> CascadeRun:
        """`decided` on each request, given the routing."""
        w = self.problem.workload
        tried = ~decided.judged & (verdicts_each(self.problem, decided.judged) > 0)
        reached = decided.reached
        stages = [
            CascadeStage(
                replicas=replicas_of(deployment.mix(s)),
                input_tokens=w.input_tokens[s],
                output_tokens=w.output_tokens[s],
                cached_tokens=self._cached(s, deployment.mix(s), reached[s]),
                accept=decided.accepts[s],
                enter=decided.enters[s],
                judged=decided.judged[s],
                tried=tried[s],
                elsewhere=self.apis[s] if decided.enters[s].any() else None,
                rule=self.rule(s, deployment.mix(s)),
            )
            for s in range(len(self.problem.stages))
        ]
        looked_ps = round(self.problem.foresight_s * PS_PER_S)
        foresight_ps = np.where(decided.foresees.any(axis=0), np.int64(looked_ps), np.int64(0))
        gate = self._gate(deployment.mix(JUDGE), decided.judged)
        return simulate_cascade(
            stages, gate, self.arrivals, foresight_ps=foresight_ps, first_runs=self.first_runs
        )

    def rule(self, stage: int, mix: Mix) -> MakeRule | None:
        """The router's own code, where the stage's replicas share its requests by what they learn."""
        balancing = self.problem.stages[stage].balancing
        if balancing not in LEARNS or (balancing == "earliest-finish" and sum(r.count for r in mix) == 1):
            # The only replica gets all requests by any rule that keeps none waiting.
            return None
        w = self.problem.workload
        lines = {r.shape: self._line(r.shape, w.input_tokens[stage], w.output_tokens[stage]) for r in mix}
        return partial(learning_rule, balancing, mix, lines, self.problem.objective.latency_max_s)

    def _line(self, shape: Shape, read: Ints, wrote: Ints) -> Coefficients:
        """Latency that a replica of `shape` is taken to have before any answer is there, once for such lengths."""
        key = id(shape.timing), read[:REQUESTS].tobytes() + wrote[:REQUESTS].tobytes()
        if key not in self.lines:
            self.lines[key] = shape.timing, seed_of(shape.timing, read, wrote)
        return self.lines[key][1]

    def _cached(self, stage: int, mix: Mix, reached: NDArray[np.bool_]) -> Ints:
        """A hit rate's, or what these very replicas' caches hold."""
        if not keeps_blocks(self.problem, stage):
            held: Ints = self.cached[stage]
            return held
        return found_in(self.problem, stage, reached, replicas_of(mix))

    def _gate(self, mix: Mix, gated: Bools) -> JudgeStage | None:
        """The judge; None where nothing is judged (a self-hosted judge without a replica)."""
        judge, told = self.problem.judge, self.problem.quality.verdicts
        if not mix and self.delays is None:
            return None
        return JudgeStage(
            replicas=replicas_of(mix),
            prompt_tokens=judge.prompt_tokens,
            output_tokens=judge.output_tokens,
            latency_ps=None if self.delays is None else self.delays * verdicts_each(self.problem, gated),
            read_tokens=None if told is None or not mix else verdict_reads(self.problem, gated),
            verdicts=None if told is None or not mix else verdicts_each(self.problem, gated),
        )

    def latency_s(self, run: CascadeRun) -> Floats:
        latency: Floats = (run.finish_ps - self.arrivals) / PS_PER_S
        return latency


def apis_of(problem: Problem) -> tuple[Elsewhere | None, ...]:
    """Stages elsewhere, with times for each request, drawn once from the problem's seed."""
    return tuple(None if s.external is None else _api(problem, at) for at, s in enumerate(problem.stages))


def _api(problem: Problem, stage: int) -> Elsewhere:
    api = problem.stages[stage].external
    assert api is not None
    tokens, random = problem.workload.output_tokens[stage], np.random.default_rng((problem.seed, stage))
    ttft_s = _lognormal(random, api.ttft_p50_s, api.ttft_p95_s, len(tokens))
    tpot_s = _lognormal(random, api.tpot_p50_s, api.tpot_p95_s, len(tokens))
    first_ps = np.rint(ttft_s * PS_PER_S).astype(np.int64)
    rest_ps = np.rint((tokens - 1) * tpot_s * PS_PER_S).astype(np.int64)
    return Elsewhere(first_ps, first_ps + rest_ps, api.requests_per_minute)


def _lognormal(random: np.random.Generator, p50: float, p95: float, count: int) -> Floats:
    """Draws through both quantiles; all alike where these are."""
    normal = random.standard_normal(count)
    if p50 <= 0:
        return np.zeros(count)
    return np.asarray(p50 * np.exp(np.log(max(p95 / p50, 1.0)) / Z95 * normal), np.float64)


def replicas_of(mix: Mix) -> tuple[Replica, ...]:
    """One entry per replica, weighted by the share of work that its level stands for; the largest weight is 1.

    In the order of a written plan, and rounded: so that a plan that is read back, with its shares for levels, does not
    differ in how ties fall.
    """
    least = min((r.level for r in mix), default=1.0)
    ordered = sorted(mix, key=_written_order)
    return tuple(
        Replica(r.shape.timing, max(round(least / r.level, WEIGHT_DIGITS), 10.0**-WEIGHT_DIGITS))
        for r in ordered
        for _ in range(r.count)
    )


def times_elsewhere(api: Elsewhere, load: Load, requests: int) -> "Times":
    """Times of each of the workload's requests under `load` at an API, the wait for its limit included."""
    run = simulate_elsewhere(api, load.request, load.arrival_ps)
    first, whole = np.zeros(requests), np.zeros(requests)
    first[load.request] = (run.first_token_ps - load.arrival_ps) / PS_PER_S
    whole[load.request] = (run.finish_ps - load.arrival_ps) / PS_PER_S
    return Times(first, whole)


def _written_order(replicas: Replicas) -> tuple[str, int, int]:
    return replicas.shape.pool, replicas.shape.tp, replicas.shape.pp


def learning_rule(
    balancing: Balancing, mix: Mix, lines: Mapping[Shape, Coefficients], latency_max_s: float | None
) -> Rule | QueueingRule:
    """The rule over the replicas of `mix`, in the order of `replicas_of`, as it begins."""
    shapes = [r.shape for r in sorted(mix, key=_written_order) for _ in range(r.count)]
    known = [
        Known(f"{i}", _kind(shape), replica.weight, max_concurrency=shape.timing.max_num_seqs)
        for i, (shape, replica) in enumerate(zip(shapes, replicas_of(mix), strict=True))
    ]
    models = {_kind(shape): LatencyModel(line, seeded=True) for shape, line in lines.items()}
    within_s = inf if latency_max_s is None else latency_max_s
    if balancing == "matching":
        from cascadia.dispatch.matching import Matching

        return SimulatedMatching(Matching(models), known, within_s)
    return Simulated(EarliestFinish(models), known, within_s)


def _kind(shape: Shape) -> str:
    return f"{shape.pool} TP={shape.tp} PP={shape.pp}"


class Times(NamedTuple):
    """Seconds (n) from a request's arrival at a stage to its first token and to its last, all its visits summed; 0
    where there is none."""

    first_s: Floats
    whole_s: Floats


def times_by_request(load: Load, mix: Mix, requests: int) -> Times:
    """Times of each of the workload's requests under `load` on `mix`."""
    if not len(load):
        return Times(np.zeros(requests), np.zeros(requests))
    run = simulate_stage(
        replicas_of(mix),
        DEFAULT,
        load.arrival_ps,
        load.input_tokens,
        load.output_tokens,
        load.cached_tokens,
    )
    first, whole = (
        np.bincount(load.request, weights=(at_ps - load.arrival_ps) / PS_PER_S, minlength=requests)
        for at_ps in (run.first_token_ps, run.finish_ps)
    )
    return Times(first.astype(np.float64), whole.astype(np.float64))


def verdict_delays(problem: Problem) -> Ints | None:
    """Delay of a verdict of each (stage, request) of a judge without GPUs; None for a self-hosted one.

    Lognormal through the judge's two quantiles, drawn once from the problem's seed.
    """
    judge = problem.judge
    shape = (len(problem.stages), len(problem.workload))
    if judge.placement == "self-hosted":
        return None
    if judge.latency_p50_s <= 0:
        return np.zeros(shape, np.int64)
    spread = max(judge.latency_p95_s / judge.latency_p50_s, 1.0)
    sigma = np.log(spread) / Z95
    normal = np.random.default_rng(problem.seed + 1).standard_normal(shape)
    delays: Ints = np.rint(judge.latency_p50_s * np.exp(sigma * normal) * PS_PER_S).astype(np.int64)
    return delays


def quantile_s(latency_s: Floats, q: float) -> float:
    """The smallest latency that at least a share `q` of requests keep."""
    if len(latency_s) == 0:
        return 0.0
    return quantile(latency_s, q)
