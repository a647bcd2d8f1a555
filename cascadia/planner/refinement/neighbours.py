"""Steps from a deployment to those beside it: a lighter routing, another option of a stage, a trade, spare GPUs, other
shares."""

from collections.abc import Iterator, Sequence

import numpy as np

from cascadia.planner.allocation.demand import Replicas
from cascadia.planner.deployment.deployment import Deployment, deployment
from cascadia.planner.deployment.options import Mix, Option
from cascadia.planner.deployment.shape_swaps import shape_swaps
from cascadia.planner.deployment.shares import reshared
from cascadia.planner.refinement.state import Refinement

NEAR = 2
"""So many routings of each kind are stepped to."""


def neighbours(
    state: Refinement, here: Deployment, routings: Sequence[int], light: Sequence[int]
) -> list[Deployment]:
    """One stage one option up or down; one up and another down; the same mixes under nearby routings.

    First of all come `light` routings that send no stage more than this one does: they are hardly ever worse.
    """
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
    changes += [{s: mix} for s in menu for mix in _with_more(state, here, s)]
    changes += [{s: mix} for s in menu for mix in _swapped(state, here, s)]
    changes += [{s: mix} for s in menu for mix in reshared(mixes[s])]
    lighter, beside = _routings_near(state, here.routing, routings, light)
    steps = [
        *(deployment(k, mixes) for k in lighter),
        *(deployment(here.routing, mixes | change) for change in changes),
        *(
            deployment(k, mixes)
            for k in beside
            if all(_sustains(state, k, s, mix) for s, mix in mixes.items())
        ),
    ]
    return [d for d in steps if d.fits(state.search.problem.cluster)]


def _routings_near(
    state: Refinement, here: int, routings: Sequence[int], light: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Routings on the same stages: those of `light` with no more load anywhere, and the nearest of `routings`
    and of `light`.
    """
    known, reached = state.search.routings, state.search.routings.reached

    def nearest(among: Sequence[int]) -> list[int]:
        at = np.array([k for k in among if k != here and known.alike(k, here)], dtype=np.int64)
        order = np.argsort(np.abs(reached[at] - reached[here]).sum(axis=1), kind="stable")
        return list(at[order].tolist())

    lights = nearest(light)
    lighter = [k for k in lights if (reached[k] <= reached[here]).all()][:NEAR]
    beside = dict.fromkeys([*nearest(routings)[:NEAR], *lights[:NEAR]])
    return lighter, [k for k in beside if k not in lighter]


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

    Their share is in proportion to what they sustain; replicas of one shape share alike.
    """
    demand, _ = state.references.one(stage, here.routing)
    shapes, saturated = demand.table.shapes, demand.table.saturated.tolist()
    known = {id(shape): least for shape, least in zip(shapes, saturated, strict=True)}
    mix = here.mix(stage)
    if id(mix[0].shape) not in known:
        return []
    per_work = mix[0].level / max(known[id(mix[0].shape)], 1e-9)
    spare = _spare(state, here, stage)
    return [
        _joined(mix, Replicas(shape, count, per_work * least))
        for shape, least in zip(shapes, saturated, strict=True)
        for count in sorted({1, spare[shape.pool] // shape.gpus})
        if least > 0 and 0 < count * shape.gpus <= spare[shape.pool]
    ]


def _swapped(state: Refinement, here: Deployment, stage: int) -> Iterator[Mix]:
    """A stage's mix with other shapes on its GPUs and the spare ones."""
    demand, need = state.references.one(stage, here.routing)
    spare = _spare(state, here, stage)
    return shape_swaps(here.mix(stage), demand.shapes, demand.table.saturated.tolist(), spare, need)


def _spare(state: Refinement, here: Deployment, stage: int) -> dict[str, int]:
    """GPUs of each pool that a stage could take beside its own; of equal parts, no more than its part has left."""
    cluster = state.search.problem.cluster
    left = cluster.gpus
    if state.equal_parts:
        left = cluster.gpus // len(here.mixes) - sum(r.shape.gpus * r.count for r in here.mix(stage))
    return {p.name: max(min(p.gpus - here.gpus_of(p.name), left), 0) for p in cluster.pools}


def _joined(mix: Mix, more: Replicas) -> Mix:
    """`mix` and `more`; replicas that are alike become one group with the same share for each."""
    alike = [r for r in mix if r.shape is more.shape]
    if not alike:
        return (*mix, more)
    count = sum(r.count for r in alike) + more.count
    total = sum(r.count / r.level for r in alike) + more.count / more.level
    joined = Replicas(more.shape, count, count / total)
    at = mix.index(alike[0])
    return (*mix[:at], joined, *(r for r in mix[at + 1 :] if r.shape is not more.shape))


def _sustains(state: Refinement, routing: int, stage: int, mix: Mix) -> bool:
    """Does the mix keep up with what another routing sends to the stage?"""
    demand, need = state.references.one(stage, routing)
    saturated = {id(shape): least for shape, least in zip(demand.shapes, demand.table.saturated, strict=True)}
    return bool(sum(r.count / max(saturated.get(id(r.shape), np.inf), 1e-9) for r in mix) >= need)
