"""Many short runs in one call are what each is alone."""

import numpy as np
import pytest

from cascadia_sim.engine.replica import finishes_apart, simulate_replica
from cascadia_sim.engine.requests import BadRequests, request_arrays
from tests.unit.sim.machines import ints, small_machines, with_clients

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", range(6))
def test_each_replica_finishes_as_it_does_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    replica = np.sort(rng.integers(0, 4, 60))
    replica -= replica[0]
    replica = np.unique(replica, return_inverse=True)[1].astype(np.int64)
    arrival = rng.integers(0, 30_000, 60)
    arrival = arrival[np.lexsort((arrival, replica))]
    given = request_arrays(arrival, rng.integers(1, 20, 60), rng.integers(1, 9, 60), np.zeros(60, np.int64))
    for timing in with_clients(rng, small_machines(rng)):
        found = finishes_apart(timing, replica, given)
        for which in range(int(replica[-1]) + 1):
            mine = replica == which
            alone = simulate_replica(timing, *(column[mine] for column in given))
            assert found[mine].tolist() == alone.finish_ps.tolist()


def test_requests_of_one_replica_come_in_order() -> None:
    timing = small_machines(np.random.default_rng(0))[0]
    given = request_arrays(ints(5, 9, 3, 2), ints(1, 1, 1, 1), ints(1, 1, 1, 1), ints(0, 0, 0, 0))
    with pytest.raises(BadRequests, match=r"arrival_ps\[3\]"):
        finishes_apart(timing, ints(0, 0, 1, 1), given)
