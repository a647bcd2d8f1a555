"""Dispatch by learnt lengths where prompts tell more or less of them: when it serves more than the least outstanding.

    python -m tests.benchmarks.bench_lengths [--requests 6000] [--first 0] [--fleets N ...] [--shuffled F ...]

The fleets of `bench_unequal`, and its rate: the highest at which 95 % of requests are answered within 15 s. A share of
the answers of `azure_2023_conv` change their lengths among each other, so that what a prompt tells falls from all that
it tells there to nothing; other public traces are as they are. "Trusted" goes by lengths always, "guarded" as the
router does: by the least outstanding while less than `LEAST_EXPLAINED` of the variance is told. "Explained" is the
share that was told of the last ones, each before it was there. Needs CASCADIA_DATA. Exits with 1 where the guarded rule
sustains less than 0.98 of the least outstanding.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from cascadia.dispatch.output_length import OutputLength
from cascadia.dispatch.seed import seed_of
from cascadia_sim.engine.requests import BadRequests
from tests.benchmarks.bench_dispatch import Load, azure, by_simulator, replicas_of, sustained_rps
from tests.benchmarks.bench_unequal import FLEETS, LEAST_ON_EQUAL, TRACES, Trusted, foreseen, matched
from tests.benchmarks.report_table import markdown

SHARES = (0.0, 0.1, 0.2, 0.4, 1.0)
RULES = ("trusted", "guarded", "matching")


def shuffled(load: Load, share: float) -> Load:
    """`share` of the answers, drawn at random, swap lengths."""
    rng = np.random.default_rng(0)
    which = np.flatnonzero(rng.random(load.wrote.size) < share)
    wrote = load.wrote.copy()
    wrote[which] = wrote[rng.permutation(which)]
    return replace(load, wrote=wrote)


def compared(
    fleet: tuple[tuple[str, int], ...], load: Load, rules: Sequence[str]
) -> tuple[float, float, list[float]]:
    """Share of the variance that is told, and the rates of least outstanding and of `rules`."""
    replicas = replicas_of(fleet, load)
    kinds = [name for name, count in fleet for _ in range(count)]
    timings = {kind: r.timing for kind, r in zip(kinds, replicas, strict=True)}
    lines = {kind: seed_of(timing, load.read, load.wrote) for kind, timing in timings.items()}
    most = sum(r.weight for r in replicas)
    by = partial(foreseen, replicas, kinds, lines, load)
    found = {
        "trusted": partial(by, lengths=Trusted),
        "guarded": by,
        "matching": partial(matched, replicas, kinds, lines, load),
    }
    least = sustained_rps(partial(by_simulator, replicas, load), load, most)
    return explained(load), least, [sustained_rps(found[rule], load, most) for rule in rules]


def explained(load: Load) -> float:
    """Share of the variance that is told once all were seen, each told before it was there."""
    length = OutputLength()
    for read, wrote in zip(load.read.tolist(), load.wrote.tolist(), strict=True):
        length.seen(read, wrote)
    return length.explained


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=6000)
    parser.add_argument("--first", type=int, default=0, help="Request that the trace begins with.")
    parser.add_argument("--fleets", type=int, nargs="*", default=list(range(len(FLEETS))))
    parser.add_argument("--shuffled", type=float, nargs="*", default=list(SHARES))
    parser.add_argument("--rules", nargs="*", default=list(RULES), choices=RULES)
    parser.add_argument("--traces", nargs="*", default=list(TRACES[1:]), help="Files of the public traces.")
    options = parser.parse_args()
    conversations = azure(options.requests, TRACES[0], options.first)
    loads = {
        f"{TRACES[0]}, {share:.0%} shuffled": shuffled(conversations, share) for share in options.shuffled
    }
    loads |= {name: azure(options.requests, name, options.first) for name in options.traces}
    rows, bad = [], False
    for name in (list(FLEETS)[i] for i in options.fleets):
        for load_name, load in loads.items():
            try:
                told, least, rates = compared(FLEETS[name], load, options.rules)
            except BadRequests as why:
                print(f"{name}, {load_name}: left out, {why}", file=sys.stderr, flush=True)
                continue
            ratios = {rule: rate / least for rule, rate in zip(options.rules, rates, strict=True)}
            bad |= any(ratio < LEAST_ON_EQUAL for rule, ratio in ratios.items() if rule != "trusted")
            rows.append(
                (
                    name,
                    load_name,
                    f"{told:.2f}",
                    f"{least:.1f}",
                    *(f"{ratio:.2f}" for ratio in ratios.values()),
                )
            )
            print(rows[-1], file=sys.stderr, flush=True)
    print(markdown(("fleet", "trace", "explained", "least outstanding", *options.rules), rows))
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
