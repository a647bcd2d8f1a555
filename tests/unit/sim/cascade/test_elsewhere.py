"""A stage behind somebody else's API: its own times, no GPU, and a limit that is kept in every minute."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cascadia.router.replicas.send_window import SendWindow
from cascadia_sim.cascade.cascade import CascadeStage, JudgeStage, simulate_cascade
from cascadia_sim.cascade.elsewhere import Elsewhere, simulate_elsewhere
from cascadia_sim.engine.dispatch import Replica
from cascadia_sim.iteration.timing import PS_PER_S, Ints
from tests.unit.sim.machines import machine

arrivals_s = st.lists(st.floats(0, 300), min_size=1, max_size=60).map(sorted)


def seconds(*values: float) -> Ints:
    return np.rint(np.array(values) * PS_PER_S).astype(np.int64)


def sent_s(arrival_s: list[float], per_minute: int) -> list[float]:
    who = np.arange(len(arrival_s))
    none = np.zeros(len(arrival_s), np.int64)
    run = simulate_elsewhere(Elsewhere(none, none, per_minute), who, seconds(*arrival_s))
    return list((run.finish_ps / PS_PER_S).tolist())


def test_who_comes_beyond_the_limit_waits_until_a_minute_has_passed() -> None:
    assert sent_s([0.0, 1.0, 2.0, 3.0, 90.0], 2) == [0.0, 1.0, 60.0, 61.0, 120.0]


@given(arrivals_s, st.integers(1, 7))
def test_no_minute_has_more_than_the_limit_and_the_router_sends_as_the_simulator_does(
    arrival_s: list[float], per_minute: int
) -> None:
    found = sent_s(arrival_s, per_minute)
    starts = zip(found, found[per_minute:], strict=False)
    assert all(later - first >= 60.0 - 1e-9 for first, later in starts)
    window, now_s, may_s = SendWindow(per_minute), 0.0, 0.0
    by_router = []
    for came_s in arrival_s:
        now_s = max(came_s, may_s, now_s)
        may_s = window.send(now_s)
        by_router.append(now_s)
    np.testing.assert_allclose(by_router, found, atol=1e-6)


def test_a_cascade_of_apis_needs_no_replica() -> None:
    """The first answers after 2 s, the judge takes half a second, the last streams from 1 s on for 3 s."""
    n = 2
    tokens, none = np.full(n, 4), np.zeros(n, np.int64)
    first, whole = seconds(1.0, 1.0), seconds(2.0, 2.0)
    small = CascadeStage((), tokens, tokens, none, np.array([True, False]), elsewhere=Elsewhere(first, whole))
    large = CascadeStage(
        (), tokens, tokens, none, np.ones(n, bool), elsewhere=Elsewhere(first, seconds(4.0, 4.0))
    )
    judge = JudgeStage(latency_ps=np.full((2, n), seconds(0.5)[0]))
    run = simulate_cascade([small, large], judge, seconds(0.0, 10.0))
    np.testing.assert_array_equal(run.latency_ps, seconds(2.5, 6.5))
    np.testing.assert_array_equal(run.first_byte_ps - run.arrival_ps, seconds(2.5, 3.5))
    np.testing.assert_array_equal(run.answered_by, [0, 1])


def test_an_api_between_two_models_feeds_the_judge_that_all_gates_share() -> None:
    """A token takes a picosecond or so, the API a second and a half: only it and its limit are seen in seconds."""
    n = 3
    tokens, none = np.full(n, 2), np.zeros(n, np.int64)
    ours = CascadeStage((Replica(machine()),), tokens, tokens, none, np.zeros(n, bool))
    api = Elsewhere(seconds(*[1.0] * n), seconds(*[1.5] * n), per_minute=1)
    away = CascadeStage((), tokens, tokens, none, np.array([False, True, False]), elsewhere=api)
    judge = JudgeStage((Replica(machine()),), prompt_tokens=3, output_tokens=2)
    run = simulate_cascade([ours, away, ours], judge, seconds(0.0, 0.0, 70.0))
    np.testing.assert_array_equal(run.answered_by, [2, 1, 2])
    np.testing.assert_allclose(run.finish_ps / PS_PER_S, [1.5, 61.5, 121.5], atol=1e-6)
    sent = run.stages[1]
    np.testing.assert_allclose(
        (sent.run.first_token_ps - sent.arrival_ps) / PS_PER_S, [1.0, 61.0, 51.0], atol=1e-6
    )
    assert run.verdicts is not None
    assert len(run.verdicts.requests) == 2 * n
