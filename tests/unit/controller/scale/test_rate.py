"""The rate to come: a jump within seconds, bursts not taken for one, a rise followed to when a replica is ready."""

from collections.abc import Callable

import numpy as np
import pytest

from cascadia.controller.scale.rate import MOST_AHEAD, Arrivals

LOOK_S = 5.0


def seen(rate_rps: Callable[[float], float], until_s: float, seed: int = 0) -> Arrivals:
    """Poisson arrivals, looked at every five seconds."""
    rng, arrivals, came = np.random.default_rng(seed), Arrivals(), 0.0
    for at_s in np.arange(0.0, until_s + LOOK_S, LOOK_S).tolist():
        arrivals.add(at_s, came)
        came += float(rng.poisson(LOOK_S * rate_rps(at_s)))
    return arrivals


def test_nothing_is_known_before_the_first_window_is_full() -> None:
    assert seen(lambda _: 10.0, 20.0).ahead_rps(60.0) is None
    assert seen(lambda _: 10.0, 40.0).ahead_rps(60.0) is not None


@pytest.mark.parametrize("seed", range(5))
def test_a_steady_rate_is_known_within_a_few_percent(seed: int) -> None:
    found = seen(lambda _: 12.0, 3600.0, seed).ahead_rps(120.0)
    assert found == pytest.approx(12.0, rel=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_a_jump_to_three_times_the_rate_is_most_of_it_after_half_a_minute(seed: int) -> None:
    found = seen(lambda at_s: 6.0 if at_s < 3600.0 else 18.0, 3635.0, seed).ahead_rps(120.0)
    assert found is not None
    assert found > 13.0


@pytest.mark.parametrize("seed", range(5))
def test_bursts_that_come_each_minute_are_not_taken_for_a_rise(seed: int) -> None:
    """Forty requests a second in each first half minute, none in the second: twenty."""
    found = seen(lambda at_s: 40.0 if at_s % 60.0 < 30.0 else 0.0, 3630.0, seed).ahead_rps(120.0)
    assert found is not None
    assert found < 26.0


def test_a_rise_is_followed_on_to_when_a_replica_is_ready() -> None:
    rising = seen(lambda at_s: 5.0 + at_s / 200.0, 3600.0)
    now, later = rising.ahead_rps(0.0), rising.ahead_rps(240.0)
    assert now is not None
    assert later is not None
    assert now == pytest.approx(23.0, rel=0.05)
    assert later == pytest.approx(23.0 + 240.0 / 200.0, rel=0.05)


@pytest.mark.parametrize("ago_s", [200.0, 300.0, 400.0])
def test_a_jump_is_not_followed_beyond_itself(ago_s: float) -> None:
    found = seen(lambda at_s: 6.0 if at_s < 3600.0 - ago_s else 18.0, 3600.0).ahead_rps(240.0)
    assert found == pytest.approx(18.0, rel=0.07)


def test_a_rise_goes_no_further_than_a_share_of_the_rate() -> None:
    rising = seen(lambda at_s: 5.0 + at_s / 200.0, 3600.0)
    far = rising.ahead_rps(1e6)
    near = rising.ahead_rps(0.0)
    assert far is not None
    assert near is not None
    assert far < (1.0 + MOST_AHEAD) * near


def test_a_router_that_begins_anew_is_no_fall_of_the_rate() -> None:
    arrivals = seen(lambda _: 10.0, 600.0)
    arrivals.add(605.0, 3.0)
    assert arrivals.ahead_rps(60.0) is None
    for at_s in np.arange(610.0, 700.0, LOOK_S).tolist():
        arrivals.add(at_s, 3.0 + 10.0 * (at_s - 605.0))
    assert arrivals.ahead_rps(60.0) == pytest.approx(10.0, rel=0.15)


def test_the_usual_rate_is_that_which_a_request_meets() -> None:
    """An hour at 6 and an hour at 18: three of four requests come in the second."""
    arrivals = seen(lambda at_s: 6.0 if at_s % 7200.0 < 3600.0 else 18.0, 7200.0)
    assert arrivals.usual_rps() == pytest.approx(15.0, rel=0.05)
    assert seen(lambda _: 6.0, 600.0).usual_rps() is None


def test_a_rate_has_come_to_stay_after_two_hours_without_a_change() -> None:
    assert seen(lambda _: 20.0, 7260.0).steady_rps(0.15) == pytest.approx(20.0, rel=0.03)
    assert seen(lambda _: 20.0, 6000.0).steady_rps(0.15) is None
    assert seen(lambda at_s: 20.0 if at_s < 6000.0 else 30.0, 7260.0).steady_rps(0.15) is None
