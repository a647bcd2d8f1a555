"""Requests a second that replicas sustain: on the way to another plan, that stages get less than all along hurts nobody
as long as they can do what comes."""

from collections.abc import Mapping

from cascadia.controller.move.state import JUDGE, Desired, Kind, planned_stage
from cascadia.domain.plan import Plan

SUSTAINED = 0.85
"""Load (of what a replica could do at most) at which it keeps up for the time of a move."""


def sustained_rps(plan: Plan, desired: Desired) -> Mapping[Kind, float]:
    """Requests a second by kind of `desired`, which a fleet makes of `plan`: what the plan gives a replica to do,
    and what it has room for beside that."""
    return {kind: rps * _room(plan, kind) for kind, rps in desired.capacity_rps.items()}


def _room(plan: Plan, kind: Kind) -> float:
    """Factor by which a replica can do more than it is given, at least 1: plans that load it more were simulated."""
    stage = planned_stage(kind.stage)
    told = (
        plan.predicted.judge
        if stage == JUDGE
        else next((each for each in plan.predicted.stages if each.name == stage), None)
    )
    return 1.0 if told is None or not told.load else max(1.0, SUSTAINED / told.load)
