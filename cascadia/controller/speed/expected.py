"""Expectations of a plan for each kind of replica, which what they do is held against."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from cascadia.controller.move.state import JUDGE, Kind, planned_stage
from cascadia.domain.plan import Deployed, Plan
from cascadia.planner.problem.models import find_architecture
from cascadia_sim.iteration.build import replica_timing
from cascadia_sim.iteration.timing import ReplicaTiming

ERROR = 0.2
"""Of a plan that does not tell its calibrations' errors."""

Learned = Mapping[str, Mapping[str, float]]
"""By stage (and `judge`) and GPU: how many times as long as the calibration says."""


class Expected(NamedTuple):
    """`timing` holds what earlier serving taught; `error`: the share by which its calibration may be off."""

    stage: str
    gpu: str
    timing: ReplicaTiming
    error: float


def expected(plan: Plan, folder: Path) -> dict[tuple[str, str, int], Expected]:
    """Expectations by stage, pool and GPUs of a replica; without those of which a stage has two shapes. A model
    that is a path starts at `folder`.
    """
    found: dict[tuple[str, str, int], Expected] = {}
    twice = set()
    for name, unit in _units(plan):
        for group in unit.replicas:
            key, pool = (name, group.pool, group.tp * group.pp), plan.cluster.pool(group.pool)
            if key in found and found[key].timing.lanes != group.pp:
                twice.add(key)
            timing = replica_timing(
                find_architecture(unit.model or "", folder, f"plan: {name}"),
                pool.hardware,
                tp=group.tp,
                pp=group.pp,
                config=unit.config,
                gpus_per_node=pool.gpus_per_node,
            )
            found[key] = Expected(name, pool.gpu, timing, _error(plan, name, group.pool))
    return {key: e for key, e in found.items() if key not in twice}


def key_of(kind: Kind) -> tuple[str, str, int]:
    return planned_stage(kind.stage), kind.pool, kind.gpus


def learned_of(plan: Plan) -> dict[str, dict[str, float]]:
    """Factors that the plan was already made with."""
    return {name: dict(unit.config.learned) for name, unit in _units(plan) if unit.config.learned}


def _units(plan: Plan) -> Iterator[tuple[str, Deployed]]:
    yield from ((stage.name, stage) for stage in plan.stages)
    if plan.judge.replicas:
        yield JUDGE, plan.judge


def _error(plan: Plan, stage: str, pool: str) -> float:
    told = plan.calibrations.get(stage)
    return next((c.error_tpot for c in told.pools if c.pool == pool), ERROR) if told is not None else ERROR
