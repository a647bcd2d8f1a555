"""Bursts that passed before a replica was ready are started for no more; jumps that stayed are."""

from collections.abc import Callable

import numpy as np
import pytest

from cascadia.controller.scale.persistence import FEWEST_BURSTS, share_that_stays
from cascadia.domain.workload import Floats
from tests.unit.controller.scale.test_rate import seen

STARTUP_S = 240.0


def counted(rate_rps: Callable[[float], float], until_s: float) -> tuple[Floats, Floats]:
    """Looks each five seconds, without chance."""
    at_s = np.arange(0.0, until_s + 5.0, 5.0)
    return at_s, np.append(0.0, np.cumsum([5.0 * rate_rps(float(at)) for at in at_s[:-1]]))


def bursts(at_s: float) -> float:
    """A minute at three times the rate, every ten."""
    return 24.0 if at_s % 600.0 < 60.0 else 8.0


def steps(at_s: float) -> float:
    """Twenty minutes at three times the rate, twenty without."""
    return 24.0 if at_s % 2400.0 >= 1200.0 else 8.0


def test_bursts_that_pass_leave_nothing_and_jumps_leave_themselves() -> None:
    assert share_that_stays(*counted(bursts, 7200.0), 30.0, STARTUP_S, 14.0) < 0.05
    assert share_that_stays(*counted(steps, 7200.0), 30.0, STARTUP_S, 14.0) > 0.95


def test_a_load_never_seen_before_is_believed() -> None:
    """Small bursts say nothing of a large one, and neither do fewer than three."""
    assert share_that_stays(*counted(bursts, 7200.0), 30.0, STARTUP_S, 40.0) == 1.0
    few = 600.0 * FEWEST_BURSTS
    assert share_that_stays(*counted(bursts, few - 1.0), 30.0, STARTUP_S, 14.0) == 1.0
    assert share_that_stays(*counted(bursts, 100.0), 30.0, STARTUP_S, 14.0) == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_replicas_are_asked_for_the_third_such_burst_but_not_for_the_tenth(seed: int) -> None:
    def asked(until_s: float) -> float:
        found = seen(bursts, until_s, seed).ahead_rps(STARTUP_S)
        assert found is not None
        return found

    assert asked(600.0 * 2 + 35.0) > 16.0
    assert asked(600.0 * 10 + 35.0) < 14.0


@pytest.mark.parametrize("seed", range(5))
def test_a_jump_on_a_steady_load_is_believed_whatever_chance_did_before(seed: int) -> None:
    found = seen(lambda at_s: 6.0 if at_s < 7200.0 else 18.0, 7235.0, seed).ahead_rps(STARTUP_S)
    assert found is not None
    assert found > 13.0


def test_what_is_asked_for_is_never_less_than_five_minutes_bring() -> None:
    found = seen(bursts, 7260.0).ahead_rps(STARTUP_S)
    assert found is not None
    assert found > 10.0
