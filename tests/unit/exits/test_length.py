"""Exits of a thinking model keep the promise that ramps keep, by the same certificate."""

from random import Random

import numpy as np
import pytest

from cascadia.exits.certify import Promise
from cascadia.exits.length import BETTER, SETTINGS, Certified, Fixed, trials

PROMISE = Promise(0.05, 0.9)


def certified(thresholds: tuple[float, ...] = (80.0, 60.0)) -> Certified:
    return Certified(thresholds, PROMISE, 0.1, Random(0))


def test_nothing_leaves_until_it_is_certified_and_then_at_the_exits_own_thresholds() -> None:
    exits = certified()
    assert not exits.open(0)
    assert not exits.leaves(0, 100.0)
    while exits.state[0] < SETTINGS:
        assert not exits.feed({0: 70.0, 1: 90.0}, 92.0)
    assert exits.leaves(0, 80.0)
    assert not exits.leaves(0, 79.9)
    assert exits.leaves(1, 60.0)


def test_what_the_whole_answer_betters_counts_only_where_the_setting_would_have_left() -> None:
    """Trials below their threshold lose nothing, however much better the whole answer is."""
    exits = certified()
    while exits.state[0] < SETTINGS:
        assert not exits.feed({0: 79.0, 1: 59.0}, 100.0)
    assert not exits.feed({0: 90.0}, 90.0 + BETTER)
    assert exits.feed({0: 90.0}, 90.1 + BETTER)
    assert exits.feed({0: 70.0, 1: 70.0}, 100.0)


def test_exits_in_force_are_withdrawn_when_they_lose_more_than_they_may() -> None:
    exits = certified()
    while exits.state[0] < SETTINGS:
        exits.feed({0: 90.0}, 90.0)
    fed = 0
    while exits.state[2] == 0:
        exits.feed({0: 90.0}, 100.0 if fed % 3 == 0 else 90.0)
        fed += 1
    assert fed < 40
    assert not exits.open(0)
    while exits.state[0] < SETTINGS:
        exits.feed({0: 90.0}, 90.0)
    assert exits.leaves(0, 80.0)


@pytest.mark.long
def test_settings_too_risky_come_into_force_in_at_most_a_tenth_of_the_streams() -> None:
    """Trials are lost by chance, the more often the lower they score: settings on both sides of the constraint."""
    broken, seen = 0, []
    for seed in range(30):
        rng, exits = np.random.default_rng(seed), certified((50.0,))
        scores = rng.uniform(50.0, 100.0, 700)
        lost = rng.random(700) < (100.0 - scores) / 100.0 * 0.6
        for score, worse in zip(scores, lost, strict=True):
            exits.feed({0: float(score)}, float(score) + (10.0 if worse else 0.0))
        # P(score >= s and lost) = 0.6 * x**2, with x = (100 - s) / 100 and a density of 2.
        bold = exits.state[0] / SETTINGS * 0.5
        seen.append(exits.state[0])
        broken += 0.6 * bold**2 > PROMISE.risk
    assert broken <= 5
    assert np.median(seen) > 2


@pytest.mark.parametrize("exits", [Fixed((101.0,)), Certified((101.0,), PROMISE, 0.5)])
def test_an_exit_above_100_lets_nobody_out(exits: Fixed | Certified) -> None:
    assert not exits.open(0)
    assert not exits.leaves(0, 100.0)


@pytest.mark.parametrize(
    ("least", "foreseen", "tried"),
    [
        ((None, None), {}, {0, 1}),
        ((95.0, 90.0), {0: 95.0, 1: 89.9}, {0}),
        ((95.0, None), {0: 94.9}, {1}),
        ((95.0, 90.0), {}, set()),
        ((95.0, 90.0), {1: 100.0}, {1}),
    ],
    ids=["nobody asks", "at its bar", "one asks", "not known", "one not known"],
)
def test_a_trial_is_written_where_the_question_promises_what_the_exit_asks(
    least: tuple[float | None, ...], foreseen: dict[int, float], tried: set[int]
) -> None:
    assert trials(least, foreseen) == tried
