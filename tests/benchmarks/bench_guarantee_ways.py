"""Other bounds that the literature offers, on the same drawn tables, and what no bound can be cheaper than.

    python -m tests.benchmarks.bench_guarantee_ways [--samples 100]

Of each way the highest miss rate, and the price: the cost of a prompt over that of the plan by the mean, geometric over
tables and bars, where a table without a plan is charged the largest model alone. Beside them two limits that know the
population: `limit` is the cheapest routing that truly exceeds the bar by 1.645 standard errors of a table of that
size, which is what a routing needs to pass a valid test of its own half of the time; `tuned` is the mean less the
fewest standard errors, in tenths and for each bar apart, with which no more than 5 % of these very tables miss.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from cascadia.domain.quality import Floats, QualityTable
from cascadia.planner.routing.frontier import Routings, frontier, thin
from cascadia.planner.routing.guarantee import fixed_bounds, lower_bounds
from cascadia.planner.routing.routings import Bools, outcomes
from tests.benchmarks.bench_guarantee import (
    CONFIDENCE,
    QUESTIONS,
    ROUTINGS,
    Cascade,
    Choice,
    cascades,
    cost_of,
    drawn,
    hardest_bars,
    truth,
)

MISS = 1 - CONFIDENCE
Z = 1.6449
MARGINS = np.arange(0.0, 4.05, 0.1)
EVERY = 3
"""Of the hardest bars, each third."""

Passes = Callable[[float], Bools]
"""Which of the routings pass at a bar."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A drawn table, its routings by rising cost as planned, and how each prompt fares under each (k, m)."""

    table: QualityTable
    routings: Routings
    value: Floats

    @staticmethod
    def of(table: QualityTable, cost: tuple[float, ...]) -> "Sample":
        found = thin(frontier(table), ROUTINGS)
        found = found.take(np.argsort(found.reached @ np.array(cost), kind="stable"))
        return Sample(table, found, outcomes(table, found).astype(np.float64))

    @property
    def error(self) -> Floats:
        deviation: Floats = self.value.std(axis=1, ddof=1)
        return deviation / np.sqrt(len(self.table))


def walk(sample: Sample) -> Passes:
    """What `cascadia plan` does."""
    lower, _ = lower_bounds(sample.table, sample.routings, CONFIDENCE, seed=0)
    return lambda bar: lower >= bar


def fixed(sample: Sample) -> Passes:
    """Of one routing fixed beforehand: not valid after choosing."""
    lower = fixed_bounds(sample.table, sample.routings, CONFIDENCE, seed=0)
    return lambda bar: lower >= bar


def bernstein(sample: Sample) -> Passes:
    """Of one routing: Maurer and Pontil 2009, theorem 4."""
    count, log = len(sample.table), np.log(2 / MISS)
    variance = sample.value.var(axis=1, ddof=1)
    lower = sample.routings.mean - np.sqrt(2 * variance * log / count) - 700 * log / (3 * (count - 1))
    return lambda bar: lower >= bar


def betting(sample: Sample) -> Passes:
    """Of one routing: a capital that a bet against `quality <= bar` multiplies by 1 / 0.05 (Waudby-Smith and Ramdas
    2024, section 4, with their predictable plug-in bets)."""
    value = sample.value[:, np.random.default_rng(0).permutation(len(sample.table))] / 100
    count = value.shape[1]
    at = np.arange(1, count + 1)
    mean = (0.5 + np.cumsum(value, axis=1)) / (at + 1)
    variance = (0.25 + np.cumsum((value - mean) ** 2, axis=1)) / (at + 1)
    before = np.concatenate([np.full((len(value), 1), 0.25), variance[:, :-1]], axis=1)
    bet = np.sqrt(2 * np.log(1 / MISS) / (count * before))

    def passes(bar: float) -> Bools:
        gain = np.minimum(bet, 75 / bar) * (value - bar / 100)
        won: Bools = np.log1p(gain).cumsum(axis=1).max(axis=1) >= np.log(1 / MISS)
        return won

    return passes


def split(sample: Sample) -> Passes:
    """Half of the table orders the routings by mean, the other tests them in that order until one fails
    (Learn-then-Test, Angelopoulos et al. 2021, section 5, on a learnt path: Laufer-Goldshtein et al. 2023)."""
    order = np.random.default_rng(0).permutation(len(sample.table))
    half = len(order) // 2
    path = np.argsort(-sample.value[:, order[:half]].mean(axis=1), kind="stable")
    rest = order[half:]
    table = sample.table
    ids = tuple(table.prompt_ids[row] for row in rest)
    one = np.ones((len(table.stages), len(rest)))
    other = QualityTable(
        ids,
        table.stages,
        table.score[:, rest],
        quality=table.quality[:, rest],
        input_tokens=one,
        output_tokens=one,
    )
    mean = sample.value[:, rest].mean(axis=1)
    again = Routings(
        sample.routings.thresholds,
        sample.routings.deployed,
        sample.routings.reached,
        mean=mean,
        lower=np.zeros(len(mean)),
    )
    lower = fixed_bounds(other, again, CONFIDENCE, seed=0)

    def passes(bar: float) -> Bools:
        found = np.zeros(len(path), np.bool_)
        found[path] = np.logical_and.accumulate(lower[path] >= bar)
        return found

    return passes


WAYS: dict[str, Callable[[Sample], Passes]] = {
    "walk": walk,
    "split and walk a path": split,
    "Bernstein, one routing": bernstein,
    "betting, one routing": betting,
    "fixed, one routing": fixed,
}


class Population:
    """Quality and cost on the whole data set, of each choice once."""

    def __init__(self, cascade: Cascade) -> None:
        self.cascade = cascade
        self._known: dict[tuple[bytes, bytes], tuple[float, float]] = {}

    def of(self, routings: Routings, passing: Bools) -> tuple[float, float]:
        """Of the cheapest that passes: NaN where none does."""
        if not passing.any():
            return np.nan, np.nan
        k = int(passing.argmax())
        choice = Choice(routings.thresholds[k], routings.deployed[k])
        key = choice.thresholds.tobytes(), choice.deployed.tobytes()
        if key not in self._known:
            self._known[key] = truth(self.cascade.population, choice)[0], cost_of(self.cascade, choice)
        return self._known[key]


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Of one way: quality and cost (tables, bars) of its plans on the population."""

    quality: Floats
    cost: Floats

    @staticmethod
    def of(pairs: list[list[tuple[float, float]]]) -> "Found":
        both = np.array(pairs)
        return Found(both[..., 0], both[..., 1])

    def missed(self, bars: Floats) -> Floats:
        share: Floats = (self.quality < bars - 1e-9).mean(axis=0)
        return share

    def price(self, mean: "Found", largest: float) -> Floats:
        """Of each bar, over the tables with a plan by the mean."""
        ratio = np.where(np.isnan(self.cost), largest, self.cost) / mean.cost
        price: Floats = np.exp(np.nanmean(np.log(ratio), axis=0))
        return price


def limits(cascade: Cascade, questions: int, bars: Floats, mean: Found) -> Floats:
    """Of each bar; NaN where nothing is that much better."""
    every = thin(frontier(cascade.population), 100_000)
    deviation = outcomes(cascade.population, every).std(axis=1, dtype=np.float64)
    sure = every.mean - Z * deviation / np.sqrt(questions)
    cost = every.reached @ np.array(cascade.cost)
    cheapest = np.array([cost[sure >= bar].min() if (sure >= bar).any() else np.nan for bar in bars])
    return np.asarray(cheapest / np.exp(np.nanmean(np.log(mean.cost), axis=0)))


def rows(cascade: Cascade, questions: int, samples: int) -> Iterator[str]:
    bars = np.array([*cascade.bars, *hardest_bars(cascade)[::EVERY]])
    population = Population(cascade)
    told: dict[str, list[list[tuple[float, float]]]] = {name: [] for name in WAYS}
    margins: list[list[list[tuple[float, float]]]] = [[] for _ in MARGINS]
    for number in range(samples):
        rng = np.random.default_rng((questions, number))
        sample = Sample.of(drawn(cascade.population, questions, rng), cascade.cost)
        for name, way in WAYS.items():
            passes = way(sample)
            told[name].append([population.of(sample.routings, passes(bar)) for bar in bars])
        for margin, kept in zip(MARGINS, margins, strict=True):
            lower = sample.routings.mean - margin * sample.error
            kept.append([population.of(sample.routings, lower >= bar) for bar in bars])
    tuned = [Found.of(pairs) for pairs in margins]
    mean = tuned[0]
    largest = cascade.cost[-1]
    first = f"| {cascade.name} | {questions}"
    for name, pairs in told.items():
        found = Found.of(pairs)
        yield row(first, name, found.missed(bars), found.price(mean, largest), len(cascade.bars))
    prices = np.full(len(bars), np.nan)
    for found in reversed(tuned):
        prices = np.where(found.missed(bars) <= MISS, found.price(mean, largest), prices)
    yield row(first, "tuned", np.full(len(bars), np.nan), prices, len(cascade.bars))
    yield row(
        first, "limit", np.full(len(bars), np.nan), limits(cascade, questions, bars, mean), len(cascade.bars)
    )


def row(first: str, name: str, missed: Floats, price: Floats, beforehand: int) -> str:
    """Price at each bar set beforehand, and the geometric mean at the hardest ones."""
    hardest = price[beforehand:]
    hardest = hardest[np.isfinite(hardest)]
    at = [f"{x:.2f}×" if np.isfinite(x) else "none" for x in price[:beforehand]]
    hard = f"{np.exp(np.log(hardest).mean()):.2f}×" if len(hardest) else "none"
    worst = f"{np.max(missed):.1%}" if np.isfinite(missed).any() else "-"
    return f"{first} | {name} | {worst} | {' | '.join(at)} | {hard} |"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="other bounds on the same drawn tables, and their limits")
    parser.add_argument("--samples", type=int, default=100, help="tables per cascade and size (default 100)")
    samples: int = parser.parse_args(arguments).samples
    print("| cascade | questions | way | most misses | first bar | second | third | fourth | hardest |")
    print("|---|--:|---|--:|--:|--:|--:|--:|--:|")
    for cascade in cascades():
        for questions in QUESTIONS:
            for line in rows(cascade, questions, samples):
                print(line, flush=True)


if __name__ == "__main__":
    main()
