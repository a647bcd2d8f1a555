"""Streams served one after the other are what each is alone."""

import numpy as np
import pytest

from cascadia_sim.engine.replica import Apart, simulate_replica
from cascadia_sim.engine.requests import request_arrays
from tests.unit.sim.machines import small_machines, with_clients

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", range(6))
def test_each_stream_takes_as_long_as_it_does_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrival = np.sort(rng.integers(0, 30_000, 60))
    given = request_arrays(arrival, rng.integers(1, 20, 60), rng.integers(1, 9, 60), np.zeros(60, np.int64))
    for timing in with_clients(rng, small_machines(rng)):
        apart = Apart(timing, given)
        # Asked twice: nothing of what was served before is left.
        for streams in (4, 3):
            which = [np.arange(first, 60, streams) for first in range(streams)]
            found = apart.latencies_ps(np.concatenate(which), np.cumsum([len(mine) for mine in which]))
            alone = [
                simulate_replica(timing, *(column[mine] for column in given)).finish_ps for mine in which
            ]
            assert found.tolist() == (np.concatenate(alone) - arrival[np.concatenate(which)]).tolist()
