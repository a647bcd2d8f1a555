"""A plan's ladder beside every other system, on the plan's own trace and as many GPUs."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from cascadia.domain.objective import Level
from cascadia.planner.over_time import systems
from cascadia.planner.over_time.cocktail import cocktail
from cascadia.planner.over_time.settings import POINTS, OverTime, Stage
from cascadia.planner.plan import PlanResult


@dataclass(frozen=True, slots=True, eq=False)
class Beside:
    """A system beside ours: the point of its grid that the objective would choose, the least late of those that are
    as good as ours, and the best of those that are no later."""

    name: str
    chosen: OverTime
    as_good: OverTime | None
    as_punctual: OverTime | None


@dataclass(frozen=True, slots=True, eq=False)
class ComparisonOverTime:
    """`ours` is the plan on its ladder, or on its one setting. `bound_s`: later is late."""

    bound_s: float
    quantile: float
    ours: OverTime
    beside: tuple[Beside, ...]


def compare_over_time(
    made: PlanResult, *, progress: Callable[[float, str], None] = lambda _, __: None
) -> ComparisonOverTime:
    """Compares the plan with systems that each may choose their best, from a grid, by this very trace."""
    objective = made.search.problem.objective
    deadline = objective.deadline or Level("e2e", objective.quantile, made.plan.predicted.objective_s)
    bound_s = deadline.max_s
    stage = Stage(made.search, made.simulator, bound_s)
    deployment, quantile = made.chosen.deployment, deadline.quantile
    ours = _ours(made, stage)
    runs = [
        ("single", partial(systems.singles, stage, deployment, ours)),
        ("dynba", partial(systems.dynba, stage)),
        ("switching", partial(systems.switching, stage, quantile)),
        ("cascadeserve", partial(systems.printed, stage, deployment, quantile)),
        ("cocktail", partial(cocktail, stage)),
    ]
    found: list[OverTime] = []
    for at, (name, run) in enumerate(runs):
        progress(at / len(runs), name)
        found += run()
    names = dict.fromkeys(point.name for point in found)
    by_name = {name: [p for p in found if p.name == name] for name in names}
    return ComparisonOverTime(
        bound_s, quantile, ours, tuple(_beside(n, ours, p, quantile) for n, p in by_name.items())
    )


def _ours(made: PlanResult, stage: Stage) -> OverTime:
    deployment, ladder = made.chosen.deployment, made.ladder
    if ladder is None:
        nobody = np.zeros(len(stage.simulator.arrivals), np.int64)
        return stage.outcome("cascadia", deployment, [deployment.routing], nobody, "one gear")
    tuned = f"{len(ladder.routings)} gears"
    return stage.outcome("cascadia", deployment, ladder.routings, ladder.played.gear, tuned)


def _beside(name: str, ours: OverTime, points: list[OverTime], quantile: float) -> Beside:
    keeps = [p for p in points if p.late <= 1 - quantile]
    chosen = max(keeps, key=lambda p: p.quality) if keeps else min(points, key=lambda p: p.late)
    good = [p for p in points if p.quality >= ours.quality - POINTS]
    punctual = [p for p in points if p.late <= ours.late + 1e-9]
    return Beside(
        name,
        chosen,
        min(good, key=lambda p: p.late, default=None),
        max(punctual, key=lambda p: p.quality, default=None),
    )
