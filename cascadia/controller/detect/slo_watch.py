"""SLO watch: holds the plan in force to its objective. Traffic need not have changed for it to be violated."""

from math import sqrt

import numpy as np

from cascadia.controller.detect.windows import Samples
from cascadia.domain.objective import Objective

LOOKED_AT_S = 600.0
SLACK = 0.02


def violation(samples: Samples, objective: Objective) -> str:
    """Violation of `objective`: why it is not kept for those who came in `samples`; empty where it is, or none
    was made.

    Who came and has no answer yet is late, so `samples` end a latency bound before now.
    """
    limit_s, asked = objective.latency_max_s, objective.quantile
    came = len(samples.arrivals_s)
    if limit_s is None or samples.e2e_s is None or not came:
        return ""
    kept = min(1.0, np.count_nonzero(samples.e2e_s <= limit_s) / came)
    # Arrivals and answers are sampled apart.
    chance = 3.0 * sqrt((asked * (1.0 - asked) + 2.0 * (1.0 - samples.ratio)) / came)
    if kept >= asked - SLACK - chance:
        return ""
    return f"{100 * kept:.0f} % of {came:,} requests had an answer in {limit_s:g} s, of the {100 * asked:g} % promised"
