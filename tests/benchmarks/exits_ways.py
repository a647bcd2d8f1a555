"""Ways to choose exits, on the same ramps and streams: each gives where every input leaves, and what it differs on."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cascadia.exits.adjust import Budget
from cascadia.exits.certify import Promise
from cascadia.exits.choose import path_of
from cascadia.exits.controller import Event
from cascadia.exits.greedy import climb
from cascadia.exits.path import Path, calibrated
from cascadia.exits.readings import Bools, Floats, Readings, exits, losses
from cascadia.exits.stream import by_apparate, by_certificate
from cascadia.exits.timing import Timing

RISK = 0.01
WINDOWS = (20, 40, 80)
"""Batches that the online optimum looks back on (section 4.2)."""
BATCH = 16
FAMILY = (1, 3, 7)
"""Ramps behind one, two and four layers: models of so many layers are smaller ones of the same family."""


class Served(NamedTuple):
    """(inputs): the time to each answer as a share of the model's, and whether it differs from the model's."""

    time: Floats
    differs: Bools

    @property
    def saving(self) -> float:
        return float(1 - self.time.mean())

    @property
    def risk(self) -> float:
        return float(self.differs.mean())


class Setup(NamedTuple):
    """`calibration` are readings that no ramp was trained on and that are in no stream."""

    timing: Timing
    budget: Budget
    calibration: Readings


class Certified(NamedTuple):
    """`risks` are the population's of each setting that came into force; `events` with the input they came after."""

    served: Served
    risks: list[float]
    events: list[tuple[int, Event]]


def certified(
    setup: Setup, plan: tuple[tuple[int, ...], Path], stream: Readings, population: Readings, shadowed: Bools
) -> Certified:
    """Ours. Inputs that are not `shadowed` really leave."""
    active, path = plan
    run = by_certificate(stream, setup.timing, active, path, Promise(RISK), shadowed)
    known = population.at(active)
    risks = [
        float(losses(known, exits(known.doubts, one.thresholds)).mean())
        for one in run.events
        if one.event == Event.CERTIFIED
    ]
    return Certified(Served(run.time, run.differs), risks, [(one.at, one.event) for one in run.events])


def apparate(setup: Setup, stream: Readings, adjusts: bool = True) -> Served:
    run = by_apparate(stream, setup.timing, setup.budget, RISK, adjusts=adjusts)
    return Served(run.time, run.differs)


def fixed(timing: Timing, active: tuple[int, ...], thresholds: Floats, stream: Readings) -> Served:
    seen = stream.at(active)
    left = exits(seen.doubts, thresholds)
    return Served(timing.answered_s(active)[left] / timing.total_s, losses(seen, left))


def always_on(setup: Setup, fitted: Readings) -> Callable[[Readings], Served]:
    """DeeBERT and BranchyNet: a ramp after each layer, one threshold for all, tuned once."""
    every = tuple(range(setup.timing.ramps))
    tried = np.linspace(0, 1, 101)
    kept = [t for t in tried if fixed(setup.timing, every, np.full(len(every), t), fitted).risk <= RISK]
    return lambda stream: fixed(setup.timing, every, np.full(len(every), max(kept)), stream)


def tuned_once(setup: Setup, active: tuple[int, ...], fitted: Readings) -> Callable[[Readings], Served]:
    """A threshold for each active ramp, by hill climbing on the first data, for good."""
    thresholds = climb(fitted.at(active), setup.timing, active, RISK).thresholds
    return lambda stream: fixed(setup.timing, active, thresholds, stream)


def hindsight(setup: Setup, plan: tuple[tuple[int, ...], Path], stream: Readings) -> Served:
    """The boldest setting of the same path that keeps the constraint on the very stream."""
    active, path = plan
    served = [fixed(setup.timing, active, row, stream) for row in path.thresholds]
    return max((one for one in served if one.risk <= RISK), key=lambda one: one.saving)


def earliest_right(timing: Timing, stream: Readings) -> Served:
    """The paper's optimum (section 2.2): each input leaves at the first ramp that is right, ramps for nothing."""
    right = ~stream.wrong
    left = np.where(right.any(axis=1), right.argmax(axis=1), stream.ramps)
    upto = np.cumsum(timing.segments_s)
    return Served(upto[left] / timing.total_s, np.zeros(len(stream), dtype=np.bool_))


def online_optimal(setup: Setup, plan: tuple[tuple[int, ...], Path], stream: Readings) -> Served:
    """Section 4.2: before each batch the boldest setting that kept the constraint on the past {20, 40, 80} batches, of
    these three the one that does best on the batch to come."""
    active, path = plan
    served = [fixed(setup.timing, active, row, stream) for row in path.thresholds]
    time = np.array([one.time for one in served])
    differs = np.array([one.differs for one in served])
    found_time, found_differs = np.ones(len(stream)), np.zeros(len(stream), dtype=np.bool_)
    for start in range(BATCH * WINDOWS[0], len(stream), BATCH):
        now = slice(start, start + BATCH)
        chosen = set()
        for batches in WINDOWS:
            lost = differs[:, max(0, start - batches * BATCH) : start].mean(axis=1)
            chosen |= set(np.flatnonzero(lost <= RISK)[-1:].tolist())
        best = min(
            chosen, key=lambda at: (differs[at, now].mean() > RISK, time[at, now].mean()), default=None
        )
        if best is not None:
            found_time[now], found_differs[now] = time[best, now], differs[best, now]
    return Served(found_time, found_differs)


def two_models(setup: Setup, ramp: int) -> Timing:
    """A smaller model that ends at `ramp`, asked first; the large one starts over (Tabi). Its head is the ramp."""
    timing = setup.timing
    small = sum(timing.segments_s[: ramp + 1])
    return Timing(timing.batch, (small, timing.total_s), (timing.ramps_s[ramp],))


def two_models_certified(setup: Setup, stream: Readings, shadowed: Bools) -> Served:
    """The best small model of all in hindsight, its threshold certified as ours are."""
    found = []
    for ramp in FAMILY:
        path = calibrated(setup.calibration.at((ramp,)), RISK)
        whole = setup.timing.total_s
        small = two_models(setup, ramp)
        one = certified(
            setup._replace(timing=small), ((0,), path), stream.at((ramp,)), stream.at((ramp,)), shadowed
        )
        found.append(Served(one.served.time * small.total_s / whole, one.served.differs))
    return max(found, key=lambda one: one.saving)


def planned(setup: Setup, risk: float = RISK) -> tuple[tuple[int, ...], Path]:
    return path_of(setup.calibration, setup.timing, risk, setup.budget)
