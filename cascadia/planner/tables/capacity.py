"""Requests a second that one replica sustains: its throughput in steady state.

A replica holds up to `held` requests at once. Measured over fewer than several times as many, throughput is that of
the first batch, which begins together, pays hardly a prefill and never waits: too high by anything from 9 % to a
factor of 3. So as many requests are run as make the batch turn over `TURNOVERS` times, and the first `WARM_UP` of these
and the last requests, when the queue is empty, are left out. Where few requests write most of the tokens, a turnover
takes as much longer as what is in a batch is longer than what comes: E[x^2] / E[x]^2 for answers of x tokens (not of
pipelines, which take several times as long to simulate). Requests come in an order in which every stretch has the
same mix of lengths (`Load.evenly`), so that the figure is the load's and not that of a sample.

A replica without a pipeline does what it does when all requests are there at once. The batches of a pipeline keep the
sizes that they grew to: filled at one go they are equal, filled by and by they are not, and the largest then holds up
the others, by up to 40 %. What such a replica sustains is therefore the highest rate of arrivals that it also
finishes: from the throughput at hand downward, each next rate is what came of the one before.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cascadia.planner.tables.loads import Load
from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.iteration.timing import PS_PER_S, ReplicaTiming

Floats = NDArray[np.float64]

TURNOVERS, WARM_UP = 12, 4
LEAST_REQUESTS, LEAST_OF_A_PIPELINE = 2000, 1000
"""Where a replica holds few requests, more turnovers: so many are run. Pipelines take several times as long."""

MOST_LONGER = 8.0
ROUGHLY = 5
"""Turnovers from which a pipeline's first guess is taken."""

KEEPS_UP = 0.985
"""A pipeline keeps up with a rate of which it finishes this share..."""
LOWER = 0.995
ATTEMPTS = 10
"""...else the next rate is what it finished, less a little; at most so many are tried."""


@dataclass(eq=False)
class Sustained:
    """What replicas sustain, kept by shape and load: tables and certificates ask the same."""

    known: dict[tuple[int, str], tuple[ReplicaTiming, float]] = field(default_factory=dict)

    def rps(self, timing: ReplicaTiming, load: Load) -> float:
        key = (id(timing), load.digest)
        if key not in self.known:
            self.known[key] = timing, sustained_rps(timing, load)
        return self.known[key][1]


def sustained_rps(timing: ReplicaTiming, load: Load, *, times: int = 1) -> float:
    """Requests of `load` a second that a replica sustains for ever; infinite where they take no time.

    `times` as many requests are run as are thought enough.
    """
    held = held_at_once(timing, load)
    if timing.lanes == 1:
        least, turnover = LEAST_REQUESTS, held * _longer_in_a_batch(load)
    else:
        least, turnover = LEAST_OF_A_PIPELINE, float(held)
    sample = load.evenly(times * max(round(TURNOVERS * turnover), least))
    first = sample if timing.lanes == 1 else load.evenly(max(round(ROUGHLY * turnover), least))
    rate_rps = _throughput_rps(timing, first, held, np.zeros(len(first)))
    if timing.lanes == 1 or not np.isfinite(rate_rps):
        return rate_rps
    came = np.cumsum(_even_gaps(len(sample)))
    each = _slope(came[_window(len(sample), held)])
    for _ in range(ATTEMPTS):
        done_rps = _throughput_rps(timing, sample, held, came / rate_rps)
        if done_rps >= KEEPS_UP * rate_rps / each:
            break
        rate_rps = LOWER * done_rps
    return rate_rps


def held_at_once(timing: ReplicaTiming, load: Load) -> int:
    """Number of the load's requests that fill the replica: by sequences, or by the KV cache that they take on
    the way.
    """
    held = timing.lanes * timing.kv_tokens / max(load.held_tokens, 1.0)
    return int(min(max(held, 1), timing.max_num_seqs))


def _longer_in_a_batch(load: Load) -> float:
    wrote = load.output_tokens.astype(float)
    return min(float((wrote**2).mean() / wrote.mean() ** 2), MOST_LONGER)


def _throughput_rps(timing: ReplicaTiming, sample: Load, held: int, arrival_s: Floats) -> float:
    """Finishes a second, the first turnovers of the batch and the last one left out."""
    run = simulate_replica(
        timing,
        np.rint(arrival_s * PS_PER_S).astype(np.int64),
        sample.input_tokens,
        sample.output_tokens,
        sample.cached_tokens,
    )
    each_s = _slope(np.sort(run.finish_ps)[_window(len(sample), held)] / PS_PER_S)
    return 1.0 / each_s if each_s > 0 else np.inf


def _window(requests: int, held: int) -> slice:
    return slice(max(requests * WARM_UP // TURNOVERS, min(WARM_UP * held, requests // 2)), requests - held)


def _slope(times: Floats) -> float:
    """Mean step of `times`: requests finish in waves, so that the first and the last alone would tell too little."""
    place = np.arange(len(times)) - (len(times) - 1) / 2
    return float((times * place).sum() / (place**2).sum())


def _even_gaps(n: int) -> Floats:
    """Exponential gaps of mean 1 in an order in which every stretch of them has about that mean."""
    gaps: Floats = -np.log1p(-((np.arange(n) + 0.5) * np.sqrt(2) % 1.0))
    return gaps
