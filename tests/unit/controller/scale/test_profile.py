"""The profile of the rate: it foretells what came at this hour before, and falls silent where that is no guide."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from cascadia.controller.scale.profile import STRETCH_S, Profile

DAY_S = 86_400.0
Rate = Callable[[float], float]


def office(at_s: float) -> float:
    """Four requests a second, and sixteen from nine to five."""
    return 16.0 if 9 <= at_s % DAY_S / 3600.0 < 17 else 4.0


def after(days: float, rate_rps: Rate, seed: int = 0, noise: float = 0.0) -> Profile:
    rng = np.random.default_rng(seed)
    known = {
        number: rate_rps(number * STRETCH_S) * float(np.exp(rng.normal(0.0, noise)))
        for number in range(int(days * DAY_S / STRETCH_S))
    }
    return Profile(known)


def test_what_comes_at_this_hour_is_foretold_as_long_before_as_a_replica_takes() -> None:
    profile, nine_s = after(4.0 + 8.95 / 24, office), 4 * DAY_S + 9 * 3600.0
    far, near = profile.ahead(nine_s - 360.0, 120.0), profile.ahead(nine_s - 100.0, 120.0)
    assert far is not None
    assert near is not None
    assert [far.rps, near.rps] == pytest.approx([4.0, 16.0])
    assert (near.days, near.share) == (4, 1.0)


@pytest.mark.parametrize("days", [0.5, 1.5, 2.0])
def test_two_days_alike_must_have_been_seen_and_compared_with_a_third(days: float) -> None:
    assert after(days, office).ahead(days * DAY_S, 120.0) is None


def test_a_day_at_another_level_is_foretold_at_that_level() -> None:
    profile = after(4.0 + 8.95 / 24, lambda at_s: office(at_s) * (1.5 if at_s >= 4 * DAY_S else 1.0))
    found = profile.ahead(4 * DAY_S + 9 * 3600.0 - 100.0, 120.0)
    assert found is not None
    assert found.rps == pytest.approx(24.0, rel=0.01)


def test_a_load_that_no_day_before_was_like_is_not_foretold() -> None:
    profile = after(4.0 + 8.95 / 24, lambda at_s: office(at_s) * (3.0 if at_s >= 4 * DAY_S else 1.0))
    assert profile.ahead(4 * DAY_S + 9 * 3600.0 - 100.0, 120.0) is None


def test_days_that_do_not_repeat_count_for_little() -> None:
    """Each hour of each day has a level of its own: what is foretold would be off by half in one of five."""
    rng = np.random.default_rng(3)
    levels = np.exp(rng.normal(0.0, 0.5, 24 * 6))
    profile = after(5.0, lambda at_s: 10.0 * float(levels[int(at_s // 3600.0)]))
    found = profile.ahead(5 * DAY_S, 120.0)
    assert found is None or found.share < 0.7


def test_a_steady_load_asks_for_no_more_than_it_is() -> None:
    profile = after(5.0, lambda _: 10.0, noise=0.05)
    told = [profile.ahead(5 * DAY_S, 120.0 + 300.0 * k) for k in range(3)]
    assert all(each is not None and each.rps < 10.3 for each in told)


def test_weekends_are_foretold_by_weekends() -> None:
    def week(at_s: float) -> float:
        return 3.0 if at_s // DAY_S % 7 >= 5 else office(at_s)

    profile = after(26.0 + 8.95 / 24, week)
    found = profile.ahead(26 * DAY_S + 9 * 3600.0 - 100.0, 120.0)
    assert found is not None
    assert found.rps == pytest.approx(3.0)
    assert found.days == 3


def test_rates_are_counted_between_looks_and_not_over_a_gap() -> None:
    profile = Profile()
    ended = [profile.add(at_s, 2.0 * at_s) for at_s in np.arange(130.0, 1300.0, 7.0).tolist()]
    assert [number for each in ended for number in each] == [1, 2, 3]
    assert list(profile.rates(range(10)).values()) == pytest.approx([2.0, 2.0, 2.0])
    assert profile.add(1310.0, 0.0) == []
    assert [profile.add(at_s, at_s - 1310.0) for at_s in (1500.0, 1700.0, 1800.0)] == [[], [], [5]]


def test_what_came_when_in_a_long_gap_nobody_knows() -> None:
    profile = Profile()
    for at_s in (0.0, 100.0, 400.0, 700.0, 700.0 + DAY_S, 1100.0 + DAY_S, 1300.0 + DAY_S):
        profile.add(at_s, at_s)
    assert sorted(profile.rates(range(1000))) == [1, 291]


def test_a_clock_set_on_by_decades_and_back_forgets_no_days_and_asks_for_no_memory() -> None:
    """A machine that starts in 1970 and learns the time, or was told a wrong one for an hour."""
    nine_s = 4 * DAY_S + 9 * 3600.0
    profile = after(4.0 + 8.95 / 24, office)
    before = profile.ahead(nine_s - 100.0, 120.0)
    tracemalloc.start()
    for from_s in (1.8e9, 4e9, nine_s - 3600.0):
        profile.leave_out()
        for at_s in np.arange(from_s, from_s + 1200.0, 60.0).tolist():
            profile.add(at_s, 4.0 * at_s)
            profile.ahead(at_s, 120.0)
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()
    assert profile.ahead(nine_s - 100.0, 120.0) == before
