"""A run that is bound to miss its limit is given up early, and only then."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.iteration.timing import ReplicaTiming
from tests.examples import examples
from tests.unit.sim.iteration.test_twin import Request, timings, workloads
from tests.unit.sim.machines import machine

pytestmark = pytest.mark.slow


@settings(max_examples=examples(300))
@given(timings(), workloads(), st.integers(1, 60_000), st.integers(0, 5))
def test_a_run_is_complete_exactly_if_few_enough_are_late(
    timing: ReplicaTiming, requests: list[Request], late_ps: int, max_late: int
) -> None:
    columns = [np.array(column, dtype=np.int64) for column in zip(*requests, strict=True)]
    full = simulate_replica(timing, *columns)
    run = simulate_replica(timing, *columns, late_ps=late_ps, max_late=max_late)
    late = int((full.finish_ps - columns[0] > late_ps).sum())
    assert run.complete == (late <= max_late)
    done = run.finish_ps >= 0
    assert (run.finish_ps[done] == full.finish_ps[done]).all()
    assert done.all() or not run.complete


def test_a_saturated_run_stops_long_before_its_end() -> None:
    n = 10_000
    run = simulate_replica(
        machine(seqs=1),
        np.arange(n) * 500,
        np.full(n, 10),
        np.full(n, 10),
        np.zeros(n, int),
        late_ps=1_000_000,
        max_late=50,
    )
    assert not run.complete
    assert (run.finish_ps >= 0).sum() < n / 50
