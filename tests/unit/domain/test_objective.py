"""Bounds of an objective as one measure."""

import pytest

from cascadia.domain.objective import GEARS, Level, Objective, bar_of_a_hundred

TTFT, E2E = Level("ttft", 0.95, 0.5), Level("e2e", 0.99, 40.0)


def test_strain_is_the_worst_share_of_a_bound() -> None:
    asked = Objective("cost", 0.95, 80.0, 20.0, levels=(TTFT, E2E))
    assert asked.strain(10.0, (0.25, 30.0)) == 0.75
    assert asked.strain(10.0, (0.6, 30.0)) == pytest.approx(1.2)
    assert asked.strain(30.0, (0.25, 30.0)) == 1.5
    assert Objective("latency").strain(99.0, ()) == 0.0


def test_bounds_with_room_are_so_much_lower_each_and_nothing_else_changes() -> None:
    asked = Objective("cost", 0.9, 80.0, 20.0, levels=(TTFT, E2E))
    found = asked.times(0.75)
    assert found.bounds == (Level("e2e", 0.9, 15.0), Level("ttft", 0.95, 0.375), Level("e2e", 0.99, 30.0))
    assert (found.goal, found.quantile, found.quality_min) == ("cost", 0.9, 80.0)
    unbounded = Objective("cost", 0.95, 80.0)
    assert unbounded.times(0.75) == unbounded


def test_each_level_has_its_own_latency() -> None:
    with pytest.raises(ValueError, match="zip"):
        Objective("cost", levels=(TTFT, E2E)).strain(1.0, (0.5,))


def test_levels_are_named_as_people_call_them() -> None:
    assert [str(level) for level in (TTFT, E2E)] == ["TTFT p95 <= 0.5 s", "end to end p99 <= 40 s"]
    assert Level("tpot", 0.999, 0.05).name == "TPOT p99.9"


def test_unless_it_is_said_the_quantile_is_p95_and_a_plan_three_percent_slower_may_be_taken() -> None:
    assert (Objective("latency").quantile, Objective("latency").within) == (0.95, 0.03)


def test_the_deadline_is_the_first_bound_end_to_end() -> None:
    assert Objective("cost", 0.5, 80.0, 20.0, levels=(E2E,)).deadline == Level("e2e", 0.5, 20.0)
    assert Objective("cost", levels=(TTFT, E2E)).deadline == E2E
    assert Objective("cost", levels=(TTFT,)).deadline is None


def test_a_bar_is_of_a_hundred_and_a_fraction_is_refused() -> None:
    assert [bar_of_a_hundred(bar) for bar in (None, 0.0, 1.01, 78.0)] == [None, 0.0, 1.01, 78.0]
    for fraction, meant in ((0.78, "78"), (1.0, "100")):
        with pytest.raises(ValueError, match=f"did you mean {meant}"):
            bar_of_a_hundred(fraction)


def test_a_plan_whose_latency_is_bounded_has_eight_settings_at_most() -> None:
    assert GEARS == 8
