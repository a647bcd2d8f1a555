"""The control loop's state machine: every way through it ends in watching, and what it does not know is refused."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia.controller.decide.phases import LOOKING, NEXT, Event, OutOfOrder, Phase, Progress, drawing
from cascadia.controller.detect.detect import Alarm

FIRST, SECOND = Alarm("rate", 1.0, 2.0, 100.0, 160.0), Alarm("output length", 1.0, 2.0, 300.0, 360.0)


def test_what_the_table_lacks_is_refused() -> None:
    for phase, event in product(Phase, Event):
        if (phase, event) not in NEXT:
            with pytest.raises(OutOfOrder, match=f"{event.name} cannot happen while {phase}"):
                Progress(phase).after(event)


def test_each_phase_can_be_reached_and_be_left_for_watching() -> None:
    def reached(start: Phase) -> set[Phase]:
        found, edge = {start}, [start]
        while edge:
            here = edge.pop()
            ways = [NEXT[here, event] or Phase.WATCHING for event in Event if (here, event) in NEXT]
            edge += [phase for phase in ways if phase not in found]
            found.update(ways)
        return found

    assert reached(Phase.WATCHING) == set(Phase)
    # One that gathers for a change or waits with it ends in a plan first.
    assert all(Phase.WATCHING in reached(phase) for phase in Phase)


def test_a_change_is_gathered_for_planned_for_and_forgotten() -> None:
    gathering = Progress().after(Event.ALARM, alarm=FIRST)
    assert (gathering.phase, gathering.alarm) == (Phase.GATHERING, FIRST)
    planning = gathering.after(Event.ENOUGH, unscored=FIRST)
    assert planning.alarm == FIRST
    kept = planning.after(Event.PLANNED).after(Event.KEEP)
    assert (kept.phase, kept.alarm, kept.unscored) == (Phase.WATCHING, None, FIRST)


def test_a_wait_survives_what_interrupts_it_and_a_later_change_takes_its_place() -> None:
    planning = Progress().after(Event.ALARM, alarm=FIRST).after(Event.ENOUGH)
    cooling = planning.after(Event.PLANNED).after(Event.COOL_DOWN, until_s=900.0)
    for way in (
        (Event.ASKED, Event.PLANNED, Event.KEEP),
        (Event.ASKED, Event.PLANNED, Event.MOVE, Event.ENDED),
        (Event.ASKED, Event.INFEASIBLE),
        (Event.DIFFERS, Event.ENDED),
        (Event.GIVEN, Event.ENDED),
    ):
        after = cooling
        for event in way:
            after = after.after(event)
        assert (after.phase, after.alarm, after.until_s) == (Phase.COOLING, FIRST, 900.0), way
    assert cooling.after(Event.ALARM, alarm=SECOND).alarm == SECOND
    assert cooling.after(Event.PASSED).alarm == FIRST


@given(st.lists(st.sampled_from(Event), max_size=40))
def test_whoever_gathers_or_waits_knows_for_which_change(events: list[Event]) -> None:
    progress = Progress()
    for event in events:
        if (progress.phase, event) in NEXT:
            about = FIRST if event in (Event.ALARM, Event.SCORES) else None
            waits = event in (Event.COOL_DOWN, Event.WANTS_SCORES)
            if waits and progress.alarm is None:
                continue  # nobody waits with what nobody noticed
            progress = progress.after(event, alarm=about, until_s=60.0 if waits else 0.0)
        if progress.phase in LOOKING:
            assert (progress.alarm is None) == (progress.phase is Phase.WATCHING)


def test_the_drawing_has_every_phase() -> None:
    assert all(f"{phase} " in drawing() for phase in Phase)
