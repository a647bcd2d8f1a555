"""The rate to come: a jump within seconds, bursts not taken for one, and no more than two minutes ask for."""

from collections.abc import Callable
from math import ceil

import numpy as np
import pytest

from cascadia.controller.scale.rate import Arrivals

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


PEAKS = {30.0: 2.4, 60.0: 2.2, 120.0: 2.0, 300.0: 1.6, 900.0: 1.0}


def test_a_burst_as_the_plans_own_asks_for_nothing() -> None:
    burst = seen(lambda at_s: 18.0 if 3500.0 <= at_s < 3580.0 else 10.0, 3580.0)
    assert burst.ahead_rps(60.0, PEAKS) == pytest.approx(10.5, rel=0.05)
    assert burst.lasting_rps(PEAKS) is not None
    assert burst.may_be_rps(PEAKS) == pytest.approx(burst.may_be_rps() / PEAKS[30.0])
    without = burst.ahead_rps(60.0)
    assert without is not None
    assert without > 14.0


def test_what_stays_for_a_quarter_of_an_hour_is_no_burst() -> None:
    stays = seen(lambda at_s: 18.0 if at_s >= 3600.0 else 10.0, 4500.0)
    assert stays.ahead_rps(60.0, PEAKS) == pytest.approx(18.0, rel=0.05)


def test_what_is_more_than_the_plans_own_bursts_asks_at_once() -> None:
    jump = seen(lambda at_s: 36.0 if at_s >= 3600.0 else 10.0, 3660.0)
    found = jump.ahead_rps(60.0, PEAKS)
    assert found is not None
    assert found > 13.0


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


@pytest.mark.parametrize("ago_s", [200.0, 300.0, 400.0])
def test_a_jump_is_not_followed_beyond_itself(ago_s: float) -> None:
    found = seen(lambda at_s: 6.0 if at_s < 3600.0 - ago_s else 18.0, 3600.0).ahead_rps(240.0)
    assert found == pytest.approx(18.0, rel=0.07)


RATES: dict[str, Callable[[float], float]] = {
    "flat, where one replica is full": lambda _: 12.0,
    "an hour at half, an hour at one and a half": lambda at_s: 6.0 if at_s % 7200.0 < 3600.0 else 18.0,
    "a sine of 78 minutes": lambda at_s: 11.0 - 6.6 * np.cos(2.0 * np.pi * at_s / 4680.0),
    "bursts of 80 s each seven minutes": lambda at_s: 20.0 if 200.0 <= at_s % 420.0 < 280.0 else 8.0,
    "levels": lambda at_s: (9.4, 12.1, 8.1, 16.5, 11.0)[int(at_s // 1500.0) % 5],
}


@pytest.mark.long
@pytest.mark.parametrize("name", RATES)
@pytest.mark.parametrize("seed", range(2))
def test_where_the_rate_alone_moves_it_holds_what_two_minutes_ask_for_and_hardly_more(
    name: str, seed: int
) -> None:
    """A replica for each 12 requests/s that ten minutes, each by its last two, asked for: such lines are never held
    less than, and at most 1 % more is paid."""
    rng, arrivals, came = np.random.default_rng(seed), Arrivals(), 0.0
    asked, lasting, ahead = [], [], []
    for at_s in np.arange(0.0, 3 * 3600.0, LOOK_S).tolist():
        arrivals.add(at_s, came)
        came += float(rng.poisson(LOOK_S * RATES[name](at_s)))
        last_s, last = arrivals.looks[-1]
        before = [count for seen_s, count in arrivals.looks if seen_s == last_s - 120.0]
        if not before:
            continue
        rates = (last - before[0]) / 120.0, arrivals.lasting_rps(), arrivals.ahead_rps(245.0)
        assert None not in rates
        for rps, counts in zip(rates, (asked, lasting, ahead), strict=True):
            counts.append(max(1, ceil(rps / 12.0 - 1e-6)))
    lines, ours = [], []
    for i in range(len(asked)):
        lines.append(max(asked[max(0, i - 120) : i + 1]))
        ours.append(max(*lasting[max(0, i - 120) : i + 1], *ahead[max(0, i - 24) : i + 1]))
    assert all(own >= of_lines for own, of_lines in zip(ours, lines, strict=True))
    assert sum(ours) <= 1.01 * sum(lines)


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
    assert seen(lambda _: 20.0, 7260.0).other_rps(12.0) == pytest.approx(20.0, rel=0.03)
    assert seen(lambda _: 20.0, 7260.0).other_rps(31.0) == pytest.approx(20.0, rel=0.03)
    assert seen(lambda _: 20.0, 6000.0).other_rps(12.0) is None
    assert seen(lambda at_s: 20.0 if at_s < 6000.0 else 30.0, 7260.0).other_rps(16.0) is None


def test_near_the_planned_rate_none_is_another() -> None:
    assert seen(lambda _: 20.0, 7260.0).other_rps(14.0) is None
    assert seen(lambda _: 20.0, 7260.0).other_rps(28.0) is None


def test_a_square_wave_of_two_hours_has_no_rate_that_stays() -> None:
    assert seen(lambda at_s: 6.0 if at_s % 7200.0 < 3600.0 else 18.0, 7260.0).other_rps(12.0) is None
