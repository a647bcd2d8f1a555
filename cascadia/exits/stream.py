"""A stream of inputs whose readings are known, through exits that are decided while it goes on."""

from dataclasses import dataclass
from random import Random

import numpy as np

from cascadia.exits.adjust import Budget
from cascadia.exits.apparate import Apparate
from cascadia.exits.certify import Promise
from cascadia.exits.controller import Controller, Event
from cascadia.exits.path import Path
from cascadia.exits.readings import Readings, exit_of
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


def by_certificate(
    seen: Readings,
    timing: Timing,
    active: tuple[int, ...],
    path: Path,
    promise: Promise,
    *,
    shadow: float,
    seed: int,
) -> Streamed:
    """Ours, with a share `shadow` (0-1) of the inputs fed back, drawn before they are looked at."""
    controller, at_active, draw = Controller(promise, path), seen.at(active), Random(seed)
    answered = timing.answered_s(active)
    time, work = np.zeros(len(seen)), np.zeros(len(seen))
    differs, first = 0, None
    for i in range(len(seen)):
        at = exit_of(at_active.doubts[i], controller.thresholds)
        stays = draw.random() < shadow
        time[i] = answered[len(active) if at is None else at]
        work[i] = answered[-1] if stays else time[i]
        differs += at is not None and bool(at_active.labels[i, at] != seen.final[i])
        if stays:
            event = controller.feed(at_active.labels[i], at_active.doubts[i], int(seen.final[i]))
            if first is None and event == Event.CERTIFIED:
                first = i + 1
    return Streamed(
        1.0 - float(time.mean()) / timing.total_s,
        1.0 - float(work.mean()) / timing.total_s,
        differs / len(seen),
        first,
        controller.withdrawn,
    )


def by_apparate(seen: Readings, timing: Timing, budget: Budget, loss_max: float) -> Streamed:
    """Apparate's loop, which has all inputs run to the end."""
    loop = Apparate(timing, budget, loss_max)
    time, work = np.zeros(len(seen)), np.zeros(len(seen))
    differs, first = 0, None
    for i in range(len(seen)):
        active = loop.now.active
        at = exit_of(seen.doubts[i, list(active)], loop.now.thresholds)
        answered = timing.answered_s(active)
        time[i], work[i] = answered[len(active) if at is None else at], answered[-1]
        differs += at is not None and bool(seen.labels[i, active[at]] != seen.final[i])
        first = i if first is None and at is not None else first
        loop.feed(seen.labels[i], seen.doubts[i], int(seen.final[i]))
    return Streamed(
        1.0 - float(time.mean()) / timing.total_s,
        1.0 - float(work.mean()) / timing.total_s,
        differs / len(seen),
        first,
        0,
    )
