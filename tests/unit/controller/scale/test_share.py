"""A share of the time forgets by the hour."""

import pytest

from cascadia.controller.scale.share import Share


def test_what_is_always_so_is_all_of_the_time_and_what_never_is_none() -> None:
    always, never = Share(), Share()
    for at_s in range(0, 36_000, 5):
        every, none = always.share(float(at_s), True), never.share(float(at_s), False)
    assert (every, none) == (pytest.approx(1.0, abs=1e-4), 0.0)


@pytest.mark.parametrize("look_s", [5.0, 60.0])
def test_six_minutes_of_an_hour_are_a_tenth_whoever_looks_how_often(look_s: float) -> None:
    share, at_s, found = Share(), 0.0, 0.0
    while at_s < 10 * 3600.0:
        found = share.share(at_s, at_s % 3600.0 < 360.0)
        at_s += look_s
    assert found == pytest.approx(0.1 * 0.6, abs=0.02), "right before the next"
    assert share.share(at_s + 3600.0 * 5, False) < 0.01
