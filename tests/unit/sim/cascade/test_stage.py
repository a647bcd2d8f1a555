"""Dispatch rules share requests as they say, and replicas serve their share as if alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia_sim.cascade.stage import REQUESTS_WORTH_A_THREAD, Replica, simulate_stage
from cascadia_sim.engine import kernel
from cascadia_sim.engine.dispatch import Dispatch
from cascadia_sim.engine.fleet import fleet_of, requests_of
from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.iteration.timing import Ints, ReplicaTiming
from tests.examples import examples
from tests.unit.sim.iteration.test_twin import Request, timings, workloads
from tests.unit.sim.machines import ints, machine, replica

pytestmark = pytest.mark.slow


def columns_of(requests: list[Request]) -> list[Ints]:
    return [np.array(column, dtype=np.int64) for column in zip(*requests, strict=True)]


def shares(dispatch: Dispatch, replicas: list[Replica], n: int) -> list[int]:
    run = simulate_stage(
        replicas, dispatch, np.arange(n) * 9_000, np.full(n, 5), np.full(n, 5), np.zeros(n, int)
    )
    return np.bincount(run.replica, minlength=len(replicas)).tolist()


def test_equal_replicas_take_turns() -> None:
    assert shares("round-robin", [replica(), replica()], 60) == [30, 30]


def test_round_robin_shares_are_exact_over_each_cycle() -> None:
    assert shares("round-robin", [replica(5.0), replica(1.0), replica(1.0)], 70) == [50, 10, 10]


def test_round_robin_turns_are_spread_as_nginx_spreads_them() -> None:
    n = 7
    replicas = [replica(5.0), replica(1.0), replica(1.0)]
    run = simulate_stage(
        replicas, "round-robin", np.arange(n), np.full(n, 5), np.full(n, 5), np.zeros(n, int)
    )
    assert run.replica.tolist() == [0, 0, 1, 0, 2, 0, 0]


def test_the_least_outstanding_keeps_off_a_busy_replica() -> None:
    run = simulate_stage(
        [replica(), replica()],
        "least-outstanding",
        ints(0, 1, 2, 3),
        ints(900, 5, 5, 5),
        ints(20, 2, 2, 2),
        np.zeros(4, int),
    )
    assert run.replica.tolist() == [0, 1, 1, 1]


def test_what_finishes_at_the_instant_of_an_arrival_is_no_load() -> None:
    columns = ints(0, 5, 1010), ints(10, 5, 10), ints(1, 2, 1), ints(0, 0, 0)
    run = simulate_stage([replica(), replica()], "least-outstanding", *columns)
    assert run.finish_ps[0] == 1010
    assert run.replica.tolist() == [0, 1, 0]


def test_a_twice_as_able_replica_counts_its_load_half() -> None:
    run = simulate_stage(
        [replica(1.0), replica(2.0)],
        "least-outstanding",
        ints(0, 1, 2, 3),
        ints(5, 5, 5, 5),
        ints(5, 5, 5, 5),
        np.zeros(4, int),
    )
    # Of two idle ones the abler comes first; with twice as much in hand, in turn, the other.
    assert run.replica.tolist() == [1, 0, 1, 1]


def test_an_answer_counts_as_long_as_those_before_it_and_not_as_long_as_it_will_be() -> None:
    """By the true lengths the third would join the second."""
    run = simulate_stage(
        [replica(), replica()],
        "least-outstanding",
        ints(0, 1, 2),
        ints(5, 6, 5),
        ints(700, 2, 2),
        np.zeros(3, int),
    )
    assert run.replica.tolist() == [0, 1, 0]


def test_an_answer_counts_no_more_than_its_limit() -> None:
    columns = ints(0, 1, 2, 3), ints(5, 20, 5, 5), ints(1, 1, 1, 1), ints(0, 0, 0, 0)
    run = simulate_stage([replica(), replica()], "least-outstanding", *columns, most_output=1)
    assert run.replica.tolist() == [0, 1, 0, 0]


@settings(max_examples=examples(150))
@given(
    st.lists(st.tuples(timings(speculating=False), st.sampled_from([0.5, 1.0, 3.0])), min_size=1, max_size=3),
    workloads(),
    st.sampled_from(["round-robin", "least-outstanding"]),
)
def test_each_replica_serves_its_share_as_if_alone(
    fleet: list[tuple[ReplicaTiming, float]], requests: list[Request], dispatch: Dispatch
) -> None:
    replicas = [Replica(t, w) for t, w in fleet]
    columns = columns_of(requests)
    run = simulate_stage(replicas, dispatch, *columns)
    for r, (timing, _) in enumerate(fleet):
        mine = run.replica == r
        alone = simulate_replica(timing, *(c[mine] for c in columns))
        assert run.finish_ps[mine].tolist() == alone.finish_ps.tolist()
        assert run.first_token_ps[mine].tolist() == alone.first_token_ps.tolist()
        assert run.busy_ps[r] == alone.busy_ps


@pytest.mark.parametrize("dispatch", ["round-robin", "least-outstanding"])
def test_arrivals_may_come_in_any_order(dispatch: Dispatch) -> None:
    rng = np.random.default_rng(0)
    n = 200
    columns = [
        rng.integers(0, 300_000, n),
        rng.integers(1, 30, n),
        rng.integers(1, 9, n),
        np.zeros(n, np.int64),
    ]
    columns[0].sort()
    shuffle = rng.permutation(n)
    columns[0] = np.arange(n) * 1_500  # no two together: their order would be the caller's
    replicas = [replica(2.0), replica(1.0)]
    ordered = simulate_stage(replicas, dispatch, *columns)
    shuffled = simulate_stage(replicas, dispatch, *(c[shuffle] for c in columns))
    assert shuffled.finish_ps.tolist() == ordered.finish_ps[shuffle].tolist()
    assert shuffled.replica.tolist() == ordered.replica[shuffle].tolist()
    assert shuffled.span_ps == ordered.span_ps


def test_threads_change_nothing() -> None:
    rng = np.random.default_rng(1)
    n = 2 * REQUESTS_WORTH_A_THREAD + 10
    columns = [
        np.sort(rng.integers(0, n * 800, n)),
        rng.integers(1, 30, n),
        rng.integers(1, 9, n),
        np.zeros(n, int),
    ]
    timing = machine(lanes=2)
    run = simulate_stage([Replica(timing), Replica(timing)], "round-robin", *columns)
    for r in range(2):
        alone = simulate_replica(timing, *(c[r::2] for c in columns))
        assert (run.finish_ps[r::2] == alone.finish_ps).all()


def test_utilisation_is_the_busy_share_of_the_span() -> None:
    run = simulate_stage(
        [replica(), replica()], "round-robin", ints(0, 0), ints(10, 10), ints(1, 2), ints(0, 0)
    )
    assert run.span_ps == 2011
    assert run.utilisation.tolist() == [1010 / 2011, 1.0]


@settings(max_examples=examples(200))
@given(timings(), workloads(), st.lists(st.integers(0, 60_000), max_size=12))
def test_stopping_and_resuming_changes_nothing(
    timing: ReplicaTiming, requests: list[Request], stops: list[int]
) -> None:
    """What arrives at a stop is queued only then, as a dispatcher does."""
    columns = columns_of(requests)
    fleet, rows = fleet_of((timing,)), requests_of(*(c.copy() for c in columns))
    queued = 0
    for stop in [*sorted({*stops, *columns[0].tolist()}), kernel.NEVER]:
        kernel.advance(fleet, rows, 0, stop)
        while queued < len(requests) and columns[0][queued] <= stop:
            kernel.append(fleet, rows, 0, queued, 1)
            queued += 1
    kernel.advance(fleet, rows, 0, kernel.NEVER)
    assert rows.finish_ps.tolist() == simulate_replica(timing, *columns).finish_ps.tolist()
