"""Price of a token at each stage of a plan: the price of its GPUs' time over what they get done in it.

A stage's GPUs are paid for whether they are busy or not. What is told is the cost of a token where they are as busy as
the plan found that they can be, so that a stage which the plan keeps half idle does not look dear beside the others.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from cascadia.domain.plan import Plan, StagePrediction

HOUR_S = 3600.0
MILLION = 1e6
USD_PER_MILLION: Literal["usd-per-million-tokens"] = "usd-per-million-tokens"


class TokenCosts(NamedTuple):
    """Cost of a million tokens, read or written, by stage: in dollars, or where no GPU has a price in hours of
    a GPU.
    """

    in_usd: bool
    by_stage: Mapping[str, float]


def token_costs(plan: Plan) -> TokenCosts | None:
    """Token costs of the deployed stages; None where the plan does not say what one of them gets done."""
    deployed = [stage for stage in plan.stages if stage.deployed]
    sustained = _sustained(plan)
    # What an API charges depends on what is read and what is written, which no single price tells.
    away = any(stage.external is not None for stage in deployed)
    if not deployed or away or not all(sustained.values()):
        return None
    priced = {stage.name: plan.usd_per_hour_of(stage.replicas) for stage in deployed}
    in_usd = all(priced.values())
    if not in_usd and any(priced.values()):
        return None
    per_hour = priced if in_usd else {stage.name: float(stage.gpus) for stage in deployed}
    costs = {name: per_hour[name] / (HOUR_S * tokens_per_s) for name, tokens_per_s in sustained.items()}
    return TokenCosts(in_usd, {name: float(f"{MILLION * cost:.4g}") for name, cost in costs.items()})


def token_prices(plan: Plan) -> dict[str, tuple[float, float]]:
    """Dollars of a million tokens read and of a million written, of the deployed stages whose price is known: of its
    own GPUs' time, or what an API charges."""
    sustained = _sustained(plan)
    found = {}
    for stage in plan.stages:
        if stage.external is not None:
            api = stage.external
            found[stage.name] = api.usd_per_million_input_tokens, api.usd_per_million_output_tokens
        elif (
            stage.deployed
            and sustained[stage.name]
            and (usd_per_hour := plan.usd_per_hour_of(stage.replicas))
        ):
            usd = float(f"{MILLION * usd_per_hour / (HOUR_S * sustained[stage.name]):.4g}")
            found[stage.name] = usd, usd
    return found


def price_document(plan: Plan, stage: str) -> dict[str, float]:
    """Prices of `stage` as router.yaml has them; nothing where its one `cost` says them, or they are not known."""
    if all(each.external is None for each in plan.stages) or (price := token_prices(plan).get(stage)) is None:
        return {}
    return dict(zip(("usd_per_million_input_tokens", "usd_per_million_output_tokens"), price, strict=True))


def _sustained(plan: Plan) -> dict[str, float]:
    """Tokens a second that each deployed stage sustains; 0 where that is not known."""
    predicted = {stage.name: stage for stage in plan.predicted.stages}
    return {s.name: _tokens_per_s(predicted.get(s.name)) for s in plan.stages if s.deployed}


def _tokens_per_s(predicted: StagePrediction | None) -> float:
    """Tokens a second that the stage sustains; 0 where that is not known."""
    if predicted is None or not predicted.load:
        return 0.0
    return predicted.tokens_per_s / predicted.load
