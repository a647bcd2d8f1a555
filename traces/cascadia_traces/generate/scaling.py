"""A trace at another rate, in parts: first its span is measured, then every part is stretched."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cascadia_traces.checks import LATEST_S
from cascadia_traces.errors import BadInput
from cascadia_traces.trace import Trace


class Span(NamedTuple):
    """Number of requests, and the times of the first arrival and the last."""

    requests: int
    first_s: float
    last_s: float

    @property
    def rate_rps(self) -> float:
        """Mean rate as Trace.rate_rps has it: 0 where all come at once."""
        return self.requests / (self.last_s - self.first_s) if self.last_s > self.first_s else 0.0


def rate_span(chunks: Iterable[Trace]) -> Span:
    """The span of a trace from its consecutive parts."""
    requests, first_s, last_s = 0, None, 0.0
    for chunk in chunks:
        requests += len(chunk)
        first_s = float(chunk.arrival_s[0]) if first_s is None else first_s
        last_s = float(chunk.arrival_s[-1])
    return Span(requests, first_s or 0.0, last_s)


def stretch(span: Span, rate_rps: float) -> float:
    """Factor by which to multiply times since the first arrival so that the mean rate becomes `rate_rps`."""
    if not 0 < rate_rps < float("inf"):
        raise BadInput("rate", f"{rate_rps:g} is not a rate", "write a finite number above 0")
    if span.rate_rps == 0:
        raise BadInput("trace", "all requests arrive at once: no rate to scale", "give times that differ")
    factor = span.rate_rps / rate_rps
    last_s = span.first_s + (span.last_s - span.first_s) * factor
    if last_s > LATEST_S:
        what = f"at {rate_rps:g} requests/s the last would arrive at {last_s:g} s, beyond {LATEST_S:g} s"
        raise BadInput("rate", what, "write a higher rate")
    return factor


def scaled(chunks: Iterable[Trace], span: Span, rate_rps: float) -> Iterator[Trace]:
    """The parts of a trace of that span, stretched so that `rate_rps` is the mean rate of the whole."""
    factor = stretch(span, rate_rps)
    return (chunk.stretched(factor, span.first_s) for chunk in chunks)
