"""Explanation why there is no plan: which constraint binds, and the nearest value that would do.

Whatever is named was asked for: planning with it found a plan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cascadia.domain.cluster import Pool
from cascadia.domain.errors import Infeasible, OutOfTime
from cascadia.domain.objective import Objective
from cascadia.planner.infeasible.budget import budget_too_small, with_budget_told
from cascadia.planner.infeasible.limits import limits_too_low
from cascadia.planner.infeasible.nearest import (
    Nearest,
    Planning,
    best_bar,
    best_rate,
    least_pool,
    rounded_down,
)
from cascadia.planner.refinement.refine import Candidate
from cascadia.planner.refinement.state import PLAINLY_OVERLOADED, strain
from cascadia.planner.search.bilevel import BilevelResult, priced
from cascadia.planner.search.context import Search, allowed
from cascadia.planner.search.reference_tables import References

LOOSER = (1.0, 1.01, 1.03, 1.1, 1.3, 2.0)
"""Latency bounds asked for, as multiples of the lowest latency that was found."""


def quality_out_of_reach(search: Search, planning: Planning) -> Infeasible | None:
    """Set if no routing at all has the quality asked for."""
    bar, routings = search.problem.objective.quality_min, search.routings
    if bar is None or allowed(search).any():
        return None
    best = int(routings.lower.argmax())
    confidence, questions = search.problem.confidence, len(search.problem.quality)
    return Infeasible(
        f"quality_min {bar:g} is above what any routing of these models reaches",
        f"the best is {_told(float(routings.lower[best]))} at {confidence * 100:g}% confidence (its mean over"
        f" {questions:,} question{'' if questions == 1 else 's'} is {routings.mean[best]:.2f})"
        f"{_of_which_kept(search, bar, planning)}; lower quality_min to that,"
        " add questions to the quality table, or add a better model",
    )


def _of_which_kept(search: Search, bar: float, planning: Planning) -> str:
    """Part that the cluster's GPUs leave of the best quality; empty where that is all of it."""
    try:
        found = best_bar(search, bar, priced(References.of(search)), planning)
    except OutOfTime:
        return ""
    have, rate = search.problem.cluster.gpus, search.problem.workload.rate_rps
    if found.sustained is None:
        return f", though with {have} GPUs no routing at all sustains {rate:.3g} requests/s"
    if found.kept is None:
        return f", though with {have} GPUs none keeps {_bound(search)}"
    if found.kept == rounded_down(float(search.routings.lower.max())):
        return ""
    return f", and with {have} GPUs at {rate:.3g} requests/s it is {_told(found.kept)}"


def why_none(
    search: Search, loop: BilevelResult, found: Sequence[Candidate], planning: Planning
) -> Infeasible:
    """Infeasible, where of what was simulated (`found`) nothing holds, or nothing was there to be simulated."""
    if (limited := limits_too_low(search, planning, _rate_that_holds)) is not None:
        return limited
    refused = [c for c in found if c.certificate is not None and not c.certificate.holds]
    slow = not refused and any(c.load <= PLAINLY_OVERLOADED for c in found)
    if not slow and (poor := budget_too_small(search, planning)) is not None:
        return poor
    if refused:
        return does_not_hold(search, refused, planning)
    if slow:
        return with_budget_told(search, too_slow(search, found, planning), planning)
    return nothing_sustains(search, loop, planning)


def does_not_hold(search: Search, refused: Sequence[Candidate], planning: Planning) -> Infeasible:
    """Deployments there are, but their queues grow for as long as the traffic goes on."""
    least = min(refused, key=lambda c: c.load)
    assert least.certificate is not None
    rate = search.problem.workload.rate_rps
    return Infeasible(
        f"{rate:.3g} requests/s is more than {search.problem.cluster.gpus} GPUs carry for as long as it goes on:"
        f" {least.certificate.why}",
        _rate_that_holds(search, planning),
    )


def _rate_that_holds(search: Search, planning: Planning) -> str:
    """Rate that holds, as text; what is named was planned with."""
    held = best_rate(search, planning)
    return f"{held:g} requests/s would hold" if held else "no tenth of that rate holds either"


def nothing_sustains(search: Search, loop: BilevelResult, planning: Planning) -> Infeasible:
    """No routing of the asked quality can be sustained on the cluster."""
    bar = search.problem.objective.quality_min
    rate = search.problem.workload.rate_rps
    largest, need = least_pool(search, loop.references, planning)
    best = best_bar(search, bar, loop.prices_s, planning) if bar else Nearest(None, None)
    asked = f"quality {bar:g} needs" if bar else "any plan needs"
    return Infeasible(
        f"{asked} {_needed(search, largest, need)} at {rate:.3g} requests/s",
        f"{_otherwise(search, best)}; {_rate_that_holds(search, planning)}",
    )


def _needed(search: Search, largest: Pool, need: Nearest[Pool]) -> str:
    if need.sustained is None:
        return f"more than {largest.gpus} GPUs{_of_pool(search, largest)}"
    least = f">= {(need.kept or need.sustained).gpus} GPUs{_of_pool(search, need.kept or need.sustained)}"
    return least if need.kept else f"{least}, and for {_bound(search)} more than {largest.gpus},"


def _of_pool(search: Search, pool: Pool) -> str:
    """Words on how the GPUs lie, and among several pools of which they are."""
    nodes = f"{pool.nodes} nodes of {pool.gpus_per_node}" if pool.nodes > 1 else "on one node"
    others = len(search.problem.cluster.pools) > 1
    return f" in pool {pool.name} ({nodes}; the others as they are)" if others else f" ({nodes})"


def _otherwise(search: Search, best: Nearest[float]) -> str:
    have, rate = search.problem.cluster.gpus, search.problem.workload.rate_rps
    if best.sustained is None:
        return f"with {have} no routing at all sustains {rate:.3g} requests/s"
    if best.kept is None:
        return f"with {have} no routing at all keeps {_bound(search)}"
    return f"with {have} the best is {_told(best.kept)}"


def too_slow(search: Search, found: Sequence[Candidate], planning: Planning) -> Infeasible:
    """Quality and GPUs would do, but a bound on latency does not: the one that alone would have to give way the least,
    or where no single one would help, all that the nearest deployment breaks."""
    objective = search.problem.objective
    bar = f" at quality >= {objective.quality_min:g}" if objective.quality_min else ""
    carried = [c for c in found if c.load <= PLAINLY_OVERLOADED]
    # Whoever keeps the bounds on one round and was asked nothing more would not keep them when the trace goes on.
    known = [c for c in carried if c.certificate is not None or strain(search.problem, c) > 1.0]
    binding = _binding(objective, [_reached(objective, c) for c in known or carried])
    fastest_s = None
    if objective.latency_max_s is not None and list(binding) == [0]:
        planning.progress("what is the lowest latency?")
        fastest_s = planning.fastest(search, found)
    if fastest_s is not None:
        # Planning takes it within that bound, whatever its goal.
        found_s: dict[int, float] | None = {0: _looser(fastest_s)[0]}
    else:
        ways = (
            dict(zip(binding, way, strict=True)) for way in zip(*map(_looser, binding.values()), strict=True)
        )
        found_s = next((way for way in ways if planning.keeps(_within(search, way, planning))), None)
    names = [_level(objective, at) for at in binding]
    start = f"{' with '.join(names)} {'is' if len(names) == 1 else 'are'} below what"
    nearest = _seconds(objective, found_s or binding)
    return Infeasible(
        f"{start} {search.problem.cluster.gpus} GPUs reach{_beside(objective, binding)}{bar}",
        f"the lowest found is {nearest}, with the trace eight times end to end"
        if found_s
        else f"one deployment takes {nearest}",
    )


def _reached(objective: Objective, c: Candidate) -> tuple[float, ...]:
    """Seconds of each of the objective's bounds, as far as is known when the trace goes on."""
    return c.held_levels_s if objective.latency_max_s is None else (c.held_s, *c.held_levels_s)


def _binding(objective: Objective, reached: Sequence[tuple[float, ...]]) -> dict[int, float]:
    """Bounds, by number, that have to give way, and to how many seconds, by what deployments (m) `reached`."""
    limits = np.array([level.max_s for level in objective.bounds])
    strains = np.array(reached) / limits
    alone = []
    for at in range(len(limits)):
        others = np.delete(strains, at, axis=1).max(axis=1, initial=0.0)
        kept = strains[others <= 1.0, at]
        if len(kept):
            alone.append((float(kept.min()), at))
    if alone:
        least, at = min(alone)
        return {at: least * float(limits[at])}
    nearest = strains[int(strains.max(axis=1).argmin())]
    return {int(at): float(nearest[at] * limits[at]) for at in np.flatnonzero(nearest > 1.0)}


def _beside(objective: Objective, binding: Mapping[int, float]) -> str:
    """Words on the bounds that are kept beside those that are not."""
    kept = [str(level) for at, level in enumerate(objective.bounds) if at not in binding]
    return f" with {', '.join(kept)}" if kept else ""


def _seconds(objective: Objective, found_s: Mapping[int, float]) -> str:
    if len(found_s) == 1:
        return _digits(next(iter(found_s.values())))
    return ", ".join(f"{objective.bounds[at].name} {_digits(s)}" for at, s in found_s.items())


def _digits(seconds: float) -> str:
    return f"{float(f'{seconds:.3g}'):g} s"


def _looser(lowest_s: float) -> list[float]:
    """Looser bounds, to three digits, upward."""
    digit = 10 ** (np.floor(np.log10(lowest_s)) - 2)
    return [float(f"{np.ceil(lowest_s * times / digit) * digit:.6g}") for times in LOOSER]


def _within(search: Search, bounds_s: Mapping[int, float], planning: Planning) -> Search:
    """The same search with some of the bounds, by number, of so many seconds."""
    objective = search.problem.objective
    planning.progress(f"is there a plan within {_seconds(objective, bounds_s)}?")
    bounds = [replace(b, max_s=bounds_s.get(at, b.max_s)) for at, b in enumerate(objective.bounds)]
    own = None if objective.latency_max_s is None else bounds.pop(0).max_s
    objective = replace(objective, latency_max_s=own, levels=tuple(bounds))
    return replace(search, problem=replace(search.problem, objective=objective))


def _bound(search: Search) -> str:
    objective = search.problem.objective
    return ", ".join(_level(objective, at) for at in range(len(objective.bounds)))


def _level(objective: Objective, at: int) -> str:
    """Bound number `at` as its spec has it."""
    level = objective.bounds[at]
    if at == 0 and objective.latency_max_s is not None:
        return f"latency_max_s {level.max_s:g} (p{level.quantile * 100:g})"
    return str(level)


def _told(quality: float) -> str:
    return f"{rounded_down(quality):.2f}".rstrip("0").rstrip(".")
