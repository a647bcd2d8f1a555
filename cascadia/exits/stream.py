"""A stream of inputs whose readings are known, through exits that are decided while it goes on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cascadia.exits.adjust import Budget
from cascadia.exits.apparate import Apparate
from cascadia.exits.certify import Promise
from cascadia.exits.controller import Controller, Event
from cascadia.exits.copies import Recent
from cascadia.exits.path import Path
from cascadia.exits.readings import Bools, Floats, Readings, exit_of
from cascadia.exits.timing import Timing


@dataclass(frozen=True, slots=True)
class Streamed:
    """Shares (0-1) of the whole model's time and work that were saved, and of answers that differ from its own;
    `first_certified`: inputs before anything left."""

    time_saved: float
    work_saved: float
    differs: float
    first_certified: int | None
    withdrawn: int


class Happened(NamedTuple):
    """Event of a controller behind input `at`, counted from 0, with the `thresholds` in force from then on."""

    at: int
    event: Event
    thresholds: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Run of a stream. By input: the `time` to its answer and the `work` on it, as shares of the whole model's time;
    whether its answer `differs` from the model's. `first`: inputs before anything left.
    """

    time: Floats
    work: Floats
    differs: Bools
    events: tuple[Happened, ...] = ()
    first: int | None = None

    def summary(self) -> Streamed:
        withdrawn = sum(one.event == Event.WITHDRAWN for one in self.events)
        saved = float(1.0 - self.time.mean()), float(1.0 - self.work.mean())
        return Streamed(*saved, float(self.differs.mean()), self.first, withdrawn)


def by_certificate(
    seen: Readings,
    timing: Timing,
    active: tuple[int, ...],
    path: Path,
    promise: Promise,
    stays: Bools,
    *,
    keys: Sequence[bytes] | None = None,
) -> Run:
    """Certified exits. Those that stay (inputs), drawn before they are looked at, are fed back; others really leave.

    `keys` (inputs) tell copies, as they are told where exits serve; None: there are none.
    """
    controller, at_active, recent = Controller(promise, path), seen.at(active), Recent()
    answered = timing.answered_s(active) / timing.total_s
    left, differs = np.full(len(seen), len(active)), np.zeros(len(seen), dtype=np.bool_)
    events: list[Happened] = []
    for i in range(len(seen)):
        at = exit_of(at_active.doubts[i], controller.thresholds)
        if at is not None:
            left[i], differs[i] = at, at_active.labels[i, at] != seen.final[i]
        if not stays[i]:
            continue
        copy = recent.has(None if keys is None else keys[i])
        told = at_active.labels[i], at_active.doubts[i], int(seen.final[i])
        if (event := controller.feed(*told, copy)) is not None:
            events.append(Happened(i, event, controller.thresholds))
    first = next((one.at + 1 for one in events if one.event == Event.CERTIFIED), None)
    work = np.where(stays, answered[-1], answered[left])
    return Run(answered[left], work, differs, tuple(events), first)


def by_apparate(
    seen: Readings, timing: Timing, budget: Budget, loss_max: float, *, adjusts: bool = True
) -> Run:
    """Apparate's loop, which has all inputs run to the end."""
    loop = Apparate(timing, budget, loss_max, adjusts=adjusts)
    time, work = np.zeros(len(seen)), np.zeros(len(seen))
    differs, first = np.zeros(len(seen), dtype=np.bool_), None
    for i in range(len(seen)):
        active = loop.now.active
        at = exit_of(seen.doubts[i, list(active)], loop.now.thresholds)
        answered = timing.answered_s(active)
        time[i], work[i] = answered[len(active) if at is None else at], answered[-1]
        differs[i] = at is not None and bool(seen.labels[i, active[at]] != seen.final[i])
        first = i if first is None and at is not None else first
        loop.feed(seen.labels[i], seen.doubts[i], int(seen.final[i]))
    return Run(time / timing.total_s, work / timing.total_s, differs, (), first)
