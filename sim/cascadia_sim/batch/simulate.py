"""A group of workers that serve one batch at a time, played on a stream of requests."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal, NamedTuple

import numpy as np

from cascadia_sim.batch import kernel
from cascadia_sim.batch.kernel import Floats
from cascadia_sim.engine.requests import picoseconds
from cascadia_sim.iteration.timing import PS_PER_S, Ints

MOST_EVENTS = 4
"""Entries of the heap for each worker: its completion, and wake-ups that no longer count. Where a table waits, each
arrival and each completion may leave one more."""

TIMES = 1
"""Which stream of a seed."""


class Step(NamedTuple):
    """One row of a policy: from this slack on, `batch` requests go to `model`; with a batch of 0 none goes yet.
    `refuses`: the rest of the queue is dropped then."""

    slack_s: float
    model: int
    batch: int
    refuses: bool = False


class Level(NamedTuple):
    """A table for loads up to `up_to`: `rows[n - 1]` are the steps for n queued, by rising slack from 0 on."""

    up_to: float
    rows: tuple[tuple[Step, ...], ...]


@dataclass(frozen=True, slots=True)
class WorkerKind:
    """`count` equal workers: `latency_s[m][b - 1]` of model m with a batch of b, and their tables by rising load.

    `drawn_s[m][b - 1]` are times of that batch, each as likely as the others and as many for all; empty: it always
    takes `latency_s`.
    """

    count: int
    latency_s: tuple[tuple[float, ...], ...]
    levels: tuple[Level, ...]
    drawn_s: tuple[tuple[tuple[float, ...], ...], ...] = ()


@dataclass(frozen=True, slots=True)
class BatchFleet:
    """Workers by kind. `queue`, `index`, `drops` and `least_s` are those of `cascadia.domain.policy`; deadlines are
    `slo_s` after the arrival, and rates are counted over `window_s`."""

    kinds: tuple[WorkerKind, ...]
    _: KW_ONLY
    slo_s: float
    queue: Literal["worker", "central"]
    index: Literal["rate", "in_flight"]
    drops: bool = False
    least_s: float = 0.0
    window_s: float = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class BatchRun:
    """Arrays by request: `latency_s` (infinite where dropped), `model` and `batch`. `busy` (workers): the share of the
    time from the first arrival on in which each served. `beyond`: decisions at a load above the last level's."""

    latency_s: Floats
    model: Ints
    batch: Ints
    busy: Floats
    beyond: int


def simulate_batches(fleet: BatchFleet, arrival_s: Floats, seed: int = 0) -> BatchRun:
    """Plays `arrival_s` (n, not decreasing). `seed`: of the times that batches take, where they vary."""
    arrival_ps = picoseconds(np.asarray(arrival_s, np.float64))
    n, machines = arrival_ps.size, sum(kind.count for kind in fleet.kinds)
    workers = _workers(fleet)
    work = kernel.Work(arrival_ps, _ps(fleet.slo_s), which_times(workers.latency_ps.shape[3], n, seed))
    served = kernel.Served(np.zeros(n, np.int64), np.full(n, -1, np.int64), np.zeros(n, np.int64))
    events = MOST_EVENTS * machines + 2 * n * _waits(fleet.kinds)
    state = kernel.State(
        head=np.arange(1 if fleet.queue == "central" else machines),
        free=np.zeros(machines, np.int64),
        time_ps=np.zeros(events, np.int64),
        who=np.zeros(events, np.int64),
        mark=np.zeros(events, np.int64),
        stamp=np.zeros(machines, np.int64),
        size=np.zeros(machines, np.int64),
        busy_ps=np.zeros(machines, np.int64),
    )
    beyond = kernel.run(work, workers, _rules(fleet), state, served) if n else 0
    done = served.finish_ps >= 0
    latency_s = np.where(done, (served.finish_ps - arrival_ps) / PS_PER_S, np.inf)
    lasts_ps = max(int(served.finish_ps.max(initial=1) - (arrival_ps[0] if n else 0)), 1)
    return BatchRun(latency_s, served.model, served.batch, state.busy_ps / lasts_ps, int(beyond))


def which_times(draws: int, n: int, seed: int = 0) -> Ints:
    """Indices into so many times that batches may take: of a batch whose earliest request is the first, second, ..."""
    if draws == 1:
        return np.zeros(n, np.int64)
    # A stream of its own: arrivals are often drawn by the same seed, and long times must not follow long gaps.
    return np.random.default_rng((seed, TIMES)).integers(draws, size=n)


def _ps(seconds: float) -> int:
    return round(seconds * PS_PER_S)


def _waits(kinds: Sequence[WorkerKind]) -> bool:
    """Tells whether some table waits: then wake-ups may be left behind."""
    return any(s.batch == 0 for kind in kinds for level in kind.levels for row in level.rows for s in row)


def _workers(fleet: BatchFleet) -> kernel.Workers:
    models = max(len(kind.latency_s) for kind in fleet.kinds)
    sizes = max(len(row) for kind in fleet.kinds for row in kind.latency_s)
    draws = max((len(kind.drawn_s[0][0]) for kind in fleet.kinds if kind.drawn_s), default=1)
    latency_ps = np.zeros((len(fleet.kinds), models, sizes, draws), np.int64)
    for c, kind in enumerate(fleet.kinds):
        for m, row in enumerate(kind.latency_s):
            takes_s = np.array(kind.drawn_s[m] if kind.drawn_s else row).reshape(len(row), -1)
            latency_ps[c, m, : len(row)] = np.rint(takes_s * PS_PER_S)
    kind_of = np.repeat(np.arange(len(fleet.kinds)), [kind.count for kind in fleet.kinds])
    return kernel.Workers(kind_of, latency_ps)


def _rules(fleet: BatchFleet) -> kernel.Rules:
    """All tables in one list of steps; a shorter table's last row stands for longer queues too."""
    levels = [level for kind in fleet.kinds for level in kind.levels]
    longest = max(len(level.rows) for level in levels)
    per_unit = fleet.window_s if fleet.index == "rate" else 1.0
    steps: list[Step] = []
    row = np.zeros((len(levels), longest + 1), np.int64)
    for i, level in enumerate(levels):
        for queued in range(longest):
            row[i, queued] = len(steps)
            steps += level.rows[min(queued, len(level.rows) - 1)]
        row[i, longest] = len(steps)
    return kernel.Rules(
        load=kernel.ARRIVALS if fleet.index == "rate" else kernel.IN_FLIGHT,
        window_ps=_ps(fleet.window_s),
        central=int(fleet.queue == "central"),
        # A slack of nothing is too little, whatever the least is.
        lost_ps=max(_ps(fleet.least_s), 1) if fleet.drops else 0,
        first=np.cumsum([0, *(len(kind.levels) for kind in fleet.kinds)]),
        border=np.array([level.up_to * per_unit for level in levels]),
        row=row,
        slack_ps=np.array([_ps(step.slack_s) for step in steps], np.int64),
        model=np.array([step.model for step in steps], np.int64),
        batch=np.array([step.batch for step in steps], np.int64),
        refuses=np.array([step.refuses for step in steps], np.int64),
    )
