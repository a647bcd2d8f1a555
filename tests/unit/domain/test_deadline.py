"""A deadline shares out what is left of it, and remembers what was left out."""

from math import inf

from cascadia.domain.deadline import PLANNED, TIME_LIMIT_S, Deadline


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_none_never_passes() -> None:
    assert Deadline().left_s == inf
    assert Deadline().part(0.1).left_s == inf
    assert not Deadline().leaves_out("anything")


def test_parts_are_of_what_is_left_and_never_beyond_the_whole() -> None:
    clock = Clock()
    whole = Deadline(10.0, clock=clock)
    clock.now_s += 4.0
    part = whole.part(0.5)
    assert (whole.left_s, part.left_s) == (6.0, 3.0)
    clock.now_s += 4.0
    assert part.passed
    assert not whole.passed
    assert whole.part(1.0).left_s == whole.left_s == 2.0


def test_what_parts_leave_out_is_told_once_of_the_whole() -> None:
    clock = Clock()
    whole = Deadline(10.0, clock=clock)
    part = whole.part(0.5)
    assert not part.leaves_out("this")
    clock.now_s += 6.0
    assert part.leaves_out("that")
    assert part.leaves_out("that")
    assert whole.left_out == ("that",)


def test_it_has_passed_at_its_instant_and_not_a_moment_before() -> None:
    clock = Clock()
    whole = Deadline(10.0, clock=clock)
    clock.now_s += 9.75
    assert (whole.left_s, whole.passed) == (0.25, False)
    clock.now_s += 0.25
    assert (whole.left_s, whole.passed) == (0.0, True)
    clock.now_s += 5.0
    assert whole.left_s == 0.0


def test_a_plan_takes_five_minutes_of_which_its_search_has_four() -> None:
    clock = Clock()
    assert Deadline(TIME_LIMIT_S, clock=clock).part(PLANNED).left_s == 240.0


def test_what_a_search_beside_leaves_out_is_not_told_as_left_out_of_the_whole() -> None:
    clock = Clock()
    whole = Deadline(10.0, clock=clock)
    apart = whole.apart(0.5)
    assert apart.in_part("others") == ()
    clock.now_s += 6.0
    assert apart.leaves_out("steps from the best deployments")
    assert whole.left_out == ()
    whole.has_left_out(apart.in_part("others"))
    assert whole.left_out == ("a part of others",)


def test_a_search_beside_has_all_the_time_that_is_left_unless_it_is_given_a_share() -> None:
    whole = Deadline(10.0, clock=Clock())
    assert (whole.apart().left_s, whole.apart(0.25).left_s) == (10.0, 2.5)
