"""Outcomes of a comparison, as a DataFrame."""

import pandas as pd

from cascadia.planner.baselines.compare import Comparison

COLUMNS = (
    "latency_s",
    "slo_scale",
    "max_rate_rps",
    "usd_per_hour",
    "usd_per_1k_requests",
    "quality_mean",
    "quality_lower",
    "gpus",
    "deployment",
    "why",
)


def comparison_frame(found: Comparison) -> pd.DataFrame:
    """One row a system, in the comparison's order."""
    rows = [[getattr(outcome, name) for name in COLUMNS] for outcome in found.outcomes]
    names = pd.Index([outcome.name for outcome in found.outcomes], name="system")
    return pd.DataFrame(rows, index=names, columns=pd.Index(COLUMNS))
