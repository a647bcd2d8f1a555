"""A plan's ladder as the simulated fleet plays it: by the rule of the router, on the replicas that serve."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cascadia.controller.move.state import Routing
from cascadia.domain.gear import ladder_of, rooms
from cascadia.domain.plan import Plan

JUDGE = "judge"


class Rung(NamedTuple):
    """A gear: the stages that it asks, in order, and the gates between them. Where two routings are mixed, a `share`
    (0-1) of the requests goes by the thresholds `other`, in turn; a stage with `ASKS_NONE` is then not asked."""

    stages: tuple[str, ...]
    thresholds: tuple[float, ...]
    share: float = 0.0
    other: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Rungs:
    """A plan's ladder. `planned_rps`: by stage, what its replicas are given; `rooms`: what it could lose of them."""

    rungs: tuple[Rung, ...]
    borders: tuple[float, ...] = ()
    planned_rps: Mapping[str, float] = field(default_factory=dict)
    rooms: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of_routing(cls, routing: Routing) -> "Rungs":
        return cls((Rung(tuple(stage for stage in routing.stages if stage != JUDGE), routing.thresholds),))

    @classmethod
    def of(cls, plan: Plan) -> "Rungs":
        if plan.mixture_by_stage is not None:
            share, other, _ = plan.mixture_by_stage
            own = cls.of_routing(routing_of(plan)).rungs[0]
            return cls((own._replace(share=share, other=tuple(other[stage] for stage in own.stages[:-1])),))
        if len(plan.gears) < 2:
            return cls.of_routing(routing_of(plan))
        gates = [stage.name for stage in plan.stages[:-1]]
        rungs = []
        for gear in plan.gears:
            threshold = dict(zip(gates, gear.thresholds, strict=True))
            rungs.append(Rung(gear.stages, tuple(threshold[stage] for stage in gear.stages[:-1])))
        told = {stage.name: stage for stage in plan.predicted.stages}
        every = dict.fromkeys(stage for rung in rungs for stage in rung.stages)
        asked = [stage for stage in every if told[stage].rate_rps]
        borders = ladder_of(plan.gears).borders
        planned = {stage: told[stage].rate_rps for stage in asked}
        found = dict(zip(asked, rooms([told[stage].load for stage in asked]), strict=True))
        return cls(tuple(rungs), borders, planned, found)


def routing_of(plan: Plan) -> Routing:
    """Another ladder or mixture is another routing, though thresholds are the same."""
    deployed = [stage.name for stage in plan.stages if stage.deployed]
    threshold = dict(zip((stage.name for stage in plan.stages), (*plan.thresholds, 0.0), strict=True))
    judged = (JUDGE,) if plan.judge.gpus else ()
    told = plan.gears_document() or plan.mixture_document()
    thresholds = tuple(threshold[stage] for stage in deployed[:-1])
    return Routing((*deployed, *judged), thresholds, repr(told) if told else "")
