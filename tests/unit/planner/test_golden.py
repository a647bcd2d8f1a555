"""A plan's every figure is what it was, for each kind of judge, goal and cluster.

Other tests say what is right of a plan; this says that nothing moved unseen. Fields that a plan gains do not count.
Where a figure is meant to move:

    python -m tests.unit.planner.test_golden
"""

import json
from dataclasses import replace
from typing import Any

import pytest

from cascadia.domain.cluster import Pool
from cascadia.domain.objective import Objective, UnderLoad
from cascadia.domain.problem import Problem
from cascadia.files.plan_file import plan_json
from cascadia.planner.plan import plan
from cascadia.planner.refinement.state import Effort
from tests.data import ROOT
from tests.unit.planner.problems import FIVE, NODE, ON_ROUTER, hosted_judge, problem, traffic

pytestmark = pytest.mark.slow

BRIEF = "least cost, mixed GPUs"
"""Searched for briefly: of two pools each is searched as well as both."""
SHORTER = Effort(simulated_requests=8_000)
FILE = ROOT / "tests/golden/planner/plans.json"
MIXED = (NODE, Pool("l40s", "l40s", 1, 4, 1.2))


def cases() -> dict[str, Problem]:
    """Small enough for a second each."""
    load = traffic(300, 30.0)
    return {
        "least latency": problem(judge=hosted_judge(), trace=load),
        BRIEF: problem(
            FIVE[1:4], pools=MIXED, judge=ON_ROUTER, objective=Objective("cost", 0.9, 55.0, 12.0), trace=load
        ),
        "best quality": problem(
            FIVE[2:], judge=ON_ROUTER, objective=Objective("quality", 0.95, None, 9.0), trace=load
        ),
        "gears": replace(
            problem(judge=ON_ROUTER, objective=Objective("latency", 0.95, 58.0, 8.0), trace=load),
            gears=3,
            under_load=UnderLoad(quality_floor=45.0),
        ),
    }


def figures(name: str) -> dict[str, Any]:
    result = plan(cases()[name], effort=SHORTER if name == BRIEF else None)
    found: dict[str, Any] = json.loads(plan_json(replace(result.plan, wall_s=0.0)))
    return found


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("name", cases())
def test_every_figure_is_what_it_was(name: str) -> None:
    agree(figures(name), json.loads(FILE.read_text())[name], "plan")


def agree(found: Any, kept: Any, where: str) -> None:
    if isinstance(kept, dict):
        for key in kept:
            assert key in found, f"{where}.{key}"
            agree(found[key], kept[key], f"{where}.{key}")
    elif isinstance(kept, list):
        assert len(found) == len(kept), where
        for index, (one, other) in enumerate(zip(found, kept, strict=True)):
            agree(one, other, f"{where}[{index}]")
    elif isinstance(kept, float):
        assert found == pytest.approx(kept, rel=1e-6, abs=1e-9), where
    else:
        assert found == kept, where


if __name__ == "__main__":
    FILE.write_text(json.dumps({name: figures(name) for name in cases()}, indent=1) + "\n")
