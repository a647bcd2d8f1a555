"""Unequal replicas: the rate that each rule of dispatch sustains, and what a choice costs.

    python -m tests.benchmarks.bench_unequal [--requests 12000] [--fleets N ...] [--trace FILE]

Stages that serve Llama-3.1-8B with the lengths and arrivals of a public trace, its time scaled. For each fleet and
rule, the highest rate at which 95 % of requests are answered within 15 s. "Learnt" is `balancing: earliest-finish` as
the router runs it: from the plan's coefficients on, with lengths learnt from the answers seen so far. "Matching" is
`balancing: matching` so, with as many places at a replica as its batch has. "Known" is told each answer's length.
Needs CASCADIA_DATA. Exits with 1 where learnt lengths sustain less than 0.98 of the least
outstanding on equal replicas.
"""

import argparse
import sys
import timeit
from collections.abc import Callable
from functools import partial
from time import process_time

import numpy as np

from cascadia.dispatch.candidate import Asked
from cascadia.dispatch.earliest_finish import EarliestFinish, Trial
from cascadia.dispatch.latency_model import NOTHING_KNOWN, Coefficients, LatencyModel, Seen
from cascadia.dispatch.least_outstanding import LeastOutstanding
from cascadia.dispatch.matching import PLACES, WINDOW, Matching
from cascadia.dispatch.output_length import CELLS, Expected, OutputLength
from cascadia.dispatch.seed import seed_of
from cascadia.dispatch.simulated import Known, Queued, Simulated, SimulatedMatching
from cascadia_sim.cascade.stage import Replica, simulate_stage
from cascadia_sim.iteration.timing import Ints
from tests.benchmarks.bench_dispatch import LATENCY_S, Load, azure, by_simulator, replicas_of, sustained_rps
from tests.benchmarks.report_table import markdown

FLEETS: dict[str, tuple[tuple[str, int], ...]] = {
    "4 × H100 + 5 × L40S": (("h100-sxm", 4), ("l40s", 5)),
    "2 × H100 + 14 × L40S": (("h100-sxm", 2), ("l40s", 14)),
    "3 × H100 + 6 × A100": (("h100-sxm", 3), ("a100-sxm-80gb", 6)),
    "2 × H200 + 4 × L40S + 4 × L4": (("h200-sxm", 2), ("l40s", 4), ("l4", 4)),
    "8 × H100": (("h100-sxm", 8),),
}
TRACES = ("azure_2023_conv.csv", "azure_2023_code.csv", "mooncake_conversation.jsonl.gz")
LEAST_ON_EQUAL = 0.98


class Told(OutputLength):
    """The length of each answer, known beforehand."""

    __slots__ = ("lengths", "next")

    def __init__(self, lengths: list[int]) -> None:
        super().__init__(tells=True)
        self.lengths = lengths
        self.next = 0

    def expected(self, tokens: int, most: int | None = None) -> Expected:
        wrote = self.lengths[self.next]
        return Expected(wrote, wrote)


class Trusted(OutputLength):
    """Lengths that choices go by however little is told of them."""

    __slots__ = ()

    def __init__(self, cells: int = CELLS) -> None:
        super().__init__(cells, tells=True)

    def _judge(self) -> None:
        """Makes none."""


class KnownLengths(Simulated):
    """As `Simulated`, told which request it is that is asked about."""

    def choose(self, request: int, input_tokens: int, now_s: float) -> int:
        assert isinstance(self.rule.length, Told)
        self.rule.length.next = request
        return Simulated.choose(self, request, input_tokens, now_s)


def foreseen(
    replicas: list[Replica], kinds: list[str], lines: dict[str, Coefficients], load: Load, arrival_ps: Ints,
    *, lengths: Callable[[], OutputLength] = OutputLength,
) -> Ints:  # fmt: skip
    """Latencies [n], in ps, under the earliest finish; without `lines` nothing is known beforehand."""
    models = {kind: LatencyModel(line, seeded=True) for kind, line in lines.items()}
    length = lengths()
    known = isinstance(length, Told)
    views = [Known(f"{i}", kind, r.weight) for i, (kind, r) in enumerate(zip(kinds, replicas, strict=True))]
    rule = (KnownLengths if known else Simulated)(EarliestFinish(models, length), views, LATENCY_S)
    none = np.zeros(arrival_ps.size, np.int64)
    run = simulate_stage(replicas, "least-outstanding", arrival_ps, load.read, load.wrote, none, rule=rule)
    return run.finish_ps - arrival_ps


def matched(
    replicas: list[Replica], kinds: list[str], lines: dict[str, Coefficients], load: Load, arrival_ps: Ints
) -> Ints:
    """As `foreseen`, by matching."""
    models = {kind: LatencyModel(line, seeded=True) for kind, line in lines.items()}
    views = [
        Known(f"{i}", kind, r.weight, max_concurrency=r.timing.max_num_seqs)
        for i, (kind, r) in enumerate(zip(kinds, replicas, strict=True))
    ]
    none = np.zeros(arrival_ps.size, np.int64)
    rule = SimulatedMatching(Matching(models), views, LATENCY_S)
    run = simulate_stage(replicas, "least-outstanding", arrival_ps, load.read, load.wrote, none, rule=rule)
    return run.finish_ps - arrival_ps


def in_turn(replicas: list[Replica], load: Load, arrival_ps: Ints) -> Ints:
    none = np.zeros(arrival_ps.size, np.int64)
    return (
        simulate_stage(replicas, "round-robin", arrival_ps, load.read, load.wrote, none).finish_ps
        - arrival_ps
    )


def rules(fleet: tuple[tuple[str, int], ...], load: Load) -> tuple[dict[str, Callable[[Ints], Ints]], float]:
    replicas = replicas_of(fleet, load)
    kinds = [name for name, count in fleet for _ in range(count)]
    timings = {kind: r.timing for kind, r in zip(kinds, replicas, strict=True)}
    lines = {kind: seed_of(timing, load.read, load.wrote) for kind, timing in timings.items()}
    by = partial(foreseen, replicas, kinds, lines, load)
    found: dict[str, Callable[[Ints], Ints]] = {
        "round robin": partial(in_turn, replicas, load),
        "least outstanding": partial(by_simulator, replicas, load),
        "learnt": by,
        "matching": partial(matched, replicas, kinds, lines, load),
        "learnt, 1 cell": partial(by, lengths=partial(Trusted, 1)),
        "learnt, 4 cells": partial(by, lengths=partial(Trusted, 4)),
        "learnt, no plan": partial(foreseen, replicas, kinds, {}, load),
        "known": partial(by, lengths=partial(Told, load.wrote.tolist())),
    }
    return found, sum(r.weight for r in replicas)


def length_errors(load: Load, cells: int) -> tuple[float, float, float]:
    """Median relative error of the mean foreseen, the share of the lengths' variance that it explains, and the share
    of answers above the high quantile."""
    length, told, above = OutputLength(cells), [], 0
    for read, wrote in zip(load.read.tolist(), load.wrote.tolist(), strict=True):
        mean, high = length.expected(read)
        told.append(mean)
        above += wrote > high
        length.seen(read, wrote)
    missed = np.array(told) - load.wrote
    explained = 1 - float((missed**2).mean() / load.wrote.var())
    return float(np.median(np.abs(missed) / load.wrote)), explained, above / len(told)


class View:
    """A replica as the router has it: plain attributes."""

    __slots__ = ("kind", "load", "name", "outstanding_tokens", "weight")

    def __init__(self, number: int, kinds: int) -> None:
        self.name, self.kind, self.weight = f"{number}", f"{number % kinds}", 1.0
        self.outstanding_tokens, self.load = 37 * number % 91, float(7 * number % 13)


def choice_us(replicas: int, kinds: int, *, crowded: bool = False) -> tuple[float, float]:
    """CPU time of a choice by the earliest finish, and by the least outstanding. `crowded`: the fast ones have so much
    in hand that replicas of all kinds are looked at."""
    views = [View(i, kinds) for i in range(replicas)]
    for view in views:
        view.load += 40.0 * (kinds - 1 - int(view.kind)) ** 2 if crowded else 0.0
    slower = [1.0 + 2.0 * k for k in range(kinds)]
    rule = EarliestFinish({
        f"{k}": LatencyModel(Coefficients(*(slower[k] * part for part in NOTHING_KNOWN)), seeded=True)
        for k in range(kinds)
    })  # fmt: skip
    for k in range(500):
        seconds = slower[k % kinds] * (0.1 + (100 + k % 50) * 0.0206)
        rule.ended(Trial(f"{k % kinds}", Seen(k % 400 + 1, 3.0), 256), 100 + k % 50, seconds)
    assert rule.choose(views, Asked(300, left_s=LATENCY_S)) >= 0
    assert rule.relied == (kinds > 1)
    least, times = LeastOutstanding(), 2000
    both = (lambda: rule.choose(views, Asked(300, left_s=LATENCY_S)), lambda: least.choose(views, 300))
    first, second = (
        min(timeit.repeat(one, number=times, repeat=15, timer=process_time)) / times * 1e6 for one in both
    )
    return first, second


def match_us(waiting: int, replicas: int, kinds: int) -> float:
    """CPU time of a match of so many with one place at each of so many replicas."""
    views = [Known(f"{i}", f"{i % kinds}", max_concurrency=1) for i in range(replicas)]
    rule = Matching({f"{k}": LatencyModel(seeded=True) for k in range(kinds)}, OutputLength(tells=True))
    queued = [Queued(i, Asked(100 + 7 * i, None, None, LATENCY_S), 0.0) for i in range(waiting)]

    def one() -> None:
        for each in queued:
            each.overtaken = 0
        rule.looks(views)
        rule.match(queued, views, 0.0)

    return min(timeit.repeat(one, number=50, repeat=9, timer=process_time)) / 50 * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=12_000)
    parser.add_argument("--trace", default=TRACES[0], help="File of the public traces.")
    parser.add_argument("--fleets", type=int, nargs="*", default=list(range(len(FLEETS))))
    options = parser.parse_args()
    load, bad, rows = azure(options.requests, options.trace), False, []
    names = list(FLEETS)
    columns: tuple[str, ...] = ()
    for name in (names[i] for i in options.fleets):
        found, most = rules(FLEETS[name], load)
        columns = ("fleet", *found, "learnt / least")
        rates = {rule: sustained_rps(latency, load, most) for rule, latency in found.items()}
        ratio = rates["learnt"] / rates["least outstanding"]
        ratios = [rates[rule] / rates["least outstanding"] for rule in ("learnt", "matching")]
        bad |= len(FLEETS[name]) == 1 and min(ratios) < LEAST_ON_EQUAL
        rows.append((name, *(f"{rate:.1f}" for rate in rates.values()), f"{ratio:.2f}"))
        print(rows[-1], file=sys.stderr, flush=True)
    print(markdown(columns, rows))
    for cells in (1, 4, CELLS):
        error, explained, above = length_errors(load, cells)
        print(
            f"{cells} cells: an answer's length is off by {error:.0%} (median), {explained:.0%} of its variance is "
            f"explained, {above:.1%} above the high quantile"
        )
    for replicas, kinds in ((2, 1), (9, 2), (32, 1), (32, 2), (32, 4)):
        first, second = choice_us(replicas, kinds)
        crowded, _ = choice_us(replicas, kinds, crowded=True)
        print(
            f"a choice among {replicas} of {kinds} kinds: {first:.1f} µs (least outstanding {second:.1f} µs; "
            f"{crowded:.1f} µs where all kinds are looked at)"
        )
    for waiting, replicas, kinds in ((2, 2, 2), (8, 9, 2), (WINDOW, 9, 2), (WINDOW, PLACES, 4)):
        print(
            f"a match of {waiting} with {replicas} of {kinds} kinds: {match_us(waiting, replicas, kinds):.0f} µs"
        )
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
