"""What a gate is worth as the planner uses it: the cheapest routing that reaches a quality, on questions not chosen on.

Routings are chosen on one half of the questions, by their mean there, and told by what they do on the other half: mean
quality, and work as a share of sending everything to the last stage. Means over `SPLITS` splits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from cascadia.domain.quality import Floats, QualityTable
from cascadia.planner.routing.frontier import all_routings
from cascadia.planner.routing.routings import Routings, decisions
from tests.benchmarks.report_table import markdown

SPLITS = 20

Allowed = Callable[[Routings], np.ndarray]


def report(
    title: str,
    work: Sequence[float],
    kinds: Mapping[str, tuple[QualityTable, Allowed]],
    targets: Sequence[float],
) -> None:
    """`work` of an answer by stage. `kinds`: tables of the same questions, and which of their routings count."""
    print(f"\n### {title}\n")
    lines = []
    for target in targets:
        cells = []
        for table, allowed in kinds.values():
            found = [_chosen(table, allowed, np.array(work), target, seed) for seed in range(SPLITS)]
            there = [one for one in found if one is not None]
            quality, share = np.mean(there, axis=0) if len(there) == SPLITS else (np.nan, np.nan)
            cells.append("not reached" if np.isnan(share) else f"{100 * share:.0f} % ({quality:.1f})")
        lines.append((f"{target:g}", *cells))
    print(markdown(("quality wanted", *kinds), lines))


def _chosen(
    table: QualityTable, allowed: Allowed, work: Floats, target: float, seed: int
) -> tuple[float, float] | None:
    """Quality and work on the half that it was not chosen on; None where none reaches the target."""
    order = np.random.default_rng(seed).permutation(len(table))
    one, other = (rows(table, part) for part in np.array_split(order, 2))
    every = all_routings(one, exact_up_to=40_000)
    good = np.flatnonzero(allowed(every) & (every.mean >= target))
    if not len(good):
        return None
    best = good[np.lexsort((-every.mean[good], every.reached[good] @ work))[0]]
    does = decisions(other, every, int(best))
    quality = other.quality[does.answered_by, np.arange(len(other))].mean()
    return float(quality), float(does.reached.mean(axis=1) @ work / work[-1])


def rows(table: QualityTable, at: np.ndarray) -> QualityTable:
    return replace(
        table,
        prompt_ids=tuple(table.prompt_ids[i] for i in at.tolist()),
        **{
            name: getattr(table, name)[:, at]
            for name in ("score", "quality", "input_tokens", "output_tokens", "foreseen")
            if getattr(table, name) is not None
        },
    )


def every(routings: Routings) -> np.ndarray:
    return np.ones(len(routings), dtype=bool)


def whole(routings: Routings) -> np.ndarray:
    """All stages deployed, or the last alone."""
    alone = routings.deployed[:, -1] & (routings.deployed.sum(axis=1) == 1)
    return np.asarray(routings.deployed.all(axis=1) | alone)


def unscored(table: QualityTable) -> QualityTable:
    """As if no answer told anything: whoever is asked is accepted."""
    return replace(table, score=np.full_like(table.score, 50.0))
