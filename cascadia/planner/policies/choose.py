"""Workers and their policies, chosen together: the fewest workers on which a policy keeps the objective.

For each number of workers rivals are made (`rivals.py`) and played on the traffic, and the best is taken. One kind of
worker serves a group; where there are several, each has its own profiles and its own policies, and the cheapest that
keeps the objective is taken, or the most accurate where quality is maximised.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import NamedTuple

from cascadia.domain.errors import Infeasible
from cascadia.domain.names import point_of
from cascadia.domain.policy import Policies
from cascadia.planner.policies.fluid import fluid_bound
from cascadia.planner.policies.mdp import mdp_ladder
from cascadia.planner.policies.played import Outcome, worker_kind
from cascadia.planner.policies.residence import Kind, alike, fits, spread_out
from cascadia.planner.policies.rivals import best_of_each, sets_of
from cascadia.planner.policies.tables import Group, group
from cascadia.planner.policies.wanted import Wanted, judged, keeps, loads
from cascadia.policy.arrivals import Poisson
from cascadia_sim.batch.simulate import WorkerKind


@dataclass(frozen=True, slots=True)
class Chosen:
    """Policies of the workers of `kind`, what became of the traffic under them, and under the `rivals` of the same
    workers. `bound` is the accuracy that nothing passes with these models on every worker.

    `sits` (workers): models on each. Where they differ, `further` are the policies of the workers with other models
    than the first has; all are dealt to in turn.
    """

    kind: Kind
    group: Group
    policies: Policies
    outcome: Outcome
    rivals: tuple[tuple[Policies, Outcome], ...]
    bound: float | None
    sits: tuple[tuple[str, ...], ...]
    further: tuple[Policies, ...] = ()

    @property
    def usd_per_hour(self) -> float:
        return self.group.workers * self.kind.usd_per_hour


def choose(name: str, kinds: Sequence[Kind], wanted: Wanted) -> Chosen:
    """The cheapest workers that keep the objective, then the fewest, or where as much quality as there is is asked for
    those of most; raises `Infeasible` where none do.

    What exits add is chosen after all that there is without them, and taken where that is better: nobody is worse off
    for there being exits.
    """
    found = []
    able = [kind for kind in kinds if not 0 < _carries_rps(kind, wanted) < wanted.least_rps]
    if not able:
        raise _too_much(name, max(kinds, key=lambda kind: _carries_rps(kind, wanted)), wanted)
    for kind in able:
        plain = _fewest(name, kind, wanted)
        found += [] if plain is None else [plain]
        if (exiting := kind.exiting(wanted.slo_s)) is not None:
            # More workers than do without exits are not wanted.
            most = kind.most if plain is None else plain.group.workers
            with_exits = _fewest(name, replace(exiting, most=most), wanted)
            found += [] if with_exits is None else [_of_those_used(with_exits)]
    if not found:
        raise _infeasible(name, [kind.exiting(wanted.slo_s) or kind for kind in able], wanted)
    return min(found, key=lambda chosen: _rank(chosen, wanted))


def _rank(chosen: Chosen, wanted: Wanted) -> tuple[float, ...]:
    """Less is better."""
    costs, right = (chosen.usd_per_hour, chosen.group.workers), -chosen.outcome.reward
    return (right, *costs) if wanted.accuracy_min is None else (*costs, right)


def _of_those_used(chosen: Chosen) -> Chosen:
    """`chosen` without exits that none of its policies takes: each layer of them would take memory."""
    policies, outcome = chosen.policies, chosen.outcome
    used = {name for level in policies.levels for row in level.rows for name in row.model}
    at = [n for n, name in enumerate(policies.models) if name in used or point_of(name).at is None]
    names = tuple(policies.models[n] for n in at)
    kept = replace(policies, models=names)
    served = replace(outcome, served=tuple(outcome.served[n] for n in at))
    return replace(
        chosen,
        group=replace(chosen.group, models=tuple(m for m in chosen.group.models if m.name in names)),
        policies=kept,
        outcome=served,
        rivals=tuple((kept, served) if each is policies else (each, out) for each, out in chosen.rivals),
        sits=(names,) * chosen.group.workers,
    )


def on_workers(name: str, kind: Kind, workers: int, wanted: Wanted) -> Chosen | None:
    """The better of the rivals on so many workers; None where no model is in time, or fits."""
    try:
        every = group(name, kind.models, slo_s=wanted.slo_s, workers=workers, late=wanted.late)
    except ValueError:
        return None
    made = every if kind.holds_all else alike(every, kind, loads(wanted.arrival_s))
    if made is None:
        return None
    found = best_of_each(made, [each for each in sets_of(every) if fits(each, kind)], wanted)
    best = max(found, key=lambda rival: wanted.merit(rival.outcome))
    rivals = tuple((rival.policies, rival.outcome) for rival in found)
    chosen = Chosen(
        kind, best.group, policies=best.policies, outcome=best.outcome, rivals=rivals,
        bound=fluid_bound(best.group, wanted.served_rps), sits=(best.policies.models,) * workers,
    )  # fmt: skip
    if kind.holds_all or kind.alike or (spread := spread_out(every, kind, loads(wanted.arrival_s))) is None:
        return chosen
    kinds = _each_its_own(every, spread, wanted)
    played = judged(kinds[0].policies, every.models, wanted, [k.workers for k in kinds]).outcome
    rivals = (*rivals, (kinds[0].policies, played))
    if wanted.merit(played) <= wanted.merit(best.outcome):
        return replace(chosen, rivals=rivals)
    return replace(
        chosen, group=every, policies=kinds[0].policies, outcome=played, rivals=rivals,
        bound=fluid_bound(every, wanted.served_rps), sits=tuple(tuple(sorted(here)) for here in spread),
        further=tuple(k.policies for k in kinds[1:]),
    )  # fmt: skip


class _Part(NamedTuple):
    policies: Policies
    workers: WorkerKind


def _each_its_own(every: Group, spread: Sequence[frozenset[str]], wanted: Wanted) -> list[_Part]:
    """Solved policies for each set of models that sits together."""
    from_rps, to_rps = loads(wanted.arrival_s)
    parts = []
    for here in dict.fromkeys(spread):
        part = replace(every, models=tuple(model for model in every.models if model.name in here))
        solved = mdp_ladder(
            part, Poisson(1.0), from_rps=from_rps, to_rps=to_rps, late_max=wanted.late_max, kind="spread"
        )
        # The names of all models, so that all tables count them alike.
        named = replace(solved, models=tuple(model.name for model in every.models))
        parts.append(_Part(named, worker_kind(named, every.models, spread.count(here))))
    return parts


def _fewest(name: str, kind: Kind, wanted: Wanted) -> Chosen | None:
    if wanted.accuracy_min is None:
        found = on_workers(name, kind, kind.most, wanted)
        return found if found is not None and keeps(found.outcome, wanted) else None
    high, best = kind.most, on_workers(name, kind, kind.most, wanted)
    if best is None or not keeps(best.outcome, wanted):
        return None
    # No bisection below what the fluid bound rules out: each step solves policies, which takes seconds.
    low = _bound_below(name, kind, wanted) - 1
    while high - low > 1:
        middle = (low + high) // 2
        found = on_workers(name, kind, middle, wanted)
        if found is not None and keeps(found.outcome, wanted):
            high, best = middle, found
        else:
            low = middle
    return best


def _bound_below(name: str, kind: Kind, wanted: Wanted) -> int:
    """Fewer workers than these cannot keep the objective, whatever they do with all of the models."""
    made = group(name, kind.models, slo_s=wanted.slo_s, workers=kind.most, late=wanted.late)
    served = wanted.served_rps * (1 - wanted.late_max)
    for workers in range(1, kind.most + 1):
        bound = fluid_bound(replace(made, workers=workers), served)
        if bound is not None and bound >= wanted.right_min:
            return workers
    return kind.most


def _carries_rps(kind: Kind, wanted: Wanted) -> float:
    """Requests a second that all workers of a kind answer at most, whichever models and exits do."""
    return kind.most * max(model.carried_rps(wanted.slo_s) for model in (*kind.models, *kind.exits))


def _too_much(name: str, kind: Kind, wanted: Wanted) -> Infeasible:
    """Refusal without a search: played on so much traffic, every policy takes long to tell that nearly all is late."""
    carries_rps = _carries_rps(kind, wanted)
    workers = ceil(wanted.least_rps * kind.most / carries_rps)
    return Infeasible(
        f"objective.late_max {wanted.late_max:.2%} of group {name!r}",
        f"{kind.most} workers of kind {kind.name!r} carry {carries_rps:,.4g} requests/s at most, of "
        f"{wanted.rate_rps:,.6g}: it takes {workers:,} or more",
    )


def _infeasible(name: str, kinds: Sequence[Kind], wanted: Wanted) -> Infeasible:
    # Sets of models that cannot reach the bar are not weighed for it: how near they come is told by a search without.
    most = replace(wanted, accuracy_min=None)
    tried = [found for kind in kinds if (found := on_workers(name, kind, kind.most, most)) is not None]
    if not tried:
        least_s = min(model.latency_s[0] for kind in kinds for model in kind.models)
        return Infeasible(
            f"no model of group {name!r} answers within objective.latency_max_s {wanted.slo_s:g}",
            f"the fastest takes {least_s:g} s",
        )
    best = max(tried, key=lambda chosen: most.merit(chosen.outcome))
    on = f"{best.group.workers} workers of kind {best.kind.name!r}"
    if best.outcome.late > wanted.late_max:
        return Infeasible(
            f"objective.late_max {wanted.late_max:.2%} of group {name!r}",
            f"{on} are late with {best.outcome.late:.2%}",
        )
    return Infeasible(
        f"objective.quality_min {wanted.accuracy_min:g} of group {name!r}",
        f"{on} reach {best.outcome.accuracy:.2f}",
    )
