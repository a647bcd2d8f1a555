"""The parts of `bench_planner` that need no planning."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cascadia_traces.trace import Trace
from tests.benchmarks.bench_planner import planning_steps
from tests.benchmarks.bench_planner_cases import STEPS_OF_LADDER, cheapest, grown, repeated, targets
from tests.benchmarks.bench_planner_run import profiled, timed


@pytest.mark.long
def test_it_tells_how_it_is_used() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.bench_planner", "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=3600,
    )
    assert "--no-growth" in told.stdout


def test_the_cases_and_their_seconds_are_those_asked_for() -> None:
    assert [t.asked_s for t in targets()] == [3.0, 3.0, 3.0, 3.0, 5.0, 5.0, 60.0, 60.0, 30.0]


def test_the_least_cost_is_timed_too(tmp_path: Path) -> None:
    """It took five times as long as the least latency, and stood nowhere."""
    objective = cheapest(tmp_path).spec["objective"]
    assert objective == {"minimize": "cost", "quantile": 0.95, "quality_min": 86, "latency_max_s": 25.0}


def test_quick_growth_looks_at_the_same_things_at_fewer_sizes() -> None:
    quick, whole = ([(what, size) for what, size, _ in grown(q)] for q in (True, False))
    assert set(quick) < set(whole)
    assert {what for what, _ in quick} == {what for what, _ in whole}
    assert sorted(STEPS_OF_LADDER) == [2, 3, 4, 5]


def test_a_command_is_timed_with_a_store_of_its_own_each_time(tmp_path: Path) -> None:
    log = tmp_path / "stores"
    write = f"import os; open({str(log)!r}, 'a').write(os.environ['CASCADIA_CACHE_DIR'] + chr(10))"
    took = timed([sys.executable, "-S", "-c", write], repeats=2)
    assert len(took.wall_s) == len(took.cpu_s) == 2
    assert 0 < took.best_s <= took.median_s
    assert len(set(log.read_text().split())) == 2


def test_a_command_that_fails_is_no_timing() -> None:
    with pytest.raises(RuntimeError, match="ended with 3"):
        timed([sys.executable, "-S", "-c", "raise SystemExit(3)"], repeats=1)


def test_every_step_that_is_timed_is_a_function_of_the_planner() -> None:
    steps, hottest = profiled(lambda: sum(range(10)), planning_steps())
    assert [s.name for s in steps] == list(planning_steps())
    assert all(s.calls == 0 for s in steps)
    assert hottest


def test_a_trace_repeated_keeps_its_gaps_across_the_seam() -> None:
    once = Trace(np.array([0.0, 1.0, 3.0]), np.array([5, 6, 7]), np.array([1, 2, 3]))
    found = repeated(once, 7)
    assert found.arrival_s.tolist() == [0.0, 1.0, 3.0, 4.5, 5.5, 7.5, 9.0]
    assert found.input_tokens.tolist() == [5, 6, 7, 5, 6, 7, 5]
