"""Exits come into force by evidence, and go when traffic changes."""

import numpy as np

from cascadia.exits.certify import Promise
from cascadia.exits.controller import Controller, Event
from cascadia.exits.path import calibrated
from cascadia.exits.readings import Readings, exits, losses
from tests.unit.exits.streams import stream

PATH = calibrated(stream(3000, 1), 0.01)


def feed(controller: Controller, some: Readings) -> list[tuple[int, Event]]:
    events = []
    for i in range(len(some)):
        event = controller.feed(some.labels[i], some.doubts[i], int(some.final[i]))
        if event is not None:
            events.append((i, event))
    return events


def test_it_begins_with_nothing_and_grows_bolder_within_the_promise() -> None:
    controller = Controller(Promise(), PATH)
    assert (controller.thresholds == 0).all()
    events = feed(controller, stream(4000, 2))
    assert {event for _, event in events} == {Event.CERTIFIED}
    assert controller.certified > 10
    assert controller.estimate < 0.01
    fresh = stream(50_000, 3)
    assert 0.001 < losses(fresh, exits(fresh.doubts, controller.thresholds)).mean() <= 0.01


def test_after_a_change_it_withdraws_and_learns_anew() -> None:
    controller = Controller(Promise(), PATH, learned=300)
    feed(controller, stream(2000, 4))
    assert controller.certified >= 0
    (first, withdrawn), (second, renewed), *_ = feed(controller, stream(1200, 5, harder=0.1))
    assert (withdrawn, renewed) == (Event.WITHDRAWN, Event.RENEWED)
    assert first < 400
    assert second == first + 300
    assert controller.withdrawn == 1


def test_it_comes_back_when_the_new_traffic_allows() -> None:
    controller = Controller(Promise(), PATH, learned=300)
    feed(controller, stream(1500, 6))
    feed(controller, stream(200, 7, harder=0.2))
    assert controller.withdrawn == 1
    assert controller.certified == -1
    events = feed(controller, stream(3000, 8))
    assert events[0][1] == Event.RENEWED
    assert controller.certified >= 0
    assert (exits(stream(500, 9).doubts, controller.thresholds) < 3).mean() > 0.1


def test_between_a_withdrawal_and_a_new_path_nothing_leaves() -> None:
    controller = Controller(Promise(), PATH, learned=10_000)
    feed(controller, stream(1500, 9))
    feed(controller, stream(2000, 10, harder=0.2))
    assert controller.withdrawn == 1
    assert controller.evidence_of_drift >= controller.every
    assert np.all(exits(stream(100, 11).doubts, controller.thresholds) == 3)


def test_it_says_on_how_much_its_certificate_rests() -> None:
    controller = Controller(Promise(), PATH)
    feed(controller, stream(50, 12))
    assert (controller.inputs, controller.estimate) == (50, 0.0)
