"""Steps from a deployment to those beside it: another option of a stage, a trade, spare GPUs, a routing near."""

from collections.abc import Iterator, Sequence

import numpy as np

from cascadia.planner.demand import Replicas
from cascadia.planner.deployment import Deployment, deployment
from cascadia.planner.exchange import exchanges
from cascadia.planner.options import Mix, Option
from cascadia.planner.refinement import Refinement


def neighbours(state: Refinement, here: Deployment, routings: Sequence[int]) -> list[Deployment]:
    """One stage one option up or down; one up and another down; the same mixes under nearby routings."""
    menu = state.menu(here.routing)
    mixes = dict(here.mixes)
    if not menu or set(menu) != set(mixes):
        return []
    up = {s: _step(menu[s], mixes[s], +1) for s in menu}
    down = {s: _step(menu[s], mixes[s], -1) for s in menu}
    more_first: list[dict[int, Mix]] = [{s: mix} for s, mix in up.items() if mix]
    less_first: list[dict[int, Mix]] = [{s: mix} for s, mix in down.items() if mix]
    changes = less_first + more_first if state.search.problem.objective.goal == "cost" else more_first
    changes += [
        {a: more, b: less} for a, more in up.items() for b, less in down.items() if a != b and more and less
    ]
    if not state.equal_parts:
        changes += [{s: mix} for s in menu for mix in _with_more(state, here, s)]
        changes += [{s: mix} for s in menu for mix in _exchanged(state, here, s)]
    steps = [deployment(here.routing, mixes | change) for change in changes]
    reached = state.search.routings.reached
    near = sorted(
        (k for k in routings if k != here.routing and set(state.menu(k)) == set(mixes)),
        key=lambda k: float(np.abs(reached[k] - reached[here.routing]).sum()),
    )
    for k in near[:2]:
        steps += (
            [deployment(k, mixes)] if all(_sustains(state, k, s, mix) for s, mix in mixes.items()) else []
        )
    return [d for d in steps if d.fits(state.search.problem.cluster)]


def _step(choices: Sequence[Option], mix: Mix, by: int) -> Mix | None:
    """The option `by` places above the one of about `mix`'s cost."""
    usd = sum(r.shape.usd_per_hour * r.count for r in mix)
    at = int(np.searchsorted([o.usd_per_hour for o in choices], usd, side="left"))
    known = [o.replicas for o in choices]
    if mix in known:
        at = known.index(mix)
    elif by > 0:
        at -= 1
    return known[at + by] if 0 <= at + by < len(known) else None


def _with_more(state: Refinement, here: Deployment, stage: int) -> list[Mix]:
    """A stage's mix and replicas of any shape from GPUs that are spare: one of them, or all that fit.

    Their share is in proportion to what they sustain.
    """
    demand, _ = state.references.one(stage, here.routing)
    shapes, saturated = demand.table.shapes, demand.table.saturated.tolist()
    known = {id(shape): least for shape, least in zip(shapes, saturated, strict=True)}
    mix = here.mix(stage)
    if id(mix[0].shape) not in known:
        return []
    per_work = mix[0].level / max(known[id(mix[0].shape)], 1e-9)
    spare = {p.name: p.gpus - here.gpus_of(p.name) for p in state.search.problem.cluster.pools}
    return [
        (*mix, Replicas(shape, count, per_work * least))
        for shape, least in zip(shapes, saturated, strict=True)
        for count in sorted({1, spare[shape.pool] // shape.gpus})
        if least > 0 and 0 < count * shape.gpus <= spare[shape.pool]
    ]


def _exchanged(state: Refinement, here: Deployment, stage: int) -> Iterator[Mix]:
    """A stage's mix with other shapes on its GPUs and the spare ones."""
    demand, need = state.references.one(stage, here.routing)
    spare = {p.name: p.gpus - here.gpus_of(p.name) for p in state.search.problem.cluster.pools}
    return exchanges(here.mix(stage), demand.shapes, demand.table.saturated.tolist(), spare, need)


def _sustains(state: Refinement, routing: int, stage: int, mix: Mix) -> bool:
    """Does the mix keep up with what another routing sends to the stage?"""
    demand, need = state.references.one(stage, routing)
    saturated = {id(shape): least for shape, least in zip(demand.shapes, demand.table.saturated, strict=True)}
    return bool(sum(r.count / max(saturated.get(id(r.shape), np.inf), 1e-9) for r in mix) >= need)
