"""Replicas that requests are given to: when each request gets its first and its last token."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

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
    from cascadia_sim.engine.fleet import fleet_of, idle, requests_of

    given = request_arrays(arrival_ps, input_tokens, output_tokens, cached_tokens)
    _check_order(given.arrival_ps)
    check_timing(timing)
    check_fit(given, (timing,))
    fleet, requests, n = fleet_of((timing,)), requests_of(*given), given.arrival_ps.size
    fleet.limits[0, kernel.LATE_PS], fleet.limits[0, kernel.MAX_LATE] = late_ps, max_late
    kernel.in_turn(fleet, requests, 0, np.arange(n), np.array([n]), *idle(fleet))
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


class Apart:
    """Requests of which some at a time are served in streams, each by a replica of its own that is idle at first.

    Checked once, and on the arrays of one replica: what a call costs is as long as the run of hundreds of requests.
    """

    def __init__(self, timing: ReplicaTiming, given: RequestArrays) -> None:
        from cascadia_sim.engine.fleet import fleet_of, idle

        check_timing(timing)
        check_fit(given, (timing,))
        self._timing, self._given, self._fleet = timing, given, fleet_of((timing,))
        self._idle = idle(self._fleet)

    def latencies_ps(self, which: Ints, ends: Ints) -> Ints:
        """Latencies of the requests `which` [m], as their clients see them. Stream i ends before place `ends[i]` of
        these, where the next one begins; in each they are in order of arrival."""
        from cascadia_sim.engine import kernel
        from cascadia_sim.engine.fleet import requests_of

        requests = requests_of(*(column[which] for column in self._given))
        kernel.in_turn(self._fleet, requests, 0, np.arange(which.size), ends, *self._idle)
        check_ran(requests.arrival_ps, requests.finish_ps)
        times = requests.first_token_ps, requests.finish_ps
        late_ps = delays_ps((self._timing,), np.zeros_like(which), *times, requests.output_tokens)
        found: Ints = requests.finish_ps + late_ps - requests.arrival_ps
        return found


def _check_order(arrival_ps: Ints) -> None:
    falls = np.diff(arrival_ps) < 0
    if falls.any():
        raise BadRequests(
            f"arrival_ps[{int(falls.argmax()) + 1}]", "earlier than the one before", "sort by arrival"
        )
