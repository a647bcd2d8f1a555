"""Thresholds of least cost whose quality holds with confidence, beside today's and beside the largest stage alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cascadia.domain.errors import BadInput, Infeasible
from cascadia.domain.quality import QualityTable
from cascadia.planner.routing.frontier import all_routings
from cascadia.planner.routing.guarantee import with_bounds
from cascadia.planner.routing.routings import thin
from cascadia.router.settings.model import RouterSettings, TokenCost, token_costs
from cascadia.thresholds.outcome import Estimate, Outcome, estimate, largest_alone, outcome

PER = 1000
"""Requests that costs are told for."""
MOST_ROUTINGS = 2000
FEWEST_PROMPTS = 50


@dataclass(frozen=True, slots=True)
class Setting:
    """`thresholds` by stage, with the cost of 1,000 requests, mean quality, and the share that each stage answers."""

    thresholds: dict[str, float]
    cost: Estimate
    quality: Estimate
    answered: dict[str, float]


@dataclass(frozen=True, slots=True)
class Proposal:
    """`saved` and `gained` are of `proposed` against `now`, `saved_to_large` and `gained_to_large` of today's against
    the largest stage alone, per 1,000 requests and in points of quality. `lower` holds for the proposed thresholds
    with `confidence`. Costs are dollars where `in_usd`."""

    now: Setting
    proposed: Setting
    large: Setting
    saved: Estimate
    gained: Estimate
    saved_to_large: Estimate
    gained_to_large: Estimate
    lower: float
    confidence: float
    quality_min: float
    prompts: int
    in_usd: bool


def propose(
    settings: RouterSettings, table: QualityTable, *, quality_min: float, confidence: float, seed: int = 0
) -> Proposal:
    """The proposal for a router with `settings`, on a table of its stages in their order.

    Raises `Infeasible` where no thresholds hold `quality_min`, and `BadInput` for a router whose thresholds are not its
    stages' own, or that knows no prices.
    """
    _check(settings, table)
    prices, in_usd = _prices(settings)
    today = [stage.threshold for stage in settings.stages[:-1]]
    whole = all_routings(table, keep_worse=False)
    # A router asks all of its stages; a routing without one of them is another plan.
    served = whole.take(np.flatnonzero(whole.deployed.all(axis=1)))
    bounded, _ = with_bounds(table, thin(served, MOST_ROUTINGS), confidence, seed)
    holds = np.flatnonzero(bounded.lower >= quality_min)
    if not len(holds):
        best = float(bounded.lower.max())
        raise Infeasible(
            "quality", f"the best thresholds hold {best:.1f}; lower --quality-min to that, or add prompts"
        )
    found = [outcome(table, bounded.thresholds[k].tolist(), prices) for k in holds]
    chosen = int(np.argmin([each.cost.mean() for each in found]))
    levels = bounded.thresholds[holds[chosen]].tolist()
    now, then, large = outcome(table, today, prices), found[chosen], largest_alone(table, prices)
    return Proposal(
        _setting(table, today, now),
        _setting(table, levels, then),
        _setting(table, [], large),
        saved=_per(now.cost - then.cost),
        gained=estimate(then.quality - now.quality),
        saved_to_large=_per(large.cost - now.cost),
        gained_to_large=estimate(now.quality - large.quality),
        lower=float(bounded.lower[holds[chosen]]),
        confidence=confidence,
        quality_min=quality_min,
        prompts=len(table),
        in_usd=in_usd,
    )


def _check(settings: RouterSettings, table: QualityTable) -> None:
    if settings.gears or settings.mixture is not None:
        what = "its thresholds are those of gears or of a mixture, which a plan sets together"
        raise BadInput("router.yaml", what, "plan anew: `cascadia plan`, or let the controller")
    if len(settings.stages) < 2:
        raise BadInput("router.yaml", "has one stage, and so no threshold", "name a router of a cascade")
    if len(table) < FEWEST_PROMPTS:
        raise BadInput(
            "table", f"{len(table)} prompts that all stages answered", f"gather {FEWEST_PROMPTS} or more"
        )


def _prices(settings: RouterSettings) -> tuple[list[TokenCost], bool]:
    """Prices of a token by stage, and whether they are dollars; else they are costs on the scale that stages share."""
    costs = token_costs(settings.stages)
    if unpriced := [stage.name for stage, cost in zip(settings.stages, costs, strict=True) if cost is None]:
        instead = (
            "write usd_per_million_input_tokens and usd_per_million_output_tokens of all stages, or `cost`"
        )
        raise BadInput("router.yaml", f"no price of {', '.join(unpriced)}", instead)
    known = [(cost[0] / 1e6, cost[1] / 1e6) for cost in costs if cost is not None]
    return known, all(stage.price is not None for stage in settings.stages)


def _setting(table: QualityTable, thresholds: Sequence[float], found: Outcome) -> Setting:
    return Setting(
        dict(zip(table.stages, thresholds, strict=False)),
        _per(found.cost),
        estimate(found.quality),
        dict(zip(table.stages, found.answered.tolist(), strict=True)),
    )


def _per(cost: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Estimate:
    mean, margin = estimate(cost)
    return Estimate(PER * mean, PER * margin)
