import pytest

from cascadia.policy.load import RateWindow


def test_the_rate_is_that_of_the_last_half_second() -> None:
    window = RateWindow()
    for i in range(100):
        window.arrival(i / 100)
    assert window.rate_rps(0.99) == pytest.approx(100)
    assert window.rate_rps(1.24) == pytest.approx(50)
    assert window.rate_rps(2.0) == 0
