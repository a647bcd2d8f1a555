"""The stability certificate: does a deployment carry its traffic for as long as that goes on?

A trace is finite, and so is every queue after it, also one that grew from the first request to the last. So the trace
is played `REPEATS` times end to end (one mean gap between the rounds), and a deployment holds if

1. p95, and the objective's quantile, of all rounds together are at most `SLOWER` times those of one round;
2. at no stage, nor at the judge, more wait and run at the end of the last rounds than of the first. With b[r] the
   requests in hand there when round r ends: the mean of b over the last three rounds is at most 1.25 times that over
   the first three, and what chance does to a count (2 sqrt(b) + 1). So a burst that ends a trace, and the hand-over
   from round to round, count for nothing, since every round ends alike; only growth does;
3. no stage is sent more than its replicas sustain (`capacity_shares.py`): a queue that grows by a percent shows late.

What comes to an idle deployment meets no queue at first. A trace that is over before it is `SETTLED` times as long as
the quantile is played again until it is so long, and that is then one round: latencies are of what has settled.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.plan import Stability
from cascadia.domain.problem import Problem
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.deployment.levels import reached_s
from cascadia.planner.deployment.simulation import Simulator, quantile_s
from cascadia.planner.routing.routings import Decisions
from cascadia.planner.stability.repeats import MAX_SPAN_S, decided_repeated, repeated
from cascadia.planner.tables.loads import period_ps
from cascadia_sim.cascade.cascade import CascadeRun
from cascadia_sim.engine.requests import PastTheClock
from cascadia_sim.iteration.timing import PS_PER_S

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

REPEATS = 8
SLOWER = 1.25
"""So much larger may a quantile over all rounds be than over one."""

GROWN, CHANCE = 1.25, 2.0
EDGE = 3
"""So many rounds at either end are compared."""

SETTLED = 4.0
MOST_ROUNDS = 64
"""A trace is not played more often than this to become one round."""
LONGEST_S = 2 * MAX_SPAN_S
"""Simulated time ends at 106 days. What a round and its repeats take is foreseen from fewer rounds, so not exactly."""

MOST_REQUESTS = 1_000_000
FEWEST_REPEATS = 2
"""Of a trace so long that all rounds would be more requests than this, or end after `LONGEST_S`, fewer are played, at
least two."""

CALM = 0.6
"""Share of what replicas sustain up to which two rounds hardly ever show that a deployment does not hold."""

OVERLOADED = 1.02
"""Above this share of what a stage's replicas sustain nothing needs to be simulated; measuring errs by less."""
EXACT = 1e-9
"""Of a share that is not measured: rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Certificate:
    """Outcome of the test of stability. `run` is one round's on `simulator`; `why` is empty where the deployment holds.
    `levels_repeated_s`: what all rounds together reach of each of the objective's levels.
    """

    stability: Stability
    simulator: Simulator
    decided: Decisions
    run: CascadeRun
    why: str
    levels_repeated_s: tuple[float, ...] = ()

    @property
    def problem(self) -> Problem:
        """Problem with the requests of one round."""
        return self.simulator.problem

    @property
    def holds(self) -> bool:
        return not self.why

    @property
    def strain(self) -> float:
        """Largest ratio of what one round reaches to the objective's bound on it (0: nothing is bounded)."""
        return _strain(self.problem, self.run)

    @property
    def strain_repeated(self) -> float:
        """The same of all rounds together."""
        return self.problem.objective.strain(self.stability.objective_repeated_s, self.levels_repeated_s)

    @property
    def held(self) -> float:
        """The larger of both."""
        return max(self.strain, self.strain_repeated)


Plays = Callable[[Simulator], CascadeRun]
"""Run of a simulator's requests."""


def certify(
    simulator: Simulator,
    deployment: Deployment,
    decided: Decisions,
    shares: Mapping[int, float],
    *,
    factor: float = 1.0,
    before: int = 1,
    plays: Plays | None = None,
    seemed: "Settled | None" = None,
) -> Certificate:
    """Certificate of `deployment` under `decided` (n) on the simulator's requests, at `factor` times their
    rate.

    `shares` of capacity are by stage, at the rate as it is. The requests are `before` rounds of a trace already.
    `plays`: of gears, which decide in each round anew; `decided` is then of the first. `seemed`: what `seems_to_hold`
    found at this factor, so that it need not be found again.
    """
    settled = seemed or settle(simulator, deployment, decided, factor, most=MOST_ROUNDS // before)
    once, run, rounds, one_decided = settled
    once_s = _quantiles(run, quantiles := _asked(simulator))
    repeats = _repeats(once)
    # Two rounds first, where much is sent: what plainly does not hold is seen in a quarter of the time.
    calm = seemed is not None or factor * max(shares.values(), default=1.0) <= CALM
    for played in sorted({repeats if calm else FEWEST_REPEATS, repeats}):
        every = repeated(once, played)
        try:
            all_run = _run(settled, every, deployment, played) if plays is None else plays(every)
            why = _why(settled, all_run, shares, factor, played)
        except PastTheClock:
            every, all_run, why = once, run, "what waits is not done by the end of simulated time"
        if why:
            break
    all_s = _quantiles(all_run, quantiles)
    backlog = dict(_backlogs(once, all_run, played))
    if not why:
        why = next((_grew(simulator, s, b) for s, b in backlog.items() if _grows(b)), "")
    stability = Stability(
        repeats=played,
        rounds=before * rounds,
        p95_once_s=once_s[quantiles.index(0.95)],
        p95_repeated_s=all_s[quantiles.index(0.95)],
        objective_once_s=once_s[quantiles.index(simulator.problem.objective.quantile)],
        objective_repeated_s=all_s[quantiles.index(simulator.problem.objective.quantile)],
        backlog_first=sum(float(b[:EDGE].mean()) for b in backlog.values()),
        backlog_last=sum(float(b[-EDGE:].mean()) for b in backlog.values()),
    )
    reached = reached_s(every.problem, all_run, simulator.problem.objective.levels)
    return Certificate(stability, once, one_decided, run, why, reached)


def seems_to_hold(
    simulator: Simulator,
    deployment: Deployment,
    decided: Decisions,
    shares: Mapping[int, float],
    *,
    factor: float = 1.0,
    bounded: bool = False,
) -> "Settled | None":
    """One round of who holds in the first part of `certify`, on a few of its rounds; None: who fails here fails there.
    `bounded`: latencies are within the objective's bounds, too.
    """
    try:
        settled = settle(simulator, deployment, decided, factor)
        if bounded and _strain(settled.once.problem, settled.run) > 1.0:
            return None
        every = repeated(settled.once, FEWEST_REPEATS)
        run = _run(settled, every, deployment, FEWEST_REPEATS)
        return None if _why(settled, run, shares, factor, FEWEST_REPEATS) else settled
    except PastTheClock:
        return None


def _strain(problem: Problem, run: CascadeRun) -> float:
    objective = problem.objective
    took_s = quantile_s(run.latency_ps / PS_PER_S, objective.quantile)
    return objective.strain(took_s, reached_s(problem, run, objective.levels))


class Settled(NamedTuple):
    """One round, which is the trace `rounds` times, and its run."""

    once: Simulator
    run: CascadeRun
    rounds: int
    decided: Decisions


def settle(
    simulator: Simulator,
    deployment: Deployment,
    decided: Decisions,
    factor: float = 1.0,
    *,
    most: int = MOST_ROUNDS,
) -> Settled:
    """The trace as often as it takes to settle, at `factor` times its rate, though at most `most` times."""
    at_once = repeated(simulator, 1, factor)
    highest = _asked(simulator)[-1]
    rounds, once, run = 1, at_once, at_once.run(deployment, decided)
    # Where more comes than is carried nothing settles: each further round only makes the queue longer.
    most = min(most, MOST_REQUESTS // max(len(at_once.arrivals), 1))
    while (more := min(_rounds(once, run, highest, rounds), most, _longest(run, rounds))) > rounds:
        rounds = more
        once = repeated(at_once, rounds)
        run = once.run(deployment, decided_repeated(decided, rounds))
    return Settled(once, run, rounds, decided_repeated(decided, rounds))


def _run(settled: Settled, every: Simulator, deployment: Deployment, times: int) -> CascadeRun:
    """Run of `times` rounds, which are `every` request."""
    return every.run(deployment, decided_repeated(settled.decided, times))


def _why(settled: Settled, run: CascadeRun, shares: Mapping[int, float], factor: float, times: int) -> str:
    """Reason why the `run` of so many rounds shows that a deployment does not hold; empty where it does not."""
    quantiles = _asked(settled.once)
    for stage, share in shares.items():
        if share * factor > _most(settled.once.problem, stage):
            return _sent(settled.once, stage, share * factor)
    slower = SLOWER
    if _repeats(settled.once) < REPEATS:
        # Where not all rounds can be played, each that is not would add as much again as each that is.
        slower = 1 + (SLOWER - 1) * (times - 1) / (REPEATS - 1)
    each_s = (_quantiles(r, quantiles) for r in (settled.run, run))
    for q, one, every in zip(quantiles, *each_s, strict=True):
        if every > slower * one:
            return (
                f"p{q * 100:g} grows from {one:.3g} to {every:.3g} s when the trace is played {times} times"
            )
    return ""


def _most(problem: Problem, stage: int) -> float:
    """Share that a stage may be sent; of an API's limit, which nobody measured, no more than all."""
    return OVERLOADED if stage == JUDGE or problem.stages[stage].external is None else 1.0 + EXACT


def _asked(simulator: Simulator) -> tuple[float, ...]:
    return tuple(sorted({0.95, simulator.problem.objective.quantile}))


def _repeats(once: Simulator) -> int:
    in_time = LONGEST_S * PS_PER_S // max(period_ps(once.problem), 1)
    most = min(MOST_REQUESTS // max(len(once.arrivals), 1), in_time)
    return int(np.clip(most, FEWEST_REPEATS, REPEATS))


def _rounds(once: Simulator, run: CascadeRun, quantile: float, rounds: int) -> int:
    """Number of times that a trace must be played so that it is long enough beside the latency that it shows."""
    span_s = period_ps(once.problem) / PS_PER_S
    need_s = SETTLED * quantile_s(once.latency_s(run), quantile)
    if span_s <= 0 or span_s >= need_s or rounds >= MOST_ROUNDS:
        return rounds
    return min(int(np.ceil(rounds * need_s / span_s)), MOST_ROUNDS)


def _longest(run: CascadeRun, rounds: int) -> int:
    """Number of rounds that end, repeated, within simulated time, from a run of `rounds`."""
    round_s = int((run.arrival_ps + run.latency_ps).max(initial=1)) / PS_PER_S / rounds
    return int(LONGEST_S / (REPEATS * round_s))


def _quantiles(run: CascadeRun, quantiles: tuple[float, ...]) -> list[float]:
    return [quantile_s(run.latency_ps / PS_PER_S, q) for q in quantiles]


def _sent(simulator: Simulator, stage: int, share: float) -> str:
    api, name = (
        None if stage == JUDGE else simulator.problem.stages[stage].external,
        stage_name(simulator, stage),
    )
    if api is None or api.requests_per_minute is None:
        return f"{name} is sent {share:.0%} of what its replicas sustain"
    limit = api.requests_per_minute
    return f"{name} is sent {share * limit:.3g} requests a minute, and its requests_per_minute is {limit}"


def _backlogs(once: Simulator, run: CascadeRun, played: int) -> Iterator[tuple[int, Floats]]:
    """Backlogs, per stage and for a judge with GPUs: how many are in hand when each round ends."""
    ends = period_ps(once.problem) * np.arange(1, played + 1)
    for visits in run.stages:
        yield visits.stage, _in_hand(visits.arrival_ps, visits.run.finish_ps, ends)
    if run.verdicts is not None and run.verdicts.run is not None:
        yield JUDGE, _in_hand(run.verdicts.arrival_ps, run.verdicts.finish_ps, ends)


def _in_hand(came_ps: Ints, went_ps: Ints, at_ps: Ints) -> Floats:
    came = np.searchsorted(np.sort(came_ps), at_ps, side="right")
    went = np.searchsorted(np.sort(went_ps), at_ps, side="right")
    return (came - went).astype(float)


def _grows(backlog: Floats) -> bool:
    edge = min(EDGE, len(backlog) // 2)
    first, last = float(backlog[:edge].mean()), float(backlog[-edge:].mean())
    return last > GROWN * first + CHANCE * float(np.sqrt(max(first, 1.0))) + 1.0


def _grew(simulator: Simulator, stage: int, backlog: Floats) -> str:
    edge = min(EDGE, len(backlog) // 2)
    return (
        f"{stage_name(simulator, stage)} has {backlog[:edge].mean():.0f} requests in hand after the first rounds of"
        f" the trace and {backlog[-edge:].mean():.0f} after the last"
    )


def stage_name(simulator: Simulator, stage: int) -> str:
    return "the judge" if stage == JUDGE else f"stage {simulator.problem.stages[stage].name}"
