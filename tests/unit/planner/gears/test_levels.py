"""Levels of load: what is known of how a trace's rate is spread."""

import numpy as np
import pytest

from cascadia.planner.gears.levels import EDGES, spread


def poisson(rates: list[float], each_s: float, seed: int = 0) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    rng = np.random.default_rng(seed)
    parts = [
        i * each_s + np.sort(rng.uniform(0, each_s, rng.poisson(rate * each_s)))
        for i, rate in enumerate(rates)
    ]
    return np.asarray(np.concatenate(parts))


def test_levels_hold_all_time_and_all_requests_at_rising_rates() -> None:
    arrival_s = poisson([10, 12, 30, 9, 11] * 10, 10)
    found = spread(arrival_s, 5.0)
    assert found is not None
    rates = [level.rate_rps for level in found.levels]
    assert rates == sorted(rates)
    assert len(found) <= len(EDGES)
    assert sum(level.time_share for level in found.levels) == pytest.approx(1)
    assert found.weight.sum() == pytest.approx(1)
    met = np.bincount(found.met) / len(arrival_s)
    assert met == pytest.approx(found.weight[:-1])


def test_spikes_are_levels_of_their_own_and_the_last_is_beyond_them() -> None:
    arrival_s = poisson([10] * 9 + [40] + [10] * 9 + [40], 60)
    found = spread(arrival_s, 10.0)
    assert found is not None
    assert found.levels[0].rate_rps == pytest.approx(8, abs=2)
    busy = [level for level in found.levels[:-1] if level.rate_rps > 30]
    assert sum(level.time_share for level in busy) == pytest.approx(0.1, abs=0.01)
    assert found.levels[-1].rate_rps >= 80
    assert found.levels[-1].request_share == 0


@pytest.mark.parametrize(
    ("requests", "window_s"), [(5000, 20.0), (100, 1.0), (5000, 0.0)], ids=["windows", "requests", "none"]
)
def test_a_short_trace_tells_nothing(requests: int, window_s: float) -> None:
    assert spread(np.linspace(0, 100, requests), window_s) is None
