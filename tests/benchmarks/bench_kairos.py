"""Kairos' comparison of ways to dispatch queries to unequal instances (Figs 8, 9, 12, 15 and 16), in its setting.

    python -m tests.benchmarks.bench_kairos [--queries 2500] [--models NAME ...]

The setting, and what of it is ours, is in `kairos_setting.py`. A rate is the highest at which 99 % of queries are
answered within the target, by Poisson arrivals; it is told over that of the best homogeneous pool, with its unused
budget scaled up. Each rule gets the configuration that is best for it, of the best by the oracle and the best by first
come, first served, within $2.5 an hour. Ours is the router's own code (`balancing: matching` and `earliest-finish`).
Exits with 1 where matching is not above all other rules, or below 1.25 of homogeneous.
"""

import argparse
import sys
from collections.abc import Sequence

from tests.benchmarks.kairos_dispatch import (
    Config,
    Rule,
    Scene,
    bests,
    by_threshold,
    climbed,
    clockwork,
    configs,
    dollars,
    earliest_finish,
    first_come,
    first_come_rps,
    homogeneous_rps,
    matching,
    oracle_rps,
    sustained_rps,
    weakest_limit,
)
from tests.benchmarks.kairos_setting import BUDGET_USD, MODELS, Floats, Model, gaussian, like_metas
from tests.benchmarks.report_table import markdown

FEW = 600
"""Queries by which configurations are compared."""
LOOKED_AT = 4
"""Best configurations by each of two measures, of which each rule gets its best."""
LEAST = 1.25
LEARNING = 500
"""Queries before which nothing is asked of a rule that begins without a plan."""

RULES: dict[str, Rule] = {
    "Ribbon": first_come,
    "Clockwork": clockwork,
    "earliest finish": earliest_finish,
    "matching": matching,
}


def candidates(scene: Scene) -> list[Config]:
    among = configs(BUDGET_USD)
    found = bests(scene, among, oracle_rps, LOOKED_AT) + bests(scene, among, first_come_rps, LOOKED_AT)
    return list(dict.fromkeys(found))


def best_of(found: Sequence[Config], scene: Scene, rule: Rule) -> Config:
    return max(found, key=lambda config: sustained_rps(scene, config, rule, oracle_rps(scene, config), 5))


def by_limit(scene: Scene, config: Config, arrival_s: Floats) -> Floats:
    """DeepRecSys' rule before its threshold is sought."""
    return by_threshold(weakest_limit(scene, config))(scene, config, arrival_s)


def compared(scene: Scene, few: Scene) -> tuple[dict[str, float], dict[str, Config], int]:
    """Rate of each rule, its configuration, and how many thresholds DeepRecSys tried."""
    found, rates, chosen = candidates(few), {}, {}
    for name, rule in RULES.items():
        chosen[name] = best_of(found, few, rule)
        rates[name] = sustained_rps(scene, chosen[name], rule, oracle_rps(scene, chosen[name]))
        print(name, chosen[name], round(rates[name], 1), file=sys.stderr, flush=True)
    chosen["DeepRecSys"] = best_of(found, few, by_limit)
    rates["DeepRecSys"], tried = climbed(scene, chosen["DeepRecSys"], oracle_rps(scene, chosen["DeepRecSys"]))
    chosen["oracle"] = found[0]
    rates["oracle"] = oracle_rps(scene, found[0])
    return rates, chosen, tried


COLUMNS = ("Ribbon", "DeepRecSys", "Clockwork", "earliest finish", "matching", "oracle")


def models_table(models: Sequence[Model], queries: int) -> bool:
    rows, bad = [], False
    for model in models:
        scene, few = Scene.of(model, like_metas(queries)), Scene.of(model, like_metas(FEW))
        rates, chosen, tried = compared(scene, few)
        alike = homogeneous_rps(scene, BUDGET_USD)
        ratios = {name: rates[name] / alike for name in COLUMNS}
        others = max(ratios[name] for name in COLUMNS if name not in ("matching", "oracle"))
        bad |= ratios["matching"] < max(LEAST, others)
        there = rates["matching"] / oracle_rps(scene, chosen["matching"])
        rows.append(
            (
                model.name,
                *(f"{ratios[name]:.2f}" for name in COLUMNS),
                f"{there:.2f}",
                f"{chosen['matching']}",
            )
        )
        print(rows[-1], f"{tried} thresholds", file=sys.stderr, flush=True)
    print(markdown(("model", *COLUMNS, "matching / oracle there", "its configuration"), rows))
    return bad


def changes_table(model: Model, queries: int) -> None:
    """Matching over homogeneous where sizes, noise, target and budget are others; and chosen for other sizes."""
    metas, bell = like_metas(queries), gaussian(queries)
    few = Scene.of(model, like_metas(FEW))
    config = best_of(candidates(few), few, matching)
    few_bell = Scene.of(model, gaussian(FEW))
    anew = best_of(candidates(few_bell), few_bell, matching)
    four = tuple(4 * count for count in config)
    cases: list[tuple[str, Scene, Config, float, Rule]] = [
        ("as above", Scene.of(model, metas), config, BUDGET_USD, matching),
        ("5 % noise", Scene.of(model, metas, noise=0.05), config, BUDGET_USD, matching),
        ("no plan: learnt, after 500 queries", Scene.of(model, metas), config, BUDGET_USD, _learnt),
        ("target 20 % longer", Scene.of(model, metas, qos=1.2), config, BUDGET_USD, matching),
        ("four of each", Scene.of(model, metas), four, 4 * BUDGET_USD, matching),
        ("Gaussian sizes, old choice", Scene.of(model, bell), config, BUDGET_USD, matching),
        ("Gaussian sizes, chosen anew", Scene.of(model, bell), anew, BUDGET_USD, matching),
    ]
    rows = []
    for name, scene, one, budget, rule in cases:
        most = oracle_rps(scene, one)
        rate = sustained_rps(scene, one, rule, most)
        alike = homogeneous_rps(scene, budget)
        rows.append((name, f"{one}", f"{dollars(one):.2f}", f"{rate / alike:.2f}", f"{rate / most:.2f}"))
        print(rows[-1], file=sys.stderr, flush=True)
    print(markdown((model.name, "configuration", "$/h", "over homogeneous", "of the oracle"), rows))


def _learnt(scene: Scene, config: Config, arrival_s: Floats) -> Floats:
    latency_s = matching(scene, config, arrival_s, learnt=True)
    return latency_s[LEARNING:]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=2500)
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    options = parser.parse_args()
    bad = models_table([MODELS[name] for name in options.models], options.queries)
    changes_table(MODELS["RM2"], options.queries)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
