"""Today's plan with as many replicas as there are now: what another plan has to be better than."""

from collections.abc import Mapping
from dataclasses import replace

from cascadia.controller.move.state import JUDGE, Kind, planned_stage
from cascadia.domain.plan import Plan, ReplicaGroup


def as_scaled(plan: Plan, counts: Mapping[Kind, int]) -> Plan:
    """`counts`: by kind, what serves or is about to. A stage that has none of them stays as planned."""
    there: dict[tuple[str, str, int], int] = {}
    for kind, count in counts.items():
        key = planned_stage(kind.stage), kind.pool, kind.gpus
        there[key] = there.get(key, 0) + count
    stages = tuple(replace(s, replicas=_groups(s.name, s.replicas, there)) for s in plan.stages)
    judge = replace(plan.judge, replicas=_groups(JUDGE, plan.judge.replicas, there))
    # What it told of other rates is by its own groups, of which some may have gone.
    return replace(plan, stages=stages, judge=judge, scaling=None)


def _groups(
    stage: str, groups: tuple[ReplicaGroup, ...], there: Mapping[tuple[str, str, int], int]
) -> tuple[ReplicaGroup, ...]:
    """A replica keeps the work that the plan gives one of its group, over that of all."""
    found = [there.get((stage, g.pool, g.tp * g.pp), 0) for g in groups]
    work = [n * g.share / g.count for n, g in zip(found, groups, strict=True)]
    if not sum(work):
        return groups
    pairs = zip(groups, found, work, strict=True)
    return tuple(replace(g, count=n, share=w / sum(work)) for g, n, w in pairs if n)
