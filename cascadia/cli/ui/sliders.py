"""The page's sliders: their stops, the spec's own value among them."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from cascadia.domain.cluster import Pool
from cascadia.domain.problem import Problem
from cascadia.report.names import gpu_label, printable

MOST_STOPS = 33
SECONDS = tuple(step * 10.0**k for k in range(-1, 3) for step in (1, 1.5, 2, 3, 4, 5, 7))


def sliders(problem: Problem) -> list[dict[str, Any]]:
    """Each with the key of `Asked` that it sets; `own` is the spec's value, null where it has no such bound."""
    objective, cluster = problem.objective, problem.cluster
    means = problem.quality.quality.mean(axis=1)
    bars = np.arange(np.floor(min(means.min(), objective.quality_min or 100.0)), means.max(), 0.5)
    every_usd = sum(pool.gpus * pool.usd_per_gpu_hour for pool in cluster.pools)
    rate = problem.workload.rate_rps
    return [
        _slider("quality_min", "Quality, at least", "", bars, objective.quality_min),
        _slider("rate_rps", "Requests a second", "/s", rate * 2.0 ** np.arange(-2, 2.01, 0.25), rate),
        *_gpus(cluster.pools),
        _slider(
            "budget_usd_per_hour",
            "Price, at most",
            "$/h",
            every_usd * np.arange(0.1, 2.01, 0.1),
            cluster.budget_usd_per_hour,
        ),
        _slider(
            "latency_max_s",
            f"Latency p{objective.quantile * 100:g}, at most",
            "s",
            SECONDS,
            objective.latency_max_s,
        ),
    ]


def _gpus(pools: Iterable[Pool]) -> Iterable[dict[str, Any]]:
    """A part of a node, or whole nodes up to twice those that there are."""
    for pool in pools:
        parts = list(range(1, pool.gpus_per_node + 1))
        whole = [n * pool.gpus_per_node for n in range(2, max(4, 2 * pool.nodes) + 1)]
        unit = "cores" if pool.gpu == "cpu" else f"{gpu_label(pool.gpu, {})} GPUs"
        stops = [*parts, *whole]
        kept = stops if len(stops) <= MOST_STOPS else stops[:: -(-len(stops) // MOST_STOPS)]
        found = {"key": "gpus", "pool": pool.name, "label": printable(pool.name), "unit": unit}
        yield {**found, "own": pool.gpus, "stops": sorted({*kept, pool.gpus})}


def _slider(key: str, label: str, unit: str, stops: Iterable[float], own: float | None) -> dict[str, Any]:
    rounded = {float(stop if key == "quality_min" else f"{stop:.2g}") for stop in stops}
    found = sorted({stop for stop in rounded if stop > 0} | ({own} if own is not None else set()))
    return {"key": key, "pool": None, "label": label, "unit": unit, "own": own, "stops": found}
