"""SLO watch: holds the plan in force to its objective. Traffic need not have changed for it to be violated."""

from math import sqrt

import numpy as np

from cascadia.controller.detect.windows import Samples
from cascadia.domain.objective import Level, Objective
from cascadia.domain.workload import Floats

LOOKED_AT_S = 600.0
SLACK = 0.02


def violation(samples: Samples, objective: Objective) -> str:
    """Violation of `objective`: why its levels are not kept for those who came in `samples`; empty where they are, or
    there is none.

    Who came and has no answer yet is late, so `samples` end the deadline before now.
    """
    return next((why for level in objective.bounds if (why := _violated(samples, level))), "")


def _violated(samples: Samples, level: Level) -> str:
    took_s = _metric_s(samples, level)
    # What streams still is in no log: of its beginning nothing is known, but that its end is late is.
    came = len(samples.arrivals_s) if level.metric == "e2e" else len(samples)
    if took_s is None or not came:
        return ""
    kept = min(1.0, np.count_nonzero(took_s <= level.max_s) / came)
    asked = level.quantile
    # Arrivals and answers are sampled apart.
    chance = 3.0 * sqrt((asked * (1.0 - asked) + 2.0 * (1.0 - samples.ratio)) / came)
    if kept >= asked - SLACK - chance:
        return ""
    what = {"e2e": "an answer in", "ttft": "a first token in", "tpot": "each further token in"}[level.metric]
    return f"{100 * kept:.0f} % of {came:,} requests had {what} {level.max_s:g} s, of the {100 * asked:g} % promised"


def _metric_s(samples: Samples, level: Level) -> Floats | None:
    """Seconds [n] that clients saw, infinite where there was no answer; None where the log does not tell."""
    if level.metric == "e2e" or samples.e2e_s is None:
        return samples.e2e_s
    if level.metric == "ttft" or samples.ttft_s is None:
        return samples.ttft_s
    answered = np.isfinite(samples.e2e_s) & np.isfinite(samples.ttft_s)
    spread_s = np.where(answered, samples.e2e_s, 0.0) - np.where(answered, samples.ttft_s, 0.0)
    tokens = samples.output_tokens
    each_s = np.where(tokens > 1, spread_s / np.maximum(tokens - 1, 1), 0.0)
    return np.where(answered, each_s, np.inf)
