"""Traffic that a plan is made for: that since a change, though little of it has been seen."""

from dataclasses import replace

import numpy as np

from cascadia.controller.detect.windows import Samples
from cascadia_traces.trace import Trace, join

SPAN_S = 900.0
"""A replica that gets 3 % more than it can do looks well for minutes. So plans are simulated on at least this much."""
MOST_REQUESTS = 60_000
SURE = 1.645
"""Standard errors above the rate that was seen: in one case of twenty more comes than is planned for."""
COUNTED_S = 30.0


def rate_to_plan_rps(samples: Samples) -> float:
    """The upper end of a one-sided 95 % interval of the rate, by how unsteadily requests came."""
    came_s = samples.arrivals_s
    span_s = max(float(came_s[-1] - came_s[0]), 1e-3)
    # The last window is cut short by now, and would look like a lull.
    counts = np.bincount(((came_s - came_s[0]) // COUNTED_S).astype(np.int64))[:-1]
    dispersion = max(1.0, float(counts.var() / counts.mean())) if len(counts) > 1 else 1.0
    return float(len(came_s) + SURE * np.sqrt(dispersion * len(came_s))) / span_s / samples.ratio


def trace_to_plan(samples: Samples, most: int, rate_rps: float) -> Trace:
    """The latest `most` requests at `rate_rps`, end to end with themselves until they last `SPAN_S`."""
    part = slice(max(0, len(samples) - most), None)
    arrival_s = samples.arrival_s[part]
    once = Trace(arrival_s - arrival_s[0], samples.input_tokens[part], samples.output_tokens[part])
    if once.duration_s == 0.0:
        return once
    once = once.scaled(rate_rps)
    # n requests have n - 1 gaps between them: the seam gets one of mean length.
    period_s = once.duration_s * len(once) / (len(once) - 1)
    copies = max(1, min(int(np.ceil(SPAN_S / period_s)), MOST_REQUESTS // len(once)))
    return join(
        [Trace(once.arrival_s + k * period_s, once.input_tokens, once.output_tokens) for k in range(copies)]
    )


def with_prefixes(trace: Trace, before: Trace) -> Trace:
    """The workload log does not tell which tokens earlier requests shared: `trace` with as large a share of its input
    as `before` had."""
    if before.prefix_tokens is None:
        return trace
    share = float(before.prefix_tokens.sum() / before.input_tokens.sum())
    return replace(trace, prefix_tokens=np.floor(share * trace.input_tokens).astype(np.int64))
