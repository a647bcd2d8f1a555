"""Work that the bundled example takes, counted in requests that are simulated: seconds would be the machine's.

A stretch of simulation that nobody needs, or that was known already, shows here.
"""

from pathlib import Path
from typing import Any

import pytest

from cascadia.planner.plan import plan
from cascadia.planner.problem.read import read_problem
from cascadia.planner.sensitivity.nearby import sensitivity_of
from cascadia_sim.engine import kernel
from tests.benchmarks.bench_planner_cases import bundled

pytestmark = pytest.mark.slow

MOST_REQUESTS = 8_200_000
MOST_RUNS = 2_120
"""A twentieth more than it takes today, report included; two threads may simulate the same at once."""


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """Number of requests, or visits of requests to stages, of each run of the simulator; no table is kept."""
    monkeypatch.setenv("CASCADIA_CACHE_DIR", str(tmp_path / "store"))
    counts: list[int] = []

    def counted(name: str, which: int) -> None:
        run = getattr(kernel, name)

        def counts_too(*given: Any) -> Any:
            counts.append(given[which].size if name != "together" else given[which].arrival_ps.size)
            return run(*given)

        monkeypatch.setattr(kernel, name, counts_too)

    counted("in_turn", 3)
    counted("dispatch_by_load", 3)
    counted("together", 1)
    return counts


@pytest.mark.long
def test_the_bundled_example_takes_no_more_work_than_it_did(simulated: list[int], tmp_path: Path) -> None:
    sensitivity_of(plan(read_problem(bundled(tmp_path / "spec").path)))
    assert sum(simulated) <= MOST_REQUESTS, sum(simulated)
    assert len(simulated) <= MOST_RUNS, len(simulated)
