"""Context of the trace that a request belongs to, passed on to engines: W3C Trace Context, level 1.

No OpenTelemetry here: spans are made when the request is over (`observers/tracing.py`), but their numbers must be known
before, since engines name theirs after them.
"""

import random
import re
from contextvars import ContextVar

from cascadia.router.telemetry.stage_record import Step

FORWARDED: ContextVar[bytes] = ContextVar("forwarded", default=b"")
"""Header lines for an exchange with the judge, on behalf of the request under way."""

_PARENT = re.compile(rb"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_LATER = re.compile(rb"(?!00|ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
SAMPLED = 1


class Trace:
    """Trace context of one request. `parent_id` 0: it begins here. `others` are the header lines that engines
    get as they came.
    """

    __slots__ = ("others", "parent_id", "sampled", "span_id", "trace_id")

    def __init__(self, trace_id: int, parent_id: int, sampled: bool, others: bytes) -> None:
        self.trace_id = trace_id
        self.parent_id = parent_id
        self.sampled = sampled
        self.others = others
        self.span_id = random.getrandbits(64) or 1

    def forwarded(self, step: Step, *, judge: bool = False) -> bytes:
        """Header lines for the exchange of `step`, whose span (or its judge's) is the engine's parent."""
        span_id = random.getrandbits(64) or 1
        if judge:
            step.judge_span_id = span_id
        else:
            step.span_id = span_id
        parent = b"traceparent: 00-%032x-%016x-%02x\r\n" % (self.trace_id, span_id, self.sampled)
        return parent + self.others


def parent_of(traceparent: bytes) -> tuple[int, int, bool] | None:
    """Trace, span and whether it is sampled; None where the header is none. A later version is read as the first."""
    found = _PARENT.fullmatch(traceparent) or _LATER.fullmatch(traceparent)
    if found is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in found.groups())
    return (trace_id, span_id, bool(flags & SAMPLED)) if trace_id and span_id else None


def begin(traceparent: bytes, others: bytes, ratio: float, *, follow: bool) -> Trace:
    """`ratio` of the traces that begin here are sampled, told by their number as OpenTelemetry does, so that all
    services choose the same ones. `follow`: one that began elsewhere is sampled iff it was there."""
    parent = parent_of(traceparent)
    trace_id, parent_id, sampled = parent or (random.getrandbits(128) or 1, 0, False)
    if parent is None or not follow:
        sampled = (trace_id & (2**64 - 1)) < ratio * 2**64
    return Trace(trace_id, parent_id, sampled, others)
