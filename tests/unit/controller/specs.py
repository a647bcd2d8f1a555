"""The spec that a plan of the tests could have been made from."""

from pathlib import Path
from typing import Any

from cascadia.domain.plan import Plan
from tests.unit.planner.specs import valid_spec, write_spec


def spec_of(plan: Plan) -> dict[str, Any]:
    """As plain values."""
    pools = [
        {"name": p.name, "gpu": p.gpu, "nodes": p.nodes, "gpus_per_node": p.gpus_per_node}
        for p in plan.cluster.pools
    ]
    stages = [{"name": stage.name, "model": stage.model} for stage in plan.stages]
    judge = {"kind": plan.judge.kind} | ({"model": plan.judge.model} if plan.judge.model else {})
    return {**valid_spec(), "stages": stages, "cluster": {"pools": pools}, "judge": judge}


def write_spec_of(plan: Plan, folder: Path) -> Path:
    return write_spec(folder, spec_of(plan))
