"""The ladder beside every assignment of gears, and beside random ones at twice its time (CascadeServe, figure 10).

    python -m tests.benchmarks.bench_gears_search [--quick]

Cases are those of `bench_gear_plans` for best quality within a bound on latency, on the replicas of the plan with one
setting. Each ladder is played on its whole trace by the router's rule. Told is the best quality where a part of the
lateness that may be is left in hand, as ours does where it can, and in brackets where nothing is left.

every      eight candidates spread by quality, five ranges of requests under way with borders at fixed quantiles of what
           the best single setting has under way: all chains whose work does not rise with load
random     two to six candidates and borders drawn by chance among what is under way, for twice the CPU time of ours
ours       `find_ladder`, up to eight gears

Exits with 1 where one of them, with as much in hand, is better than ours by more than `WITHIN` points.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations_with_replacement, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from cascadia.domain.gear import Ladder
from cascadia.planner.deployment.measures import latencies_s
from cascadia.planner.gears.candidates import Candidates, candidates
from cascadia.planner.gears.ladder import Goals, find_ladder, load_of, rising, under_way
from cascadia.planner.gears.played import Decided, play
from cascadia.planner.plan import PlanResult, plan
from tests.benchmarks.bench_gear_plans import Case, cases
from tests.benchmarks.report_table import markdown

AMONG, QUANTILES = 8, (0.3, 0.6, 0.85, 0.95)
MOST_GEARS, TIMES, SEED = 6, 2.0, 0
WITHIN = 0.1
"""Points of quality."""

Setting = tuple[tuple[int, ...], tuple[float, ...]]
"""Candidates by gear, the heaviest first, and borders in requests under way."""


class Outcome(NamedTuple):
    """Lower bound on quality, and the share that is too late."""

    quality: float
    late: float


class Found(NamedTuple):
    """The best with lateness left in hand, and the best of all in time."""

    in_hand: Outcome
    whole: Outcome
    plays: int
    cpu_s: float


class Scene:
    """A plan's replicas and its trace, on which ladders are played."""

    def __init__(self, result: PlanResult) -> None:
        self.result = result
        self.own_s = latencies_s(result.run)
        self.goals = Goals.of(result.search.problem, float(np.quantile(self.own_s, 0.95)))
        self._decided = Decided(result.search.routings, result.simulator)
        known = load_of(result.search, self.own_s)
        assert known is not None
        calmest = known.levels[0].rate_rps / result.search.problem.workload.rate_rps
        self.among = candidates(result.search, result.chosen.deployment, self.goals.floor, calmest)

    def played(self, among: Candidates, setting: Setting) -> tuple[float, float, np.ndarray]:
        """Lower bound on quality, share late, and what each request met under way."""
        gears, borders = setting
        routings = [int(among.routings[k]) for k in gears]
        decided = [self._decided(k) for k in routings]
        run = play(self.result.simulator, self.result.chosen.deployment, decided, Ladder(borders))
        share = np.bincount(run.gear, minlength=len(gears)) / len(run.gear)
        quality = float(share @ self.result.search.routings.lower[routings])
        return quality, float((run.latency_s > self.goals.bound_s).mean()), under_way(run)

    def best(self, among: Candidates, settings: Iterator[Setting]) -> Found:
        """The best quality of those that are in time; the least late where none is."""
        began = time.process_time()
        seen = [Outcome(*self.played(among, setting)[:2]) for setting in settings]
        return self._found(seen, time.process_time() - began)

    def _found(self, seen: Sequence[Outcome], cpu_s: float) -> Found:
        in_hand, whole = (
            max(seen, key=partial(self.rank, late=late)) for late in (self.goals.safe, self.goals.late)
        )
        return Found(in_hand, whole, len(seen), cpu_s)

    @staticmethod
    def rank(outcome: Outcome, late: float) -> tuple[float, float]:
        return -max(outcome.late - late, 0.0), outcome.quality

    def ours(self) -> tuple[Outcome, float]:
        """With the CPU seconds that it takes."""
        began = time.process_time()
        deployment = self.result.chosen.deployment
        found = find_ladder(self.result.search, self.result.simulator, deployment, self.own_s, self.goals)
        assert found is not None, "no ladder is better than one setting"
        return Outcome(found.quality_lower, found.late), time.process_time() - began

    def alone(self) -> tuple[Found, np.ndarray]:
        """The best single settings, and what is under way on the one with lateness in hand."""
        began = time.process_time()
        played = [self.played(self.among, ((k,), ())) for k in range(len(self.among))]
        seen = [Outcome(quality, late) for quality, late, _ in played]
        found = self._found(seen, time.process_time() - began)
        return found, played[seen.index(found.in_hand)][2]


def thinned(scene: Scene) -> Candidates:
    """`AMONG` of the candidates, spread by quality, still by falling work."""
    lower = scene.result.search.routings.lower[scene.among.routings]
    order = np.argsort(lower, kind="stable")
    at = order[np.linspace(0, len(order) - 1, min(AMONG, len(order))).round().astype(int)]
    return scene.among.take(np.isin(np.arange(len(order)), at))


def laddered(chain: Sequence[int], borders: Sequence[float]) -> Setting:
    """A chain of one gear a range, with neighbours that are alike as one."""
    changes = [n for n, (a, b) in enumerate(pairwise(chain)) if a != b]
    return (chain[0], *(chain[n + 1] for n in changes)), tuple(borders[n] for n in changes)


def every(count: int, borders: Sequence[float]) -> Iterator[Setting]:
    for chain in combinations_with_replacement(range(count), len(borders) + 1):
        yield laddered(chain, borders)


def by_chance(count: int, met: np.ndarray, cpu_s: float) -> Iterator[Setting]:
    rng, until = np.random.default_rng(SEED), time.process_time() + cpu_s
    most = max(int(met.max()), MOST_GEARS)
    while time.process_time() < until:
        gears = np.sort(rng.choice(count, size=min(rng.integers(2, MOST_GEARS + 1), count), replace=False))
        borders = np.sort(rng.choice(np.arange(1, 2 * most), size=len(gears) - 1, replace=False))
        yield tuple(gears.tolist()), tuple(borders.astype(float).tolist())


def row(case: Case) -> tuple[list[str], bool]:
    scene = Scene(plan(replace(case.problem, gears=1)))
    single, met = scene.alone()
    ours, cpu_s = scene.ours()
    few = thinned(scene)
    exhaustive = scene.best(few, every(len(few), rising(np.quantile(met, QUANTILES))))
    random = scene.best(scene.among, by_chance(len(scene.among), met, TIMES * cpu_s))
    cells = [case.name, shown(single), f"{told(ours)}, {cpu_s:.1f} s", shown(exhaustive), shown(random)]
    allowed = scene.goals.safe + 1e-9
    others = [found.in_hand.quality for found in (exhaustive, random) if found.in_hand.late <= allowed]
    return cells, ours.quality >= max(others, default=0.0) - WITHIN


def told(outcome: Outcome) -> str:
    return f"{outcome.quality:.2f}, {100 * outcome.late:.2f} % late"


def shown(found: Found) -> str:
    return f"{told(found.in_hand)} ({told(found.whole)}), {found.plays} played, {found.cpu_s:.1f} s"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="spikes only")
    arguments = parser.parse_args()
    held = True
    print(markdown(("case", "best alone", "ours", "every", "random"), []), flush=True)
    with TemporaryDirectory() as folder:
        for case in cases(Path(folder), quick=arguments.quick):
            if case.problem.objective.goal == "quality":
                cells, kept = row(case)
                held &= kept
                print(f"| {' | '.join(cells)} |", flush=True)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
