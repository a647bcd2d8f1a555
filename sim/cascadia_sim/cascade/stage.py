"""A stage: replicas, possibly of unequal shapes, behind one dispatch rule."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cascadia_sim.cascade.by_rule import QueueingRule, Rule, serve
from cascadia_sim.engine.arrays import Fleet, Requests
from cascadia_sim.engine.client import delays_ps
from cascadia_sim.engine.dispatch import Dispatch, Replica, check_dispatch
from cascadia_sim.engine.requests import (
    RequestArrays,
    check_fit,
    check_ran,
    check_timing,
    request_arrays,
)
from cascadia_sim.errors import BadInput
from cascadia_sim.hardware.cores import usable_cores
from cascadia_sim.iteration.timing import Ints

__all__ = ["Dispatch", "Replica", "StageRun", "check_replicas", "simulate_stage"]

# Below this many requests a replica's run is shorter than what a thread costs.
REQUESTS_WORTH_A_THREAD = 5_000


@dataclass(frozen=True, slots=True, eq=False)
class StageRun:
    """`replica`, `first_token_ps`, `finish_ps` [n] in the caller's order; `busy_ps` [R], averaged over stages.

    Times are as the client sees them (`engine/client.py`).

    `span_ps` is the time from the first arrival to the last finish.
    """

    replica: Ints
    first_token_ps: Ints
    finish_ps: Ints
    busy_ps: Ints
    preemptions: int
    span_ps: int

    @property
    def utilisation(self) -> NDArray[np.float64]:
        """Share of the span [R] that each replica was at work, 0-1."""
        return self.busy_ps / max(self.span_ps, 1)


def simulate_stage(
    replicas: Sequence[Replica],
    dispatch: Dispatch,
    arrival_ps: ArrayLike,
    input_tokens: ArrayLike,
    output_tokens: ArrayLike,
    cached_tokens: ArrayLike,
    *,
    most_output: int | None = None,
    rule: Rule | QueueingRule | None = None,
) -> StageRun:
    """Serves requests [n], in any order of arrival; those that arrive together keep the caller's order.

    `most_output`: what the dispatcher knows that no answer exceeds, in tokens. `rule` chooses in place of `dispatch`.
    """
    check_dispatch(dispatch)
    check_replicas(replicas)
    given = request_arrays(arrival_ps, input_tokens, output_tokens, cached_tokens)
    check_fit(given, [r.timing for r in replicas])
    order = _order(given.arrival_ps)
    ordered = given if order is None else RequestArrays(*(column[order] for column in given))
    return _in_callers_order(_run(replicas, dispatch, ordered, most_output, rule), order)


def check_replicas(replicas: Sequence[Replica]) -> None:
    if not replicas:
        raise BadInput("replicas", "a stage without replicas serves nothing", "give at least one")
    for timing in {id(r.timing): r.timing for r in replicas}.values():
        check_timing(timing)


def _order(arrival_ps: Ints) -> Ints | None:
    """Permutation that sorts the arrivals; None where they are sorted."""
    if arrival_ps.size < 2 or not (np.diff(arrival_ps) < 0).any():
        return None
    return np.argsort(arrival_ps, kind="stable")


def _run(
    replicas: Sequence[Replica],
    dispatch: Dispatch,
    given: RequestArrays,
    most_output: int | None,
    rule: Rule | QueueingRule | None,
) -> StageRun:
    from cascadia_sim.engine import kernel
    from cascadia_sim.engine.fleet import fleet_of, requests_of, sites_of

    n = given.arrival_ps.size
    fleet, requests = fleet_of([r.timing for r in replicas]), requests_of(*given)
    sites = sites_of(replicas, (most_output,))
    replica = np.zeros(n, np.int64)
    if rule is not None:
        serve(fleet, requests, sites, [r.timing for r in replicas], rule, replica)
    elif dispatch == "least-outstanding" and len(replicas) > 1:
        kernel.dispatch_by_load(fleet, requests, sites, replica)
    else:
        kernel.take_turns(sites, replica)
        _run_apart(fleet, requests, replica)
    check_ran(given.arrival_ps, requests.finish_ps)
    late_ps = delays_ps(
        [r.timing for r in replicas],
        replica,
        requests.first_token_ps,
        requests.finish_ps,
        given.output_tokens,
    )
    first_token_ps, finish_ps = requests.first_token_ps + late_ps, requests.finish_ps + late_ps
    return StageRun(
        replica=replica,
        first_token_ps=first_token_ps,
        finish_ps=finish_ps,
        busy_ps=fleet.state[:, kernel.BUSY] // fleet.limits[:, kernel.STAGES],
        preemptions=int(fleet.state[:, kernel.PREEMPTIONS].sum()),
        span_ps=int(finish_ps.max() - given.arrival_ps[0]) if n else 0,
    )


def _run_apart(fleet: Fleet, requests: Requests, replica: Ints) -> None:
    """Runs every replica to its end, on threads where that pays: none writes what another one reads."""
    from cascadia_sim.engine import kernel
    from cascadia_sim.engine.fleet import idle

    new = idle(fleet)
    replicas = fleet.state.shape[0]
    threads = min(replicas, replica.size // REQUESTS_WORTH_A_THREAD)
    if threads > 1:
        # Not for each short run: it is a look at the machine's files.
        threads = min(threads, usable_cores())
    # Numbers of few bits are sorted by their digits, in a fifth of the time.
    by_replica = np.argsort(replica.astype(np.min_scalar_type(replicas)), kind="stable")
    mine = np.split(by_replica, np.cumsum(np.bincount(replica, minlength=replicas))[:-1])

    def run(which: int) -> None:
        kernel.in_turn(fleet, requests, which, mine[which], np.array([mine[which].size]), *new)

    if threads < 2:
        for which in range(replicas):
            run(which)
        return
    with ThreadPoolExecutor(threads) as pool:
        # `list`: what a thread raises is raised only where its result is taken.
        list(pool.map(run, range(replicas)))


def _in_callers_order(run: StageRun, order: Ints | None) -> StageRun:
    if order is None:
        return run
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return StageRun(
        replica=run.replica[place],
        first_token_ps=run.first_token_ps[place],
        finish_ps=run.finish_ps[place],
        busy_ps=run.busy_ps,
        preemptions=run.preemptions,
        span_ps=run.span_ps,
    )
