"""How often plans with mixtures miss their quality bar, and what mixtures save, with judges of few levels.

Populations, tables drawn from them and the way to choose are `bench_guarantee`'s, but the judge's scores are rounded to
few levels, and beside the routings there are mixtures, whose bounds spend what the routings' leave. The hardest bars
lie just above what a routing truly has.

    python -m tests.benchmarks.bench_mixtures [--samples 300]

Prints a Markdown table; exits with 1 where plans miss a bar in more than 5 % of the samples.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cascadia.domain.quality import Floats, QualityTable
from cascadia.planner.routing.frontier import frontier
from cascadia.planner.routing.guarantee import lower_bounds
from cascadia.planner.routing.mixtures import bounded
from cascadia.planner.routing.routings import Routings, decided
from tests.benchmarks.bench_guarantee import CONFIDENCE, Cascade, cascades, drawn

LEVELS = (3, 5)
QUESTIONS = (300,)
HARDEST = 4
"""Of the hardest bars, so many, evenly spread."""


class Chosen(NamedTuple):
    """Of the population: quality, and cost of a prompt."""

    quality: float
    cost: float


class Both(NamedTuple):
    """The cheapest routing, and the cheapest of routings and mixtures; None where none holds the bar."""

    plain: Chosen | None
    mixed: Chosen | None


def coarse(cascade: Cascade, levels: int) -> Cascade:
    steps = levels - 1
    score = np.round(cascade.population.score * steps / 100) * 100 / steps
    return replace(cascade, population=replace(cascade.population, score=score))


def bars_of(cascade: Cascade) -> tuple[float, ...]:
    """Those set beforehand, then the hardest."""
    means = np.unique(frontier(cascade.population).mean)[:-1]
    at = np.unique(np.linspace(0, len(means) - 1, HARDEST).round().astype(int))
    return (*cascade.bars, *(float(mean) + 1e-6 for mean in means[at]))


def chosen(
    cascade: Cascade, table: QualityTable, plain: Routings, lower: Floats, bar: float
) -> tuple[Both, bool]:
    """And whether a mixture was chosen."""
    usd = np.array(cascade.cost)
    passing = np.flatnonzero(lower >= bar)
    best = passing[np.argmin(plain.reached[passing] @ usd)] if len(passing) else None
    without = None if best is None else true_of(cascade, plain, int(best))
    found = bounded(table, bar, CONFIDENCE, seed=0)
    if found is None:
        return Both(without, without), False
    mixed = found[0]
    good = np.flatnonzero(mixed.lower >= bar)
    cost = mixed.reached[good] @ usd
    if not len(good) or (best is not None and cost.min() >= plain.reached[best] @ usd):
        return Both(without, without), False
    return Both(without, true_of(cascade, mixed, int(good[cost.argmin()]))), True


def true_of(cascade: Cascade, routings: Routings, k: int) -> Chosen:
    """On the population; a mixture's is between its two routings'."""
    own = _alone(cascade, routings, k)
    if routings.mixed is None:
        return own
    share, other = float(routings.mixed.share[k]), _alone(cascade, routings.mixed.other, k)
    return Chosen(*((1 - share) * a + share * b for a, b in zip(own, other, strict=True)))


def _alone(cascade: Cascade, routings: Routings, k: int) -> Chosen:
    skips = None if routings.skip_below is None else routings.skip_below[k]
    done = decided(cascade.population, routings.deployed[k], routings.thresholds[k], skips)
    quality = cascade.population.quality[done.answered_by, np.arange(len(cascade.population))].mean()
    return Chosen(float(quality), float(done.reached.mean(axis=1) @ np.array(cascade.cost)))


HEAD = (
    "| cascade | levels | questions | bar | missed without mixtures | missed with | no plan without | no plan with "
    "| mixture chosen | cost with / without |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
)


def rows(cascade: Cascade, levels: int, questions: int, samples: int) -> Iterator[tuple[str, float]]:
    """Lines of the table, each with its share of samples that missed with mixtures."""
    bars = bars_of(cascade)
    found: list[list[Both]] = [[] for _ in bars]
    mixed = np.zeros(len(bars))
    for sample in range(samples):
        table = drawn(cascade.population, questions, np.random.default_rng((questions, sample)))
        plain = frontier(table)
        lower = lower_bounds(table, plain, CONFIDENCE, seed=0)[0]
        for at, bar in enumerate(bars):
            both, is_mixed = chosen(cascade, table, plain, lower, bar)
            found[at].append(both)
            mixed[at] += is_mixed
    for at, (bar, of_bar) in enumerate(zip(bars, found, strict=True)):
        told = [[c is not None and c.quality < bar - 1e-9 for c in way] for way in zip(*of_bar, strict=True)]
        none = [np.mean([c is None for c in way]) for way in zip(*of_bar, strict=True)]
        missed = [float(np.mean(of_way)) for of_way in told]
        ratio = [b.cost / a.cost for a, b in of_bar if a is not None and b is not None]
        saved = f"{np.exp(np.log(ratio).mean()):.2f}×" if ratio else "-"
        name = f"{bar:.2f}, hardest" if at >= len(cascade.bars) else f"{bar:g}"
        yield (
            f"| {cascade.name} | {levels} | {questions} | {name} | {missed[0]:.1%} | {missed[1]:.1%} | {none[0]:.1%} "
            f"| {none[1]:.1%} | {mixed[at] / samples:.1%} | {saved} |",
            missed[1],
        )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="how often plans with mixtures miss their quality bar")
    parser.add_argument("--samples", type=int, default=300, help="calibration tables per row (default 300)")
    samples: int = parser.parse_args(arguments).samples
    began = time.process_time()
    worst = 0.0
    print(HEAD)
    for cascade in cascades():
        for levels in LEVELS:
            for questions in QUESTIONS:
                for line, missed in rows(coarse(cascade, levels), levels, questions, samples):
                    print(line, flush=True)
                    worst = max(worst, missed)
    print(f"\n{samples} samples a row, {time.process_time() - began:.0f} s of CPU; most misses: {worst:.1%}")
    return int(worst > 1 - CONFIDENCE + 1e-9)


if __name__ == "__main__":
    sys.exit(main())
