"""Deployments with fewer or more replicas of the shapes that another has: all of them alike, or those of one shape."""

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from cascadia.planner.deployment.deployment import Deployment, deployment


def scaled(here: Deployment, share: float) -> Deployment:
    """Each shape's replicas times `share`, rounded up."""
    mixes = {
        stage: tuple(replace(r, count=max(1, ceil(share * r.count))) for r in mix)
        for stage, mix in here.mixes
    }
    return deployment(here.routing, mixes)


def groups(here: Deployment) -> Iterator[tuple[int, int]]:
    """Stage and place in its mix of each shape, those that cost the most first."""
    usd = {
        (stage, at): r.shape.usd_per_hour * r.count for stage, mix in here.mixes for at, r in enumerate(mix)
    }
    yield from sorted(usd, key=lambda group: (-usd[group], group))


def most_alike(here: Deployment) -> int:
    """Replicas of the shape that has the most."""
    return max((r.count for _, mix in here.mixes for r in mix), default=0)


def count_of(here: Deployment, group: tuple[int, int]) -> int:
    return here.mix(group[0])[group[1]].count


def with_count(here: Deployment, group: tuple[int, int], count: int) -> Deployment:
    """`here` with so many replicas of one of its `groups`, at least one."""
    stage, place = group
    mix = tuple(replace(r, count=count) if at == place else r for at, r in enumerate(here.mix(stage)))
    return deployment(here.routing, dict(here.mixes) | {stage: mix})
