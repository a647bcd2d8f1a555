"""Replicas by which a plan keeps its bounds at other rates than its own: what its controller goes by within seconds.

At each of a row of multiples of the rate the plan's trace is played that much faster, on its gears if it has any. From
the plan's own replicas upwards the cheapest is added with which the bounds are kept, with room, one at a time;
downwards those are let go without which they still are, the dearest first. So a stage grows where it is needed, not in
proportion: a plan whose large model has room to spare grows by small ones alone, or not at all.

Bursts of the trace are part of that. `peaks` say how far its rate within a short window goes above that of the quarter
of an hour around it: a window that holds no more than the trace's own fullest asks for nothing.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from cascadia.domain.gear import Ladder, rooms
from cascadia.domain.names import JUDGE as JUDGE_NAME
from cascadia.domain.plan import Peak, Predicted, Scale, Scaling, StagePrediction
from cascadia.domain.workload import Floats
from cascadia.planner.account.assemble import groups
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.deployment.deployment import Deployment, deployment
from cascadia.planner.deployment.levels import reached_s
from cascadia.planner.deployment.simulation import Simulator, quantile_s
from cascadia.planner.gears.played import Decided, Played, play
from cascadia.planner.routing.routings import Routings
from cascadia.planner.stability.certificate import SETTLED
from cascadia.planner.stability.repeats import repeated
from cascadia_sim.engine.requests import PastTheClock

ROOM = 0.12
"""Share of each bound on latency that is left free: what keeps it just so on the plan's trace misses it on the next."""
UP, DOWN = 1.08, 1.15
"""Between two multiples."""
LEAST, MOST = 0.25, 2.5
REQUESTS, MOST_REQUESTS = 2_000_000, 250_000
"""Simulated upwards and downwards; multiples beyond that are left out. Of a longer trace none is told."""
LONG = 2.0 * SETTLED
"""Latencies that a trace lasts at least, so that it is enough to play it once."""
LARGEST = 4.0
"""Times the plan's price, above which nothing is looked for."""
SPANS_S, LOCAL_S = (30.0, 60.0, 120.0, 300.0), 900.0
LOOK_S, BUSY = 10.0, 0.9
"""Windows begin so often; where less than that part of the mean comes, how far one goes above it is chance."""

Replica = tuple[int, int]
"""Stage (or `JUDGE`), and which of its mix's groups."""
Counts = Mapping[Replica, int]


@dataclass(eq=False)
class Scaled:
    """A plan at other rates, on other numbers of its own replicas. `gears`: routings, heaviest first."""

    simulator: Simulator
    own: Deployment
    routings: Routings
    gears: Sequence[int]
    ladder: Ladder
    predicted: Predicted
    room: float
    left: int = REQUESTS
    verdicts: float = 0.0
    """A request, at the plan's own rate."""

    def __post_init__(self) -> None:
        self.groups = {(s, i): r for s, mix in self.own.mixes for i, r in enumerate(mix)}
        self.counts: Counts = {key: r.count for key, r in self.groups.items()}
        self._told = {
            s: told for s, _ in self.own.mixes if (told := self._prediction(s)) is not None and told.load
        }
        asked = {s for k in self.gears for s in np.flatnonzero(self.routings.deployed[k]).tolist()}
        stages = [s for s in self._told if s in asked]
        self._rooms = dict(zip(stages, rooms([self._told[s].load for s in stages]), strict=True))

    def _prediction(self, stage: int) -> StagePrediction | None:
        if stage == JUDGE:
            return self.predicted.judge
        name = self.simulator.problem.stages[stage].name
        return next((told for told in self.predicted.stages if told.name == name), None)

    def name(self, stage: int) -> str:
        return JUDGE_NAME if stage == JUDGE else self.simulator.problem.stages[stage].name

    def on(self, counts: Counts) -> Deployment:
        mixes = {
            s: tuple(replace(r, count=counts[s, i]) for i, r in enumerate(mix) if counts[s, i])
            for s, mix in self.own.mixes
        }
        return deployment(self.own.routing, mixes)

    def weight(self, stage: int, counts: Counts) -> float:
        """Work that the stage's replicas can be given, over what the plan's can."""
        mix = self.own.mix(stage)
        now = sum(counts[stage, i] / r.level for i, r in enumerate(mix))
        return now / sum(r.count / r.level for r in mix)

    def each_usd(self, key: Replica) -> float:
        """Price of one replica of a group an hour."""
        return self.groups[key].shape.usd_per_hour

    def usd(self, counts: Counts) -> float:
        return sum(n * self.each_usd(key) for key, n in counts.items())

    def strain(self, times: float, counts: Counts) -> float:
        """Largest ratio of what is reached to its bound, less the room, at `times` the rate; inf where a stage is sent
        more than it sustains, or quality falls below the plan's bar."""
        objective = self.simulator.problem.objective
        # As long as the trace is once where it would be over before anything has settled.
        lasts_s = float(self.simulator.problem.workload.arrival_s[-1]) / times
        rounds = ceil(times) if lasts_s < LONG * self.predicted.e2e.p99_s else 1
        simulator = repeated(self.simulator, rounds, times)
        self.left -= len(simulator.arrivals)
        of = Decided(self.routings, simulator)
        capacity = min((room * self.weight(s, counts) for s, room in self._rooms.items()), default=1.0)
        ladder = Ladder(tuple(border * capacity for border in self.ladder.borders))
        try:
            played = play(simulator, self.on(counts), [of(k) for k in self.gears], ladder)
        except PastTheClock:
            return np.inf
        if self._overloaded(times, counts, played) or not self._good(played):
            return np.inf
        latency_s = quantile_s(simulator.latency_s(played.run), objective.quantile)
        strain = objective.strain(latency_s, reached_s(simulator.problem, played.run, objective.levels))
        return strain / (1.0 - self.room)

    def _overloaded(self, times: float, counts: Counts, played: Played) -> bool:
        reached = played.decided.reached.mean(axis=1)
        verdicts = float(played.decided.judged.sum(axis=0).mean())
        self.verdicts = self.verdicts or verdicts
        for s, told in self._told.items():
            more = verdicts / self.verdicts if s == JUDGE else float(reached[s]) / told.reached
            if (told.load or 0.0) * times * more > self.weight(s, counts):
                return True
        return False

    def _good(self, played: Played) -> bool:
        """A mixture of gears has to reach the bar as the plan's own does."""
        bar = self.simulator.problem.objective.quality_min
        if bar is None or len(self.gears) < 2:
            return True
        lower = played.gear_shares(len(self.gears)) @ self.routings.lower[list(self.gears)]
        return bool(lower >= bar)


def scaling(
    simulator: Simulator,
    own: Deployment,
    routings: Routings,
    gears: Sequence[int],
    ladder: Ladder,
    predicted: Predicted,
    room: float = ROOM,
) -> Scaling | None:
    """Replicas of a plan at least cost by rate, also at its own, that leave a share `room` (0-1) of each bound on
    latency free; None where no latency is bounded, APIs answer all, or the trace is too long."""
    problem = simulator.problem
    if not problem.objective.bounds or not own.mixes or len(simulator.arrivals) > MOST_REQUESTS:
        return None
    scaled = Scaled(simulator, own, routings, gears, ladder, predicted=predicted, room=room)
    up = [*_upwards(scaled)]
    if not up:
        return None
    scaled.left = REQUESTS
    found = [*reversed([*_downwards(scaled, up[0][1])]), *up]
    scales = tuple(Scale(round(times, 4), _written(scaled, counts)) for times, counts in found)
    return Scaling(peaks_of(problem.workload.arrival_s), scales)


def _upwards(scaled: Scaled) -> Iterator[tuple[float, Counts]]:
    times, counts = 1.0, scaled.counts
    most_usd = LARGEST * scaled.usd(scaled.counts)
    while times <= MOST:
        now = scaled.strain(times, counts)
        while now > 1.0 and scaled.left > 0 and scaled.usd(counts) <= most_usd:
            now, counts = _one_more(scaled, times, counts)
        if now > 1.0 or scaled.left <= 0:
            return
        yield times, counts
        times *= UP


def _one_more(scaled: Scaled, times: float, counts: Counts) -> tuple[float, Counts]:
    """Strain and counts with the cheapest replica that keeps the bounds, else with the one that helps most for its
    price."""
    tried = []
    for key in sorted(counts, key=lambda key: (scaled.each_usd(key), key)):
        more = {**counts, key: counts[key] + 1}
        strain = scaled.strain(times, more)
        if strain <= 1.0:
            return strain, more
        tried.append((strain, scaled.each_usd(key), more))
    finite = [each for each in tried if np.isfinite(each[0])]
    if finite:
        before = max(strain for strain, *_ in tried if np.isfinite(strain))
        strain, _, more = max(finite, key=lambda each: (before - each[0]) / max(each[1], 1e-9))
        return strain, more
    # No single replica ends an overload: one of the cheapest of the stage that has grown least.
    grown = min(counts, key=lambda key: (scaled.weight(key[0], counts), scaled.each_usd(key), key))
    return np.inf, {**counts, grown: counts[grown] + 1}


def _downwards(scaled: Scaled, counts: Counts) -> Iterator[tuple[float, Counts]]:
    times = 1.0 / DOWN
    while times >= LEAST and scaled.left > 0:
        for key in sorted(counts, key=lambda key: (-scaled.each_usd(key), key)):
            while counts[key] and sum(n for (s, _), n in counts.items() if s == key[0]) > 1:
                fewer = {**counts, key: counts[key] - 1}
                if scaled.left <= 0 or scaled.strain(times, fewer) > 1.0:
                    break
                counts = fewer
        yield times, counts
        times /= DOWN


def _written(scaled: Scaled, counts: Counts) -> dict[str, tuple[int, ...]]:
    """Counts by stage, in the order of the plan's groups."""
    found: dict[str, tuple[int, ...]] = {}
    for s, mix in scaled.own.mixes:
        alike: Counter[tuple[str, int, int]] = Counter()
        for i, r in enumerate(mix):
            alike[r.shape.pool, r.shape.tp, r.shape.pp] += counts[s, i]
        found[scaled.name(s)] = tuple(alike[group.pool, group.tp, group.pp] for group in groups(mix))
    return found


def peaks_of(arrival_s: Floats) -> tuple[Peak, ...]:
    """Largest rates of a trace within windows of `SPANS_S`, over that of the `LOCAL_S` around them (of all of a shorter
    trace), where that is about the mean or more. Arrivals (n) begin at 0 and do not decrease."""
    lasts_s = float(arrival_s[-1])
    local_s = min(LOCAL_S, lasts_s)
    found = []
    for span_s in (span for span in SPANS_S if span < local_s):
        ends_s = np.arange(span_s, lasts_s + 1e-9, LOOK_S)
        first_s = np.clip(ends_s - (span_s + local_s) / 2.0, 0.0, lasts_s - local_s)
        around = _between(arrival_s, first_s, first_s + local_s) / local_s
        busy = around >= BUSY * len(arrival_s) / lasts_s
        rates = _between(arrival_s, ends_s - span_s, ends_s)[busy] / span_s
        found.append(Peak(span_s, max(1.0, float((rates / around[busy]).max(initial=1.0)))))
    return (*found, Peak(LOCAL_S, 1.0))


def _between(arrival_s: Floats, from_s: Floats, until_s: Floats) -> Floats:
    found: Floats = (np.searchsorted(arrival_s, until_s) - np.searchsorted(arrival_s, from_s)).astype(float)
    return found
