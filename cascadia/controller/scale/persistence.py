"""Share of a burst that is still there when a replica started for it is ready, as bursts of the last hours tell.

A window of half a minute sees a jump soonest, and each burst as well. Which it is cannot be told from it, but that
jumps stay and bursts pass is a habit of a load: Azure's code doubles its rate for a minute every few, and a replica
that loads for four minutes was started for nothing each time. With x what a window held beyond the steady window that
ended with it, and y what came beyond that when a replica would have been ready, the share is the slope of y on x
through 0,

    sum x y / sum x^2,

over the windows whose x was at least half of what it is now: small bursts, and chance, say nothing of a jump. Before
there were enough of them, as of a load never seen before, all of it counts.
"""

import numpy as np

from cascadia.controller.scale.windows import STEADY_S
from cascadia.domain.workload import Floats

FEWEST_BURSTS = 3
"""Apart from each other."""
LIKE = 0.5
"""Part of the present burst that another must have been."""
STEPS = 2
"""Windows begin so many times in each."""


def share_that_stays(at_s: Floats, came: Floats, span_s: float, startup_s: float, more_rps: float) -> float:
    """The share (0-1) of `more_rps` beyond the steady rate. `came` [n]: how many requests had come by `at_s`, of the
    last hours."""
    first_s, last_s = float(at_s[0]) + STEADY_S, float(at_s[-1]) - startup_s - span_s
    ends_s = np.arange(first_s, last_s, span_s / STEPS)
    if not len(ends_s):
        return 1.0

    def rps(from_s: Floats, until_s: Floats) -> Floats:
        found: Floats = (np.interp(until_s, at_s, came) - np.interp(from_s, at_s, came)) / (until_s - from_s)
        return found

    steady = rps(ends_s - STEADY_S, ends_s)
    more = rps(ends_s - span_s, ends_s) - steady
    ready_s = ends_s + startup_s
    stays = rps(ready_s, ready_s + span_s) - steady
    like = more >= LIKE * more_rps
    # Windows that follow each other are one burst.
    if np.count_nonzero(like & ~np.append(False, like[:-1])) < FEWEST_BURSTS:
        return 1.0
    return float(np.clip((more * stays)[like].sum() / (more**2)[like].sum(), 0.0, 1.0))
