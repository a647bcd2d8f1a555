"""Sweeps of what exits are told (Apparate section 4.5), on the ramps and texts of `bench_exits`.

    python -m tests.benchmarks.bench_exits_sweeps [--streams 5] [--kept FILE]

The constraint on the risk; the ramp budget; the batch, which is what an SLO on the answer leaves room for; the style
of ramps: all places, or behind whole layers alone; Apparate's adjustment switched off. Streams of 6,000, all fed back.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from cascadia.exits.adjust import Budget
from cascadia.exits.certify import Promise
from cascadia.exits.choose import path_of
from cascadia.exits.readings import Readings
from cascadia.exits.stream import Run, by_apparate, by_certificate
from cascadia.exits.timing import Timing
from tests.benchmarks.bench_exits import BUDGET, INPUTS, kept_rig
from tests.benchmarks.exits_ways import RISK
from tests.benchmarks.report_table import markdown

CONSTRAINTS, BUDGETS = (0.005, 0.01, 0.02, 0.05), (0.01, 0.02, 0.05, 0.10)
ONE_IN_TWO = slice(1, None, 2)
"""Places of a BERT alternate: behind a block of attention, behind a whole layer."""


def ours(known: dict, timings: Sequence[Timing], at: int, risk: float, budget: float, seed: int) -> Run:
    active, path = path_of(known["calibration"], timings[at], risk, Budget(tuple(timings), budget))
    return by_certificate(
        drawn(known["fresh"], seed), timings[at], active, path, Promise(risk), np.ones(INPUTS, dtype=np.bool_)
    )


def drawn(fresh: Readings, seed: int) -> Readings:
    return fresh.take(np.random.default_rng(seed).integers(0, len(fresh), INPUTS))


def layers_alone(known: dict) -> tuple[dict, tuple[Timing, ...]]:
    """Ramps behind whole layers; the segments between are joined."""
    kept = tuple(range(known["calibration"].ramps))[ONE_IN_TWO]
    timings = []
    for one in known["timings"]:
        ends = np.cumsum(one.segments_s)
        parts = np.diff([0.0, *(ends[k] for k in kept), ends[-1]])
        timings.append(Timing(one.batch, tuple(parts.tolist()), tuple(one.ramps_s[k] for k in kept)))
    some = {name: known[name].at(kept) for name in ("calibration", "fresh")}
    return known | some, tuple(timings)


def rows(known: dict, streams: int) -> Iterator[list[str]]:
    timings = known["timings"]

    def told(what: str, value: str, runs: Sequence[Run], risk: float) -> list[str]:
        mean = np.mean([1 - one.time.mean() for one in runs])
        half = np.mean([1 - np.median(one.time) for one in runs])
        late = np.mean([np.quantile(one.time, 0.95) - 1 for one in runs])
        lost = np.mean([one.differs.mean() for one in runs])
        over = np.mean([one.differs.mean() > risk for one in runs])
        return [what, value, f"{mean:.1%}", f"{half:.1%}", f"{late:+.1%}", f"{lost:.2%}", f"{over:.0%}"]

    seeds = range(streams)
    for risk in CONSTRAINTS:
        runs = [ours(known, timings, 0, risk, BUDGET, seed) for seed in seeds]
        yield told("constraint", f"{risk:.1%}", runs, risk)
    for budget in BUDGETS:
        runs = [ours(known, timings, 0, RISK, budget, seed) for seed in seeds]
        yield told("ramp budget", f"{budget:.0%}", runs, RISK)
    for at, timing in enumerate(timings):
        runs = [ours(known, timings, at, RISK, BUDGET, seed) for seed in seeds]
        yield told("batch that the SLO leaves", f"{timing.batch}", runs, RISK)
    some, joined = layers_alone(known)
    yield told("ramps", "behind layers alone", [ours(some, joined, 0, RISK, BUDGET, s) for s in seeds], RISK)
    for adjusts in (True, False):
        runs = [
            by_apparate(
                drawn(known["fresh"], s), timings[0], Budget(tuple(timings), BUDGET), RISK, adjusts=adjusts
            )
            for s in seeds
        ]
        yield told("Apparate's loop", "adjusts" if adjusts else "does not adjust", runs, RISK)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=5, help="streams of each setting")
    parser.add_argument("--kept", type=Path, help="file that keeps the readings between runs")
    options = parser.parse_args()
    columns = ("what", "value", "mean saved", "median saved", "p95", "risk", "streams above")
    print(markdown(columns, list(rows(kept_rig(options.kept), options.streams))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
