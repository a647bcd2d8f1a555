"""The rule by which a gear is chosen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia.domain.gear import DEAD_BAND, HOLD_S, Gear, Ladder, Shift, ladder_of, rooms

THREE = Ladder((10.0, 20.0))


def test_a_border_belongs_to_the_heavier_gear() -> None:
    assert [THREE.at(n) for n in (0, 10, 11, 20, 21, 1e9)] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("borders", [(0.0,), (5.0, 5.0), (5.0, 3.0)])
def test_borders_rise(borders: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="do not rise"):
        Ladder(borders)


def test_a_ladder_is_read_from_gears() -> None:
    gears = (Gear(8.0, None, ("a", "b"), (50.0,)), Gear(None, None, ("a",), (50.0,)))
    assert ladder_of(gears) == Ladder((8.0,))
    assert ladder_of(gears[1:]) == Ladder(())
    with pytest.raises(ValueError, match="the last has none"):
        ladder_of(gears[:1])


def test_it_goes_to_a_lighter_gear_at_once() -> None:
    shift = Shift(THREE)
    assert [shift.arrival(n, 0.0) for n in (9, 25)] == [0, 2]


def test_it_goes_back_after_a_calm_second() -> None:
    shift = Shift(THREE)
    shift.arrival(25, 0.0)
    assert [shift.arrival(15, t) for t in (0.5, 1.0, 1.5, 1.6)] == [2, 2, 1, 1]


def test_noise_begins_the_second_anew() -> None:
    shift = Shift(THREE)
    shift.arrival(15, 0.0)
    assert [shift.arrival(n, t) for n, t in ((5, 0.1), (9.5, 0.6), (5, 1.2), (5, 2.1), (5, 2.2))] == [
        1,
        1,
        1,
        1,
        0,
    ]


def test_it_does_not_go_back_within_the_dead_band() -> None:
    shift = Shift(THREE)
    shift.arrival(11, 0.0)
    assert {shift.arrival(9.5, float(t)) for t in range(10)} == {1}


@pytest.mark.parametrize(("in_flight", "gears"), [(90.0, [1, 0]), (90.1, [1, 1]), (95.0, [1, 1])])
def test_the_dead_band_is_a_share_of_the_border(in_flight: float, gears: list[int]) -> None:
    shift = Shift(Ladder((100.0,)))
    shift.arrival(101.0, 0.0)
    assert [shift.arrival(in_flight, t) for t in (1.0, 2.0)] == gears


def test_the_calm_second_may_begin_with_the_clock() -> None:
    shift = Shift(THREE)
    shift.arrival(11, 0.0)
    assert [shift.arrival(5, t) for t in (0.0, 0.0, 1.0)] == [1, 1, 0]


def test_lost_replicas_are_load() -> None:
    assert Shift(THREE).arrival(9, 0.0, capacity=0.5) == 1


@given(
    st.lists(st.floats(0.1, 1e4), min_size=1, max_size=6, unique=True),
    st.lists(st.tuples(st.floats(0, 1.2e4), st.floats(0, 3)), max_size=60),
)
def test_it_is_never_heavier_than_its_load(borders: list[float], arrivals: list[tuple[float, float]]) -> None:
    """Nor does it grow heavier unless every arrival of the last second was that calm."""
    ladder, now_s, seen = Ladder(tuple(sorted(borders))), 0.0, [(0.0, 0.0)]
    shift = Shift(ladder)
    for in_flight, gap_s in arrivals:
        now_s, before = now_s + gap_s, shift.gear
        gear = shift.arrival(in_flight, now_s)
        seen.append((now_s, in_flight))
        assert gear >= ladder.at(in_flight)
        if gear < before:
            last = [n for at, n in seen if at > now_s - HOLD_S]
            assert max(last) <= ladder.borders[before - 1] * (1 - DEAD_BAND) * (1 + 1e-9)


def test_the_fullest_stage_has_no_room_and_one_half_as_full_could_lose_half() -> None:
    assert rooms([0.75, 0.375, 0.3]) == [1.0, 2.0, 2.5]
    assert rooms([]) == []


def test_a_stage_whose_load_nobody_knows_counts_as_full() -> None:
    assert rooms([0.5, None]) == [2.0, 1.0]
    assert rooms([None, None]) == [1.0, 1.0]


def test_from_its_start_a_router_is_in_the_heaviest_gear_and_asks_no_calm_second() -> None:
    shift = Shift(THREE)
    assert (shift.gear, shift.ladder.last) == (0, 2)
    assert shift.arrival(5, 0.0) == 0
    shift.arrival(11, 0.0)
    assert [shift.arrival(5, t) for t in (0.0, 0.5, 0.99, 1.0)] == [1, 1, 1, 0]
