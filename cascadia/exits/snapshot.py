"""A controller's state as values, so that what was certified outlives the process that certified it.

What a process that is killed has learned since the last one is lost; the promise holds as long as it is not killed for
what it learned.
"""

from dataclasses import dataclass
from math import inf, isfinite

import numpy as np

from cascadia.exits.controller import Controller
from cascadia.exits.path import Path


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`thresholds` (settings, ramps) of the path; of its certificate the `inputs`, how often each setting `differed`,
    which have `passed`, and copies `excused`; the `drift` detector's sums. `learning`: no path is in force, and 1000
    inputs give a new one.
    """

    risk: float
    confidence: float
    thresholds: tuple[tuple[float, ...], ...]
    inputs: int
    differed: tuple[float, ...]
    passed: tuple[bool, ...]
    drift: tuple[float, ...]
    withdrawn: int
    learning: bool
    excused: tuple[float, ...] = ()
    """Empty in files of versions that knew no copies."""
    calibrated: tuple[float, ...] = ()
    """On how many of the `calibrated_on` inputs each setting of the path differed; empty: its bets are even."""
    calibrated_on: int = 0

    def __post_init__(self) -> None:
        n = len(self.thresholds)
        if not n == len(self.differed) == len(self.passed) or self.inputs < 0 or self.withdrawn < 0:
            raise ValueError("settings and evidence do not match")
        if not all(0 <= each <= self.inputs for each in self.differed) or (
            any(self.passed) and not self.inputs
        ):
            raise ValueError("a setting differed more often than there were inputs")
        excused = self.excused or (0.0,) * n
        if len(excused) != n or not all(
            0 <= less <= self.inputs - each for less, each in zip(excused, self.differed, strict=True)
        ):
            raise ValueError("more copies are excused than there were inputs")
        if not all(0 <= each < inf for each in self.drift):
            raise ValueError("evidence of drift is no number")
        rows = self.thresholds
        if len({len(row) for row in rows}) > 1 or not all(isfinite(each) for row in rows for each in row):
            raise ValueError("settings are of different ramps")
        self.path(len(rows[0]) if rows else 0)

    def path(self, ramps: int) -> Path:
        differed = np.array(self.calibrated) if self.calibrated else None
        thresholds = np.array(self.thresholds).reshape(len(self.thresholds), ramps)
        return Path(thresholds, differed, self.calibrated_on)


def snapshot(controller: Controller) -> Snapshot:
    certificate, promise = controller.certificate, controller.promise
    return Snapshot(
        risk=promise.risk,
        confidence=promise.confidence,
        thresholds=tuple(map(tuple, controller.path.thresholds.tolist())),
        inputs=certificate.inputs,
        differed=tuple(certificate.differed.tolist()),
        passed=tuple(certificate.passed.tolist()),
        drift=tuple(controller.drift.sums.tolist()),
        withdrawn=controller.withdrawn,
        learning=controller.learning,
        excused=tuple(certificate.excused.tolist()),
        calibrated=() if controller.path.differed is None else tuple(controller.path.differed.tolist()),
        calibrated_on=controller.path.inputs,
    )


def resume(controller: Controller, kept: Snapshot) -> bool:
    """Takes up where `kept` was taken; tells whether it could: for another promise, or other ramps, it cannot."""
    ramps, promise = controller.path.thresholds.shape[1], controller.promise
    same = (kept.risk, kept.confidence) == (promise.risk, promise.confidence)
    if not same or any(len(row) != ramps for row in kept.thresholds):
        return False
    if len(kept.drift) != len(controller.drift.sums) or not kept.thresholds:
        return False
    controller.resume(
        kept.path(ramps),
        withdrawn=kept.withdrawn,
        learning=kept.learning,
    )
    if not kept.learning:
        differed = np.array(kept.differed)
        excused = np.array(kept.excused) if kept.excused else np.zeros_like(differed)
        controller.certificate.resume(kept.inputs, differed, excused, np.array(kept.passed))
        controller.drift.resume(np.array(kept.drift))
        controller.put_in_force()
    return True
