"""One replica: when each request gets its first and its last token."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cascadia_sim.replica_requests import BadRequests, check_fit, check_ran, check_timing, request_arrays
from cascadia_sim.timing import Ints, ReplicaTiming


@dataclass(frozen=True, slots=True, eq=False)
class ReplicaRun:
    """Times [n] in the order of the requests; -1 where the run was stopped before.

    `busy_ps` is the time with an iteration under way, averaged over the lanes. `preemptions` counts sequences
    thrown out and recomputed. `peak_kv_tokens` is the most KV that a lane held, in whole blocks. `complete`
    is False where the run was given up because too many requests were late.
    """

    first_token_ps: Ints
    finish_ps: Ints
    busy_ps: int
    preemptions: int
    peak_kv_tokens: int
    complete: bool


def simulate_replica(
    timing: ReplicaTiming,
    arrival_ps: ArrayLike,
    input_tokens: ArrayLike,
    output_tokens: ArrayLike,
    cached_tokens: ArrayLike,
    *,
    late_ps: int = 0,
    max_late: int = 0,
) -> ReplicaRun:
    """Serves requests [n] that arrive in order; a replica's lanes take them in turn.

    `cached_tokens` of each prompt are found in the prefix cache. With `late_ps` above 0 the run stops once
    more than `max_late` requests took, or are already taking, longer than that from arrival to finish. Raises
    `BadRequests` (a ValueError) for arrivals out of order and for a request that can never fit the KV cache.
    """
    from cascadia_sim import kernel
    from cascadia_sim.kernel_fleet import fleet_of, requests_of

    check_timing(timing)
    given = request_arrays(arrival_ps, input_tokens, output_tokens, cached_tokens)
    if given.arrival_ps.size > 1 and (falls := np.diff(given.arrival_ps) < 0).any():
        raise BadRequests(
            f"arrival_ps[{int(falls.argmax()) + 1}]", "earlier than the one before", "sort by arrival"
        )
    check_fit(given, (timing,))
    fleet = fleet_of((timing,))
    requests = requests_of(*given)
    kernel.assign(fleet, requests, np.arange(given.arrival_ps.size, dtype=np.int64) % timing.lanes)
    late = 0
    for lane in range(timing.lanes):
        fleet.limits[lane, kernel.LATE_PS] = late_ps
        fleet.limits[lane, kernel.MAX_LATE] = max_late - late
        kernel.advance(fleet, requests, lane, kernel.NEVER)
        late += int(fleet.state[lane, kernel.LATE])
        if late > max_late:
            break
    if late <= max_late:
        check_ran(given.arrival_ps, requests.finish_ps)
    return ReplicaRun(
        first_token_ps=requests.first_token_ps,
        finish_ps=requests.finish_ps,
        busy_ps=int(fleet.state[:, kernel.BUSY].sum()) // timing.lanes,
        preemptions=int(fleet.state[:, kernel.PREEMPTIONS].sum()),
        peak_kv_tokens=int(fleet.state[:, kernel.PEAK].max()) * timing.block_size,
        complete=late <= max_late,
    )
