"""A Redis that is lost takes two lines of the log, however often it is tried."""

from typing import Any

from cascadia.router.telemetry.outages import QUIET_S, Outage


class Told:
    def __init__(self) -> None:
        self.now_s = 1000.0
        self.lines: list[dict[str, Any]] = []
        self.outage = Outage("limits", self.lines.append, lambda: self.now_s)

    @property
    def outcomes(self) -> list[str]:
        return [line["outcome"] for line in self.lines]


def test_it_is_told_once_lost_and_once_back_with_how_long() -> None:
    told = Told()
    told.outage.back()
    for _ in range(900):
        told.outage.lost("timeout")
        told.now_s += 1.0
    told.outage.back()
    told.outage.back()
    assert told.lines == [
        {"event": "redis", "of": "limits", "outcome": "lost", "error": "timeout"},
        {"event": "redis", "of": "limits", "outcome": "back", "away_s": 900.0},
    ]


def test_what_comes_and_goes_is_told_once_a_minute() -> None:
    told = Told()
    for _ in range(600):
        told.outage.lost("timeout")
        told.now_s += 0.5
        told.outage.back()
        told.now_s += 0.5
    assert told.outcomes == ["lost", "back"] * 10


def test_a_loss_that_was_not_told_is_told_where_it_lasts() -> None:
    told = Told()
    told.outage.lost("timeout")
    told.outage.back()
    for _ in range(int(QUIET_S) + 1):
        told.outage.lost("connection")
        told.now_s += 1.0
    told.outage.back()
    assert told.outcomes == ["lost", "back", "lost", "back"]
    assert told.lines[-1]["away_s"] == QUIET_S + 1.0
