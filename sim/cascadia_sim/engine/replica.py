"""Replicas that requests are given to: when each request gets its first and its last token."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cascadia_sim.engine.arrays import Fleet, Requests
from cascadia_sim.engine.client import delays_ps
from cascadia_sim.engine.requests import (
    BadRequests,
    RequestArrays,
    check_fit,
    check_ran,
    check_timing,
    request_arrays,
)
from cascadia_sim.iteration.timing import Ints, ReplicaTiming


@dataclass(frozen=True, slots=True, eq=False)
class ReplicaRun:
    """Times [n] in the order of the requests, as clients see them (`client.py`); -1 where the run was stopped before.

    `busy_ps` is the time with an iteration under way, averaged over a pipeline's stages. `preemptions` counts
    sequences thrown out and recomputed. `peak_kv_tokens` is the most KV held, in whole blocks. `complete` is
    False where the run was given up because too many requests were late.
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
    """Serves requests [n] that arrive in order.

    `cached_tokens` of each prompt are found in the prefix cache. With `late_ps` above 0 the run stops once
    more than `max_late` requests took, or are already taking, longer than that in the engine. Raises
    `BadRequests` (a ValueError) for arrivals out of order and for a request that can never fit the KV cache.
    """
    from cascadia_sim.engine import kernel

    given = request_arrays(arrival_ps, input_tokens, output_tokens, cached_tokens)
    fleet, requests = _given(timing, 1, np.zeros(given.arrival_ps.size, np.int64), given)
    fleet.limits[0, kernel.LATE_PS], fleet.limits[0, kernel.MAX_LATE] = late_ps, max_late
    kernel.advance(fleet, requests, 0, kernel.NEVER)
    state = fleet.state[0]
    complete = bool(state[kernel.LATE] <= max_late)
    if complete:
        check_ran(given.arrival_ps, requests.finish_ps)
    first_token_ps, finish_ps = requests.first_token_ps, requests.finish_ps
    client_ps = delays_ps((timing,), np.zeros_like(finish_ps), first_token_ps, finish_ps, given.output_tokens)
    return ReplicaRun(
        first_token_ps=first_token_ps + client_ps,
        finish_ps=finish_ps + client_ps,
        busy_ps=int(state[kernel.BUSY]) // timing.lanes,
        preemptions=int(state[kernel.PREEMPTIONS]),
        peak_kv_tokens=int(state[kernel.PEAK]) * timing.block_size,
        complete=complete,
    )


def finishes_apart(timing: ReplicaTiming, replica: Ints, given: RequestArrays) -> Ints:
    """Finish of each request [n], as its client sees it, where equal replicas serve their own.

    `replica` [n] counts up from 0; those of one arrive in order. One call for many short runs: what a call costs is as
    long as the run of hundreds of requests.
    """
    from cascadia_sim.engine import kernel

    replicas = int(replica[-1]) + 1 if replica.size else 0
    fleet, requests = _given(timing, replicas, replica, given)
    for which in range(replicas):
        kernel.advance(fleet, requests, which, kernel.NEVER)
    check_ran(given.arrival_ps, requests.finish_ps)
    times = requests.first_token_ps, requests.finish_ps
    late_ps = delays_ps((timing,), np.zeros_like(replica), *times, given.output_tokens)
    return requests.finish_ps + late_ps


def _given(
    timing: ReplicaTiming, replicas: int, replica: Ints, given: RequestArrays
) -> tuple[Fleet, Requests]:
    """Equal replicas, each with its requests in its queue."""
    from cascadia_sim.engine import kernel
    from cascadia_sim.engine.fleet import fleet_of, requests_of

    check_timing(timing)
    falls = np.diff(given.arrival_ps) < 0
    if falls.any() and (falls := falls & (np.diff(replica) == 0)).any():
        raise BadRequests(
            f"arrival_ps[{int(falls.argmax()) + 1}]", "earlier than the one before", "sort by arrival"
        )
    check_fit(given, (timing,))
    fleet, requests = fleet_of((timing,) * replicas), requests_of(*given)
    kernel.assign(fleet, requests, replica)
    return fleet, requests
