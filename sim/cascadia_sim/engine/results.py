"""Statistics of a run's times: quantiles, SLO attainment, throughput, and the number present at each moment.

A quantile q is the smallest latency that at least a share q of the requests keep (numpy's "inverted_cdf"):
one that was observed, never an interpolation, so that "p95 <= limit" and "attainment(limit) >= 0.95" are the
same.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cascadia_sim.iteration.timing import PS_PER_S, Ints

Floats = NDArray[np.float64]


def quantiles_ps(latency_ps: Ints, shares: Sequence[float]) -> Ints:
    """The quantile at each of `shares` (0-1). Raises `ValueError` where there is no request."""
    if latency_ps.size == 0:
        raise ValueError("no request, so no quantile of their latency; simulate at least one")
    return np.quantile(latency_ps, shares, method="inverted_cdf").astype(np.int64)


def quantile(values: Ints | Floats, share: float) -> float:
    """The quantile of one or more values at one share; by numpy's own function it takes ten times as long."""
    at = max(math.ceil(values.size * share - 1), 0)
    return float(np.partition(values, at)[at])


def attainment(latency_ps: Ints, limits_ps: Ints) -> Floats:
    """Share of the requests (0-1) that keep each of the limits; 1 where there is no request."""
    if latency_ps.size == 0:
        return np.ones(limits_ps.shape)
    return np.searchsorted(np.sort(latency_ps), limits_ps, side="right") / latency_ps.size


def span_s(arrival_ps: Ints, finish_ps: Ints) -> float:
    """Seconds from the first arrival to the last finish; 0 without requests."""
    return int(finish_ps.max() - arrival_ps.min()) / PS_PER_S if arrival_ps.size else 0.0


def throughput_rps(arrival_ps: Ints, finish_ps: Ints) -> float:
    """Requests finished per second of the span."""
    span = span_s(arrival_ps, finish_ps)
    return arrival_ps.size / span if span > 0 else 0.0


def tokens_per_s(tokens: Ints, arrival_ps: Ints, finish_ps: Ints) -> float:
    """Tokens (read or written, as given per request) per second of the span."""
    span = span_s(arrival_ps, finish_ps)
    return int(tokens.sum()) / span if span > 0 else 0.0


def present(entered_ps: Ints, left_ps: Ints, at_ps: Ints) -> Ints:
    """Number of requests present at each instant: entered by then, and not yet left.

    With arrivals and finishes: in the system; with arrivals and first tokens: waiting or in prefill; with
    first tokens and finishes: decoding.
    """
    entered = np.searchsorted(np.sort(entered_ps), at_ps, side="right")
    left = np.searchsorted(np.sort(left_ps), at_ps, side="right")
    return (entered - left).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class OverTime:
    """Counts [points] at evenly spaced instants from the first entry to the last exit."""

    at_s: Floats
    count: Ints


def over_time(entered_ps: Ints, left_ps: Ints, points: int = 200) -> OverTime:
    """`present` along the span, for a plot; empty without requests."""
    if entered_ps.size == 0:
        return OverTime(np.zeros(0), np.zeros(0, np.int64))
    at_ps = np.linspace(int(entered_ps.min()), int(left_ps.max()), points).astype(np.int64)
    return OverTime(at_ps / PS_PER_S, present(entered_ps, left_ps, at_ps))
