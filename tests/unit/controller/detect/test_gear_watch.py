"""Other gears than planned for are told where requests surely stay in them, and no oftener by chance than promised."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia.controller.detect.gear_watch import (
    FALSE_ALARM_S,
    FEWEST,
    WINDOW_S,
    GearWatch,
    OtherGears,
    foreseen_place,
)
from cascadia.controller.detect.windows import Samples
from cascadia.domain.gear import Gear, GearPrediction
from cascadia.domain.workload import Floats
from tests.unit.controller.machine import two_stages

MONTH = round(FALSE_ALARM_S / WINDOW_S)
SLACK = 0.1


def drawn(mean: float, n: int, seed: int, spread: float = 4.0) -> Floats:
    """Mean places of windows, as uneven as chance makes them with `spread`: the less, the more."""
    return np.random.default_rng(seed).beta(spread * mean, spread * (1.0 - mean), n)


def alarms(places: Floats, foreseen: float, slack: float = SLACK) -> list[tuple[int, OtherGears]]:
    watch = GearWatch(foreseen, 3, slack, 0.0)
    told = ((at, watch.add(float(place))) for at, place in enumerate(places))
    return [(at, found) for at, found in told if found is not None]


@pytest.mark.long
@pytest.mark.parametrize("foreseen", [0.05, 0.4, 0.95])
def test_chance_alone_raises_no_more_alarms_than_promised(foreseen: float) -> None:
    """Eight times four weeks at the very edge of the slack, where one alarm each is promised at most."""
    edges = [edge for edge in (foreseen - SLACK, foreseen + SLACK) if 0.0 < edge < 1.0]
    for edge in edges:
        found = [alarms(drawn(edge, MONTH, seed, 1.0), foreseen)[:1] for seed in range(8)]
        assert sum(len(each) for each in found) <= 4
    assert sum(len(alarms(drawn(foreseen, MONTH, seed), foreseen)) for seed in range(8)) == 0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("mean", "load"), [(0.7, "more"), (0.1, "less")])
def test_gears_that_stay_other_ones_are_noticed_within_half_a_day(mean: float, load: str, seed: int) -> None:
    before = drawn(0.4, 500, seed)
    (at, found), *more = alarms(np.append(before, drawn(mean, 400, seed + 100)), 0.4)
    assert 500 <= at < 500 + 72
    assert (found.load, found.foreseen) == (load, 0.4)
    assert found.seen == pytest.approx(mean, abs=0.1)
    # It is said once.
    assert not more


@pytest.mark.parametrize(
    ("now", "noticed_after", "said"),
    [
        (
            0.9,
            16,
            "requests are in lighter gears than planned for, since 2.7 h: 90 % of the way from the heaviest to the"
            " lightest, of 40 % foreseen",
        ),
        (
            0.1,
            36,
            "requests are in heavier gears than planned for, since 6.0 h: 10 % of the way from the heaviest to the"
            " lightest, of 40 % foreseen: GPUs may be given back",
        ),
    ],
)
def test_a_change_is_dated_by_the_window_in_which_it_began(now: float, noticed_after: int, said: str) -> None:
    """However long all went as foreseen before it."""
    (at, found), *more = alarms(np.append(np.full(1500, 0.4), np.full(100, now)), 0.4)
    assert (at, found.windows) == (1500 + noticed_after - 1, noticed_after)
    assert str(found) == said
    # From then on what is seen is what is foreseen.
    assert not more


def test_hours_of_load_between_hours_without_are_what_was_foreseen() -> None:
    """The mean is as planned, though no window's is."""
    hours = np.repeat(np.tile([0.1, 0.7], 84), 6)
    assert not alarms(hours, 0.4)


def test_a_slack_of_all_asks_for_nothing() -> None:
    assert not alarms(np.ones(3 * MONTH), 0.0, slack=1.0)
    assert not alarms(np.zeros(3 * MONTH), 1.0, slack=1.0)


def test_windows_are_fed_once_and_with_the_requests_that_tell_their_gear() -> None:
    arrival_s = np.arange(0.0, 40 * WINDOW_S, 10.0)
    ones = np.ones(len(arrival_s), np.int64)
    gear = np.where(np.arange(len(ones)) % 2, 2, -1)
    samples = Samples(arrival_s, ones, ones, gear=gear)
    watch = GearWatch(0.2, 3, SLACK, 0.0)
    found = [watch.feed(samples, float(until_s)) for until_s in np.arange(0.0, 40 * WINDOW_S, 60.0)]
    (told,) = [each for each in found if each is not None]
    assert told.seen == 1.0
    assert str(told).startswith("requests are in lighter gears than planned for, since ")
    few = replace(samples, gear=np.where(np.arange(len(ones)) % 60 < FEWEST - 1, 2, -1))
    assert GearWatch(0.2, 3, SLACK, 0.0).feed(few, 40 * WINDOW_S) is None
    assert GearWatch(0.2, 3, SLACK, 0.0).feed(replace(samples, gear=None), 40 * WINDOW_S) is None


def test_what_a_plan_foresees_is_weighed_by_its_requests() -> None:
    plan = two_stages(1, 1)

    def gear(most: float | None, share: float) -> Gear:
        told = GearPrediction(
            share, share, 80.0, quality_lower=79.0, p50_s=1.0, p95_s=2.0, p99_s=3.0, late=0.0
        )
        return Gear(most, None, ("small",), (50.0,), predicted=told)

    ladder = replace(plan, gears=(gear(4.0, 0.5), gear(8.0, 0.3), gear(None, 0.2)))
    assert foreseen_place(ladder) == pytest.approx(0.35)
    assert foreseen_place(plan) is None
    assert (
        foreseen_place(replace(ladder, gears=(ladder.gears[0], replace(ladder.gears[1], predicted=None))))
        is None
    )
    assert GearWatch.of(plan, SLACK, 0.0) is None
