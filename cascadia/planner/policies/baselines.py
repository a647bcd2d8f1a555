"""Baselines: what others would do with the same models and workers, as tables that the same simulator plays.

Jellyfish+ and ModelSwitching as RAMSIS section 7 describes them; gears with minimum queue lengths as CascadeServe
section 4; models chosen greedily by slack; and a mixture of two models by load. Their settings are arguments, so that
each can be given its best.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from cascadia.domain.policy import Policies, Policy, PolicyRow
from cascadia.domain.workload import Floats
from cascadia.planner.policies.fluid import concave_front
from cascadia.planner.policies.played import worker_kind
from cascadia.planner.policies.sustained import sustained_rps
from cascadia.planner.policies.tables import Group, by_slack, gathered, largest_batches, one_model
from cascadia.policy.problem import ModelProfile
from cascadia_sim.batch.simulate import WorkerKind

Rows = tuple[PolicyRow, ...]


def _steps(group: Group, carried_rps: Mapping[str, float], rows: Mapping[str, Rows]) -> list[Policy]:
    """A level a model, most accurate first, up to the rate that it carries; beyond all of them the last."""
    best_first = sorted(group.models, key=lambda model: -model.accuracy)
    return [
        Policy(carried_rps[model.name], rows[model.name])
        for model in best_first
        if carried_rps[model.name] > 0
    ]


def jellyfish(group: Group, batch_share: float = 0.5, headroom: float = 1.0) -> Policies:
    """The most accurate model whose profiled throughput is above the load over `headroom`, in batches that take at most
    `batch_share` of the SLO."""
    within_s = batch_share * group.slo_s
    carried, rows = {}, {}
    for model in group.models:
        carried[model.name] = headroom * group.workers * model.throughput_rps(within_s)
        rows[model.name] = one_model(model, model.largest_batch(within_s))
    return group.policies(_steps(group, carried, rows), "jellyfish+")


def model_switching(
    group: Group, unit_s: Floats, batch_share: float = 0.5, late_max: float = 0.01
) -> Policies:
    """The most accurate model whose response time at the load, measured beforehand, keeps the SLO (99 of 100)."""
    carried, rows = {}, {}
    for model in group.models:
        most = model.largest_batch(batch_share * group.slo_s)
        rows[model.name] = one_model(model, most)
        carried[model.name] = _carried(group, model, rows[model.name], unit_s, late_max) if most else 0.0
    return group.policies(_steps(group, carried, rows), "modelswitching")


def gears(group: Group, unit_s: Floats, batch_share: float = 0.5, late_max: float = 0.01) -> Policies:
    """A model for each range of the load, and the least minimum queue length with which it carries that."""
    levels: list[Policy] = []
    for model in sorted(group.models, key=lambda model: -model.accuracy):
        most, carried = model.largest_batch(batch_share * group.slo_s), 0.0
        for least in (1, 2, 4, 8, 16):
            if least > most:
                break
            rows = gathered(model, least, most)
            rate_rps = _carried(group, model, rows, unit_s, late_max)
            if rate_rps > carried:
                levels.append(Policy(rate_rps, rows))
                carried = rate_rps
    return group.policies(levels, "gears")


def greedy(group: Group, batch_share: float = 0.5, share: float = 1.0) -> Policies:
    """The most accurate model that takes at most `share` of the earliest request's slack, at any load."""
    caps = largest_batches(group.models, group.slo_s, batch_share)
    return group.policies([Policy(group.capacity_rps, by_slack(group.models, caps, share))], "greedy")


@dataclass(frozen=True, slots=True)
class Mixture:
    """Workers of which, at each load, some serve one model and the others the next faster one: a kind each, with the
    tables of `first` on the first of them."""

    first: Policies
    kinds: tuple[WorkerKind, ...]

    def at(self, rate_rps: float) -> "Mixture":
        """The same with the tables of this load alone."""
        level = self.first.levels.index(self.first.at(rate_rps))
        kinds = tuple(replace(kind, levels=(kind.levels[level],)) for kind in self.kinds)
        return Mixture(replace(self.first, levels=(self.first.levels[level],)), kinds)


def mixture(group: Group, batch_share: float = 0.5, headroom: float = 0.95) -> Mixture:
    """The two models at each load, and the workers for each, that a fluid of `headroom` times the throughput fills."""
    within_s = batch_share * group.slo_s
    useful = [model for model in group.models if model.largest_batch(within_s)]
    rate = {model.name: headroom * model.throughput_rps(within_s) for model in useful}
    front = concave_front(useful, rate)
    rows = {model.name: one_model(model, model.largest_batch(within_s)) for model in front}
    # From all workers on the most accurate model to all on the fastest, one worker at a time.
    levels: list[tuple[float, list[str]]] = []
    for better, faster in pairwise(front):
        for moved in range(group.workers):
            names = [faster.name] * moved + [better.name] * (group.workers - moved)
            levels.append((sum(rate[name] for name in names), names))
    levels.append((group.workers * rate[front[-1].name], [front[-1].name] * group.workers))
    tables = [
        group.policies([Policy(up_to, rows[names[w]]) for up_to, names in levels], "mixture")
        for w in range(group.workers)
    ]
    return Mixture(tables[0], tuple(worker_kind(table, group.models, 1) for table in tables))


def _carried(group: Group, model: ModelProfile, rows: Rows, unit_s: Floats, late_max: float) -> float:
    alone = group.policies([Policy(group.capacity_rps, rows)], model.name)
    return sustained_rps(
        alone, group.models, late_max, unit_s, group.workers * model.throughput_rps(group.slo_s)
    )
