"""Kinds of workers, and which models sit on them where their memory does not hold all."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cascadia.domain.errors import Infeasible
from cascadia.domain.names import point_of
from cascadia.planner.policies.fluid import concave_front, fluid_bound, fluid_shares
from cascadia.planner.policies.placement import Resident, place
from cascadia.planner.policies.tables import Group
from cascadia.policy.problem import ModelProfile

MOST_SETS = 20_000
"""Sets of models that are weighed; beyond, the first found stand for all."""
PATTERN = 6
"""Workers for which a spread placement is searched; further workers repeat it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Workers to be had: up to `most`, each at `usd_per_hour`, on which `models` take what their profiles say.

    `memory_gib` is what a worker has, `takes_gib` what each model takes of it; None: all models fit.
    """

    name: str
    models: tuple[ModelProfile, ...]
    most: int
    usd_per_hour: float = 0.0
    memory_gib: float | None = None
    takes_gib: tuple[float, ...] = ()
    alike: bool = False
    """All workers have the same models, however few fit."""
    exits: tuple[ModelProfile, ...] = ()
    """Further choices on the same workers: passes of `models` that end behind a layer."""

    def exiting(self, slo_s: float) -> "Kind | None":
        """The same with its exits among the models; of all those that a fluid mixes at some load, in batches within
        `slo_s`, since each further choice takes time to weigh. None where no exit is among these, or a worker's memory
        does not hold them.

        An exit needs its whole model too, and the passes behind each layer as much memory once more.
        """
        rate = {each.name: each.carried_rps(slo_s) for each in (*self.models, *self.exits)}
        mixed = concave_front([each for each in (*self.models, *self.exits) if rate[each.name]], rate)
        if all(point_of(each.name).at is None for each in mixed):
            return None
        kind = replace(self, models=tuple(mixed), exits=())
        if self.memory_gib is None:
            return kind
        sits: set[tuple[str, int | None]] = set()
        takes = []
        for of, at in (point_of(each.name) for each in mixed):
            parts = {(of, None), (of, None if at is None else at.layer)} - sits
            takes.append(len(parts) * self.takes(of))
            sits |= parts
        kind = replace(kind, takes_gib=tuple(takes))
        return kind if kind.holds_all else None

    @property
    def holds_all(self) -> bool:
        return self.memory_gib is None or sum(self.takes_gib) <= self.memory_gib

    def takes(self, name: str) -> float:
        """Memory of a model, in GiB."""
        return next(gib for model, gib in zip(self.models, self.takes_gib, strict=True) if model.name == name)


def fits(made: Group, kind: Kind) -> bool:
    """Tells whether a worker holds all models of `made` at once."""
    return kind.memory_gib is None or sum(kind.takes(m.name) for m in made.models) <= kind.memory_gib


def alike(every: Group, kind: Kind, loads_rps: tuple[float, float]) -> Group | None:
    """The same models on every worker: of the sets that fit, the one of which a fluid makes the most at the loads'
    ends and between; None where none fits."""

    def worth(models: tuple[ModelProfile, ...]) -> tuple[float, ...]:
        trial = replace(every, models=models)
        low, high = loads_rps
        bounds = [fluid_bound(trial, rate) or 0.0 for rate in (low, (low + high) / 2, high)]
        return (sum(bound > 0 for bound in bounds), sum(bounds), len(models))

    sets = [models for _, models in zip(range(MOST_SETS), _sets(every, kind), strict=False) if models]
    return replace(every, models=max(sets, key=worth)) if sets else None


def spread_out(every: Group, kind: Kind, loads_rps: tuple[float, float]) -> tuple[frozenset[str], ...] | None:
    """Different models on different workers, by CascadeServe's placement; None where it finds none. What each load asks
    of each model is a fluid's best mixture."""
    assert kind.memory_gib is not None
    pattern = min(PATTERN, every.workers)
    residents = [
        Resident(m.name, kind.takes(m.name), 1 / max(m.throughput_rps(every.slo_s), 1e-9))
        for m in every.models
    ]
    low, high = loads_rps
    shares = [(rate, fluid_shares(every, rate)) for rate in (low, (low + high) / 2, high)]
    levels = [
        {name: share * rate * pattern / every.workers for name, share in mix.items()}
        for rate, mix in shares
        if mix
    ]
    try:
        sits = place(residents, [kind.memory_gib] * pattern, levels).sits
    except Infeasible:
        return None
    if not all(sits):
        return None
    return tuple(sits[w % pattern] for w in range(every.workers))


def _sets(
    every: Group, kind: Kind, at: int = 0, left_gib: float | None = None
) -> Iterator[tuple[ModelProfile, ...]]:
    """All sets of models that fit together, those with the fastest models first."""
    left_gib = kind.memory_gib if left_gib is None else left_gib
    assert left_gib is not None
    if at == len(every.models):
        yield ()
        return
    model = every.models[at]
    if kind.takes(model.name) <= left_gib:
        for rest in _sets(every, kind, at + 1, left_gib - kind.takes(model.name)):
            yield (model, *rest)
    yield from _sets(every, kind, at + 1, left_gib)
