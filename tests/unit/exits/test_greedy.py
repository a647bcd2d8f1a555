"""Hill climbing keeps the loss on its window, and saves nearly what full search does."""

import numpy as np
import pytest

from cascadia.exits.greedy import climb, judged, search
from cascadia.exits.readings import Readings
from tests.unit.exits.streams import TIMING, stream

ACTIVE = (0, 1, 2)


@pytest.mark.parametrize("seed", range(6))
def test_it_keeps_the_loss_on_its_window_and_comes_near_the_best(seed: int) -> None:
    window = stream(128, seed)
    found = climb(window, TIMING, ACTIVE, 0.01)
    assert found.loss <= 0.01
    best = search(window, TIMING, ACTIVE, 0.01, np.array([0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0]))
    assert best.loss <= 0.01
    assert found.saving >= 0.9 * best.saving


def test_a_window_says_less_than_the_next_one() -> None:
    """Fitted to 128 inputs that lose at most 1 %, thresholds lose more on others: why settings are certified."""
    fresh = stream(20_000, 99)
    risks = [
        judged(fresh, TIMING, ACTIVE, climb(stream(128, seed), TIMING, ACTIVE, 0.01).thresholds).loss
        for seed in range(12)
    ]
    assert np.mean(risks) > 0.012


def test_nothing_leaves_where_every_exit_is_wrong() -> None:
    some = stream(64, 1)
    wrong = Readings(
        (some.final[:, None] + 1) % 4 + np.zeros((1, 3), dtype=np.int64), some.doubts, some.final
    )
    found = climb(wrong, TIMING, ACTIVE, 0.0)
    assert found.loss == 0
    assert found.saving == pytest.approx(-0.03 / 4)


def test_without_ramps_there_is_nothing_to_tune() -> None:
    found = climb(stream(64, 1).at(()), TIMING, (), 0.01)
    assert found.thresholds.shape == (0,)
    assert found.saving == 0
