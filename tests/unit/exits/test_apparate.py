"""Apparate's loop adapts, and loses more than its constraint on inputs that it was not fitted to."""

import numpy as np

from cascadia.exits.adjust import Budget
from cascadia.exits.apparate import Apparate
from cascadia.exits.readings import Readings, exit_of
from tests.unit.exits.streams import TIMING, stream


def served(loop: Apparate, some: Readings) -> tuple[float, float]:
    """Risk and exit rate, each input served before it is fed back."""
    lost = left = 0
    for i in range(len(some)):
        active = list(loop.now.active)
        at = exit_of(some.doubts[i, active], loop.now.thresholds)
        left += at is not None
        lost += at is not None and bool(some.labels[i, active[at]] != some.final[i])
        loop.feed(some.labels[i], some.doubts[i], int(some.final[i]))
    return lost / len(some), left / len(some)


def test_nothing_leaves_before_the_first_window() -> None:
    loop = Apparate(TIMING, Budget((TIMING,), 1.0), 0.01)
    assert served(loop, stream(128, 1)) == (0.0, 0.0)
    assert loop.now.thresholds.max() > 0


def test_it_lets_out_many_and_breaks_its_constraint() -> None:
    risks = []
    for seed in range(3):
        loop = Apparate(TIMING, Budget((TIMING,), 1.0), 0.01)
        risk, left = served(loop, stream(1500, seed))
        risks.append(risk)
        assert left > 0.3
    assert np.mean(risks) > 0.01


def test_without_adjustment_its_ramps_stay() -> None:
    loop = Apparate(TIMING, Budget((TIMING,), 0.006), 0.01, adjusts=False)
    before = loop.now.active
    served(loop, stream(600, 4))
    assert loop.now.active == before == (0, 2)
