"""What matching lacks of Kairos' oracle consists of: one thing after another is taken away, in the paper's setting.

    python -m tests.benchmarks.bench_kairos_losses [--queries 2500] [--models NAME ...]

The oracle (section 7) has all queries at hand and sorted: nothing arrives, nobody waits. Each row is a rate over the
oracle's on the same instances, those that are best for matching:

- matching, as the router runs it: sizes and latencies known, Poisson arrivals, 64 looked at
- 16, and 1024 looked at
- latencies learnt, after 500 queries
- the oracle's rule on queries as they arrive: a free base instance takes the largest, another the smallest that it
  serves in time
- large queries alone, which the base type alone serves in time, in order; those that would be late are dropped. What
  this does not reach, no choice of places for the others gains
- matching, arrivals evenly spaced; and large and small ones in even turns too
- matching, four of each instance
"""

import argparse
import sys
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf
from unittest.mock import patch

import numpy as np

from cascadia.dispatch import matching as matching_module
from tests.benchmarks.bench_kairos import FEW, LEARNING, best_of, candidates
from tests.benchmarks.kairos_dispatch import (
    Config,
    Rule,
    Scene,
    kinds_of,
    matching,
    oracle_rps,
    served,
    sustained_rps,
)
from tests.benchmarks.kairos_setting import MODELS, Floats, like_metas
from tests.benchmarks.report_table import markdown


@dataclass
class AsOracle:
    """Of those who wait, who is free takes the largest (base type) or the smallest that it serves in time."""

    scene: Scene
    kinds: list[int]
    again_s: float = inf
    most_output: int = 1
    waiting: list[tuple[float, int]] = field(default_factory=list)
    free: set[int] = field(init=False)

    def __post_init__(self) -> None:
        self.free = set(range(len(self.kinds)))

    def came(self, request: int, input_tokens: int, now_s: float) -> None:
        insort(self.waiting, (float(self.scene.sizes[request]), request))

    def placed(self, now_s: float) -> list[tuple[int, int]]:
        begun = []
        for j in sorted(self.free):
            if not self.waiting:
                break
            kind = self.kinds[j]
            at = 0 if kind else -1
            if kind and self.scene.told_s[kind, self.waiting[0][1]] > self.scene.qos_s:
                continue
            begun.append((self.waiting.pop(at)[1], j))
        self.free -= {j for _, j in begun}
        return begun

    def ended(self, request: int, replica: int, output_tokens: int, now_s: float) -> None:
        self.free.add(replica)


def by_the_oracles_rule(scene: Scene, config: Config, arrival_s: Floats) -> Floats:
    kinds = kinds_of(config)
    reads, wrote = scene.sizes.astype(int).tolist(), [1] * scene.sizes.size
    rule = AsOracle(scene, kinds)
    return served(scene.seconds[kinds].tolist(), reads, wrote, arrival_s.tolist(), rule)  # type: ignore[arg-type]


def large_alone(scene: Scene, config: Config, arrival_s: Floats) -> Floats:
    """Latencies as if those that another type serves in time took nothing; the late are dropped."""
    others = [kind for kind in range(1, len(config)) if config[kind]]
    large = (scene.told_s[others] > scene.qos_s).all(axis=0)
    free, found = [0.0] * config[0], np.zeros(arrival_s.size)
    for query in np.flatnonzero(large).tolist():
        came_s, took_s = float(arrival_s[query]), float(scene.seconds[0, query])
        j = min(range(len(free)), key=free.__getitem__)
        begins_s = max(came_s, free[j])
        found[query] = begins_s + took_s - came_s
        if found[query] <= scene.qos_s:
            free[j] = begins_s + took_s
    return found


def in_even_turns(scene: Scene) -> Scene:
    """The same queries, so that any stretch of them has sizes like all (turns of the golden ratio)."""
    order, n = np.argsort(scene.sizes, kind="stable"), scene.sizes.size
    places = np.argsort(np.argsort(np.arange(n) * 0.6180339887498949 % 1.0))
    which = order[places]
    return replace(
        scene, sizes=scene.sizes[which], told_s=scene.told_s[:, which], seconds=scene.seconds[:, which]
    )


def looking_at(window: int) -> Rule:
    def rule(scene: Scene, config: Config, arrival_s: Floats) -> Floats:
        with patch.object(matching_module, "WINDOW", window), patch.object(matching_module, "PLACES", window):
            return matching(scene, config, arrival_s)

    return rule


def learnt(scene: Scene, config: Config, arrival_s: Floats) -> Floats:
    return matching(scene, config, arrival_s, learnt=True)[LEARNING:]


def losses(name: str, queries: int) -> tuple[Config, dict[str, float]]:
    few, scene = Scene.of(MODELS[name], like_metas(FEW)), Scene.of(MODELS[name], like_metas(queries))
    config = best_of(candidates(few), few, matching)
    spaced = replace(scene, gaps=np.ones(scene.gaps.size))
    four = tuple(4 * count for count in config)
    cases: dict[str, Callable[[], tuple[Scene, Config, Rule]]] = {
        "matching": lambda: (scene, config, matching),
        "16 looked at": lambda: (scene, config, looking_at(16)),
        "1024 looked at": lambda: (scene, config, looking_at(1024)),
        "latencies learnt": lambda: (scene, config, learnt),
        "the oracle's rule": lambda: (scene, config, by_the_oracles_rule),
        "large alone": lambda: (scene, config, large_alone),
        "evenly spaced": lambda: (spaced, config, matching),
        "and even turns": lambda: (in_even_turns(spaced), config, matching),
        "four of each": lambda: (scene, four, matching),
    }
    found = {}
    for case, of in cases.items():
        here, instances, rule = of()
        most = oracle_rps(here, instances)
        found[case] = sustained_rps(here, instances, rule, most * 1.3 if rule is large_alone else most) / most
        print(name, config, case, f"{found[case]:.2f}", file=sys.stderr, flush=True)
    return config, found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=2500)
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    options = parser.parse_args()
    rows, columns = [], ()
    for name in options.models:
        config, found = losses(name, options.queries)
        columns = tuple(found)
        rows.append((name, f"{config}", *(f"{share:.2f}" for share in found.values())))
    print(markdown(("model", "instances", *columns), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
