"""On the requests and with the iteration times of an independent simulator, the engine comes to its results.

A few runs of each kind, with tolerances twice those asked of all runs together; `tests.benchmarks.bench_vidur` has
them all.
"""

from itertools import groupby

import numpy as np
import pytest

from tests.benchmarks.bench_vidur import TIMINGS, compare
from tests.benchmarks.fidelity.vidur_runs import Run, read_runs

RUNS_A_KIND = 4


def _kind(run: Run) -> tuple[bool, int, int]:
    return run.chunked, run.pp, run.replicas


@pytest.fixture(scope="module")
def kinds() -> dict[tuple[bool, int, int], list[Run]]:
    """Runs spread evenly over those with the same scheduler, pipeline degree and number of replicas."""
    grouped = groupby(sorted(read_runs(), key=_kind), _kind)
    spread = {kind: list(runs) for kind, runs in grouped}
    return {kind: runs[:: len(runs) // RUNS_A_KIND] for kind, runs in spread.items()}


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize(("pp", "replicas"), [(1, 1), (2, 1), (4, 1), (1, 2), (1, 4)])
def test_latencies_and_throughput_agree(
    kinds: dict[tuple[bool, int, int], list[Run]], chunked: bool, pp: int, replicas: int
) -> None:
    runs = kinds[chunked, pp, replicas]
    assert len(runs) >= RUNS_A_KIND
    error = np.abs([compare(run, TIMINGS["given"]).error for run in runs]).mean(axis=0)
    assert (error <= [0.06, 0.06, 0.10, 0.10, 0.02]).all(), error


def test_memory_runs_out_where_it_does_there() -> None:
    restarted = [run for run in read_runs() if run.restarts > 0]
    assert len(restarted) >= 4
    for run in restarted:
        assert compare(run, TIMINGS["given"]).preemptions == pytest.approx(run.restarts, rel=0.6, abs=3)
