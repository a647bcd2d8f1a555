"""Settings are withdrawn soon after a change, and seldom without one."""

import numpy as np
import pytest

from cascadia.exits.drift import Drift, delay_inputs


def until_withdrawn(risk: float, every: float, most: int, rng: np.random.Generator) -> int:
    drift = Drift(0.01, every)
    for n, wrong in enumerate((rng.random(most) < risk).tolist(), start=1):
        if drift.feed(wrong):
            return n
    return most


def test_false_alarms_come_no_more_often_than_was_chosen() -> None:
    """At the constraint itself, the worst case. Runs are cut at 3000, which shortens their mean."""
    rng = np.random.default_rng(7)
    runs = [until_withdrawn(0.01, 300, 3000, rng) for _ in range(60)]
    assert np.mean(runs) > 300


def test_inputs_that_agree_are_no_evidence() -> None:
    drift = Drift(0.01)
    for _ in range(2000):
        assert not drift.feed(False)
    assert drift.evidence < 200


@pytest.mark.parametrize(("after", "within"), [(0.05, 450), (0.2, 60)])
def test_a_change_is_noticed_within_about_what_theory_says(after: float, within: int) -> None:
    rng = np.random.default_rng(8)
    runs = [until_withdrawn(after, 1e5, 5000, rng) for _ in range(40)]
    assert np.mean(runs) < within
    assert np.mean(runs) == pytest.approx(delay_inputs(0.01, after), rel=0.4)
