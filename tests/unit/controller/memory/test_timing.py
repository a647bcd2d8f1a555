"""A move's time, told from the history: its parts add up, and what nobody knows is not told."""

import pytest

from cascadia.controller.memory.history import Entry
from cascadia.controller.memory.timing import move_timings

MOVE = [
    Entry(300.0, "alarm", "rate changed", {"since_s": 200.0}),
    Entry(350.0, "decision", "move: better", {"planning_s": 20.0}),
    Entry(350.0, "begun", "to new", {}),
    Entry(350.5, "step", "start small-1 (1 of gpu)", {"took_s": 0.5}),
    Entry(400.5, "step", "await small-1", {"took_s": 50.0, "stage": "small", "startup_s": 50.0}),
    Entry(401.0, "step", "route to small, large", {"took_s": 0.5}),
    Entry(411.0, "step", "stop large-0", {"took_s": 10.0}),
    Entry(411.0, "moved", "new is in force", {}),
]


def test_the_parts_of_a_move_add_up_to_the_time_from_the_change_to_its_end() -> None:
    (move,) = move_timings(MOVE)
    assert (move.noticed_s, move.gathered_s, move.planning_s) == (100.0, 30.0, 20.0)
    assert move.loading_s == {"small": 50.0}
    assert (move.draining_s, move.rest_s) == (10.0, 1.0)
    assert move.to_plan_s + move.to_last_step_s == pytest.approx(411.0 - 200.0)
    assert move.outcome == "moved"


def test_a_move_under_way_is_not_told_yet() -> None:
    assert list(move_timings(MOVE[:-1])) == []


def test_a_move_that_another_controller_ended_is_left_out() -> None:
    adopted = Entry(405.0, "adopted", "going on", {})
    assert list(move_timings([*MOVE[:5], adopted, *MOVE[5:]])) == []
