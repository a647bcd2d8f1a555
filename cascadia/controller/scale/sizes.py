"""Work that one replica of each of a plan's shapes can be given, as its plan tells.

The plan knows of each stage the share of the requests that reach it, the rate that its replicas get, the load rho0 (of
what they could sustain at most) that this is, and the p95 of its latency there. As in any queue with processor
sharing, times grow as 1 / (1 - rho). So a stage may be loaded more than its plan does until its p95 alone would take
`OF_THE_BOUND` of what the objective allows, but for `MOST_LOAD`; and it is never loaded less than rho0: the plan was
simulated there, and kept its bounds. A margin below that is a whole replica more than planned at the planned rate, half
as many again where there are two.

On a ladder of gears spare room is quality: borders scale with the stage that has the least of it (`domain/gear.py`), so
a fuller stage means lighter gears. And a stage that is emptier than the fullest is not spare: its part of the latency
grows as well, and a tenth more than planned made 0.5 % of a flat day's requests late. There a stage gets what its plan
gives it, but for one whose p95 is next to nothing of the bound (`NOTHING_OF_THE_BOUND`), as a judge's: that is filled
until it would no longer be, up to half as much again.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cascadia.controller.move.state import JUDGE, Desired, Kind, planned_stage
from cascadia.domain.plan import Plan, StagePrediction

MOST_LOAD = 0.75
OF_THE_BOUND = 0.7
NOTHING_OF_THE_BOUND = 0.05
FILLED = 1.5
"""Times its planned load that such a stage is given at most: where prompts grow it is full before anything tells."""
ASSUMED_LOAD = 0.85
"""Of a plan that does not tell, since it is older."""
ODD = 1.3
"""So many times as many requests in hand as the plan's latency explains are a queue."""


@dataclass(frozen=True, slots=True)
class StageSize:
    """`reached`: visits of the stage a request. `gives_rps`: by kind, what one replica may be given. `counts`: the
    plan's. `holds_s`: requests in hand a request a second, where replicas get what they may; more wait. `steps`: by
    rising rate, the counts by which the plan keeps its bounds there, as simulated; empty where it does not tell."""

    stage: str
    reached: float
    counts: Mapping[Kind, int]
    gives_rps: Mapping[Kind, float]
    holds_s: float
    steps: tuple[tuple[float, Mapping[Kind, int]], ...] = ()

    def capacity_rps(self, counts: Mapping[Kind, int]) -> float:
        return sum(self.gives_rps[kind] * counts.get(kind, 0) for kind in self.counts)


def sizes_of(plan: Plan, desired: Desired) -> tuple[StageSize, ...]:
    """`desired` is what the fleet makes of `plan`."""
    stages = list(dict.fromkeys(kind.stage for kind, count in desired.counts.items() if count))
    return tuple(_size(plan, desired, stage) for stage in stages)


def peaks_of(plan: Plan) -> dict[float, float]:
    """By length of a window (s), how far the rate in it goes above the mean without asking for more replicas."""
    return {} if plan.scaling is None else {peak.span_s: peak.times for peak in plan.scaling.peaks}


def in_time_s(plan: Plan) -> float:
    """Mean latency at which the p95 of all requests would pass the objective's bound, times growing as a whole. By
    Little's law, so many seconds of its requests may be in hand of a fleet before it has a queue."""
    told, deadline = plan.predicted.e2e, plan.objective.deadline
    if deadline is None or told.p95_s <= 0.0:
        return ODD * told.mean_s
    return told.mean_s * max(1.0, deadline.max_s / told.p95_s)


def _size(plan: Plan, desired: Desired, stage: str) -> StageSize:
    counts = {kind: n for kind, n in desired.counts.items() if kind.stage == stage and n}
    told = _predicted(plan, stage)
    if told is None or not told.rate_rps or not plan.predicted.rate_rps:
        # Nothing is known of it, e.g. of a judge on cores: it stays as planned.
        return StageSize(stage, 0.0, counts, dict.fromkeys(counts, 1.0), 0.0)
    load = told.load or ASSUMED_LOAD
    deadline = plan.objective.deadline
    bound_s, on_a_ladder = None if deadline is None else deadline.max_s, len(plan.gears) > 1
    of_it = NOTHING_OF_THE_BOUND if on_a_ladder else OF_THE_BOUND
    may = _most_load(load, told.latency.p95_s, bound_s, of_it)
    if on_a_ladder:
        may = max(load, min(may, FILLED * load, _fullest(plan)))
    planned_rps = {kind: desired.capacity(kind) for kind in counts}
    holds_s = (
        told.latency.mean_s * max(1.0, (1.0 - load) / (1.0 - may)) if load < 1.0 else told.latency.mean_s
    )
    return StageSize(
        stage,
        told.rate_rps / plan.predicted.rate_rps,
        counts,
        {kind: rps * may / load for kind, rps in planned_rps.items()},
        ODD * holds_s,
        _steps(plan, stage, counts),
    )


def _steps(
    plan: Plan, stage: str, counts: Mapping[Kind, int]
) -> tuple[tuple[float, Mapping[Kind, int]], ...]:
    """Of a stage whose kinds are its plan's groups, one by one."""
    if plan.scaling is None:
        return ()
    name = planned_stage(stage)
    scales = [scale for scale in plan.scaling.scales if name in scale.replicas]
    unit = plan.judge if name == JUDGE else next(each for each in plan.stages if each.name == name)
    groups = [(group.pool, group.tp * group.pp) for group in unit.replicas]
    # Kinds of as many GPUs are told apart by their order, which is the plan's.
    if sorted(groups) != sorted((kind.pool, kind.gpus) for kind in counts):
        return ()
    alike = {group: iter([kind for kind in counts if (kind.pool, kind.gpus) == group]) for group in groups}
    kinds = [next(alike[group]) for group in groups]
    return tuple(
        (
            scale.times * plan.predicted.rate_rps,
            dict(zip(kinds, scale.replicas[name], strict=True)),
        )
        for scale in scales
    )


def _fullest(plan: Plan) -> float:
    return max(told.load or ASSUMED_LOAD for told in plan.predicted.stages)


def _most_load(load: float, p95_s: float, bound_s: float | None, of_it: float) -> float:
    if bound_s is None or p95_s <= 0.0:
        return load
    within = 1.0 - p95_s * (1.0 - load) / (of_it * bound_s)
    return max(load, min(MOST_LOAD, within))


def _predicted(plan: Plan, stage: str) -> StagePrediction | None:
    if planned_stage(stage) == JUDGE:
        return plan.predicted.judge
    return next((told for told in plan.predicted.stages if told.name == stage), None)
