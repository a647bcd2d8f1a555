"""Statistics of a trace, from one pass over its parts in memory that does not grow with them."""

from collections.abc import Iterable
from dataclasses import KW_ONLY, asdict, dataclass
from itertools import chain
from typing import Any

import numpy as np

from cascadia_traces.errors import BadInput
from cascadia_traces.statistics.burstiness import Burstiness, RateSeries, WindowCounts
from cascadia_traces.statistics.correlation import LengthPairs
from cascadia_traces.statistics.histogram import LengthHistogram
from cascadia_traces.statistics.moments import Moments
from cascadia_traces.trace import Trace

WINDOWS_S = (0.1, 1.0, 10.0, 60.0, 600.0)
SLICE_REQUESTS = 1 << 16
"""Summed up at a time: what is in between fits in the processor's cache, and in little memory."""

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)


@dataclass(frozen=True, slots=True, eq=False)
class TraceSummary:
    """The figures of a trace. A figure that is not defined for it is None.

    `windows` tells the burstiness in windows of WINDOWS_S, where the trace is long enough. `gap_cv` is the
    coefficient of variation of the gaps between arrivals. `pearson_log` correlates the logarithms of input
    and output lengths, `spearman` their ranks (up to a million requests). `prefix_share` is the share of
    input tokens that an earlier request had as its prefix. `sample` holds (input, output) lengths of up to
    2,048 requests, evenly picked.
    """

    requests: int
    duration_s: float
    gap_cv: float | None
    _: KW_ONLY
    windows: tuple[Burstiness, ...]
    input_tokens: LengthHistogram
    output_tokens: LengthHistogram
    pearson_log: float | None
    spearman: float | None
    prefix_share: float | None
    rate: RateSeries
    sample: list[tuple[int, int]]

    @property
    def per_second(self) -> Burstiness | None:
        return self._per(1.0)

    @property
    def rate_rps(self) -> float:
        return self.requests / self.duration_s if self.duration_s > 0 else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Numbers and texts only, for JSON; without what is there for plots."""
        return {
            "requests": self.requests,
            "duration_s": self.duration_s,
            "rate_rps": self.rate_rps,
            "gap_cv": self.gap_cv,
            "windows": [asdict(window) for window in self.windows],
            "input_tokens": _lengths(self.input_tokens),
            "output_tokens": _lengths(self.output_tokens),
            "pearson_log": self.pearson_log,
            "spearman": self.spearman,
            "prefix_share": self.prefix_share,
        }

    def _per(self, window_s: float) -> Burstiness | None:
        return next((window for window in self.windows if window.window_s == window_s), None)


def summarise(chunks: Trace | Iterable[Trace]) -> TraceSummary:
    """The summary of a trace, given whole or as its consecutive parts."""
    parts = iter([chunks] if isinstance(chunks, Trace) else chunks)
    first = next(parts, None)
    if first is None:
        raise BadInput("trace", "it holds no requests", "give at least one request")
    summing = _Summing(float(first.arrival_s[0]))
    for chunk in chain([first], parts):
        for start in range(0, len(chunk), SLICE_REQUESTS):
            summing.add(chunk.rows(start, start + SLICE_REQUESTS))
    return summing.summary()


class _Summing:
    """A summary in the making."""

    def __init__(self, start_s: float) -> None:
        self.start_s = self.last_s = start_s
        self.requests = 0
        self.gaps = Moments()
        self.windows = [WindowCounts(window_s) for window_s in WINDOWS_S]
        self.rate = RateSeries()
        self.inputs = LengthHistogram.empty()
        self.outputs = LengthHistogram.empty()
        self.pairs = LengthPairs()
        self.prefix_tokens: float | None = 0.0

    def add(self, chunk: Trace) -> None:
        if chunk.arrival_s[0] < self.last_s:
            raise BadInput("trace", "a part starts before the one ahead of it ends", "order the parts")
        # The first request has no gap before it.
        gaps_s = np.diff(chunk.arrival_s, prepend=self.last_s)[0 if self.requests else 1 :]
        self.gaps += Moments.of(gaps_s, gaps_s)
        since_start_s = chunk.arrival_s - self.start_s
        for window in self.windows:
            window.add(since_start_s)
        self.rate.add(since_start_s)
        self.inputs += LengthHistogram.of(chunk.input_tokens)
        self.outputs += LengthHistogram.of(chunk.output_tokens)
        self.pairs.add(chunk)
        if chunk.prefix_tokens is None or self.prefix_tokens is None:
            self.prefix_tokens = None
        else:
            self.prefix_tokens += float(chunk.prefix_tokens.sum())
        self.requests += len(chunk)
        self.last_s = float(chunk.arrival_s[-1])

    def summary(self) -> TraceSummary:
        return TraceSummary(
            self.requests,
            self.last_s - self.start_s,
            self.gaps.cv_x,
            windows=tuple(found for counts in self.windows if (found := counts.burstiness()) is not None),
            input_tokens=self.inputs,
            output_tokens=self.outputs,
            pearson_log=self.pairs.logs.correlation,
            spearman=self.pairs.spearman(),
            prefix_share=None if self.prefix_tokens is None else self.prefix_tokens / self.inputs.total,
            rate=self.rate,
            sample=self.pairs.sample,
        )


def _lengths(histogram: LengthHistogram) -> dict[str, float | int]:
    return {
        "mean": histogram.mean,
        "cv": histogram.cv,
        "min": histogram.smallest,
        **{f"p{round(q * 100):02d}": histogram.quantile(q) for q in QUANTILES},
        "max": histogram.largest,
    }
