"""Controller of a model's exits: certifies settings of a path while it serves, and withdraws them when traffic
drifts.

It is told of inputs that ran to the end, whatever the setting in force would have done with them: all of them
(Apparate: exits save time, not work), or a share drawn before the exit is known (work is saved too). Told of others
it would certify what is not so: that an input went to the end because no ramp was sure says something about it.

A promise covers one certificate: from the start, or from a withdrawal, to the next withdrawal. After a withdrawal
nothing exits; `learned` inputs give the path anew, and later ones the evidence on it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from cascadia.exits.certify import Certificate, Promise, weighted
from cascadia.exits.drift import EVERY, Drift
from cascadia.exits.path import Path, calibrated
from cascadia.exits.readings import Floats, Ints, Readings, exit_of

LEARNED = 1000
"""Inputs fed back after a withdrawal, on which the path is calibrated anew."""


class Event(StrEnum):
    CERTIFIED = "certified"
    """A bolder setting is in force."""
    WITHDRAWN = "withdrawn"
    """Traffic drifted: nothing exits."""
    RENEWED = "renewed"
    """There is a new path, and no evidence on it yet."""


@dataclass(slots=True, eq=False)
class Controller:
    """Exits of one model at its active ramps, by `path`. Changes in place; not thread-safe.

    `every`: inputs fed back for one false withdrawal, in the mean and at least. `renewed` makes the path anew, of the
    inputs learned from after a withdrawal, the risk and a number of settings.
    """

    promise: Promise
    path: Path
    every: float = EVERY
    learned: int = LEARNED
    renewed: Callable[[Readings, float, int], Path] = calibrated
    withdrawn: int = 0
    certificate: Certificate = field(init=False)
    drift: Drift = field(init=False)
    _kept: list[tuple[Ints, Floats, int]] | None = field(init=False, default=None)
    _thresholds: Floats = field(init=False)

    def __post_init__(self) -> None:
        self._begin(self.path)

    @property
    def thresholds(self) -> Floats:
        """(ramps): on doubts, of the setting in force; zeros let nothing out."""
        return self._thresholds

    @property
    def certified(self) -> int:
        """The setting in force, counted from 0; -1: none."""
        return self.certificate.certified

    @property
    def evidence_of_drift(self) -> float:
        """Evidence against the setting in force; at `every` it is withdrawn."""
        return self.drift.evidence

    @property
    def inputs(self) -> int:
        """Inputs fed back to this certificate."""
        return self.certificate.inputs

    @property
    def estimate(self) -> float:
        """The share of them on which the setting in force differs from the model; 0 where none is in force."""
        return self.certificate.estimate(self.certified) if self.certified >= 0 else 0.0

    @property
    def learning(self) -> bool:
        """Settings were withdrawn, and there is no new path yet."""
        return self._kept is not None

    def resume(self, path: Path, *, withdrawn: int, learning: bool) -> None:
        """Begins with `path`, as a controller left off that withdrew settings so often."""
        self._begin(path)
        self.withdrawn = withdrawn
        if learning:
            self._kept = []

    def put_in_force(self) -> None:
        """The boldest certified setting."""
        self._set(self.certified)

    def feed(self, labels: Ints, doubts: Floats, final: int, copy: bool = False) -> Event | None:
        """Takes in one input that ran to the end: `labels` and `doubts` (ramps), and the model's own label; whether it
        is a `copy` (`cascadia.exits.copies`).
        """
        if self._kept is not None:
            return self._learn(labels, doubts, final)
        wrong = labels != final
        left = exit_of(doubts, self._thresholds)
        # Drift first: what withdraws a setting is no evidence on the path after it.
        if self.certified >= 0 and self.drift.feed(left is not None and bool(wrong[left])):
            self.withdrawn += 1
            self._kept = []
            self._set(-1)
            self.certificate = self._certificate()
            return Event.WITHDRAWN
        before = self.certified
        if self.certificate.feed(self.path.wrong_of(doubts, wrong), copy=copy) == before:
            return None
        self._set(self.certified)
        return Event.CERTIFIED

    def _learn(self, labels: Ints, doubts: Floats, final: int) -> Event | None:
        assert self._kept is not None
        self._kept.append((labels, doubts, final))
        if len(self._kept) < self.learned:
            return None
        seen = [np.array(part) for part in zip(*self._kept, strict=True)]
        self._begin(self.renewed(Readings(*seen), self.promise.risk, self.path.settings))
        return Event.RENEWED

    def _begin(self, path: Path) -> None:
        self.path, self._kept = path, None
        self.certificate = self._certificate()
        self.drift = Drift(self.promise.risk, self.every)
        self._set(-1)

    def _certificate(self) -> Certificate:
        path, risk = self.path, self.promise.risk
        weights = None if path.differed is None else weighted(path.differed, path.inputs, risk)
        return Certificate(self.promise, path.settings, weights)

    def _set(self, setting: int) -> None:
        self._thresholds = self.path.setting(setting)
