"""A made-up trace: arrivals and lengths drawn from independent streams of one seed."""

from collections.abc import Iterator

import numpy as np

from cascadia_traces.errors import BadInput
from cascadia_traces.generate.arrivals import Arrivals
from cascadia_traces.generate.lengths import Lengths
from cascadia_traces.trace import Trace, join


def generate(
    arrivals: Arrivals,
    lengths: Lengths,
    seed: int = 0,
    *,
    requests: int | None = None,
    duration_s: float | None = None,
) -> Trace:
    """A trace of `requests` requests, or of those that come before `duration_s`, or whichever ends first.

    The same arguments give the same trace, bit for bit; arrivals don't change with the lengths, nor the other
    way round. Raises BadInput where no request comes.
    """
    return join(list(generate_chunks(arrivals, lengths, seed, requests=requests, duration_s=duration_s)))


def generate_chunks(
    arrivals: Arrivals,
    lengths: Lengths,
    seed: int = 0,
    *,
    requests: int | None = None,
    duration_s: float | None = None,
    rows: int = 1_000_000,
) -> Iterator[Trace]:
    """The trace that `generate` gives, in parts of at most `rows` requests."""
    if requests is None and duration_s is None:
        raise BadInput("trace", "it has no end", "give the number of requests, or the duration")
    if requests is not None and requests < 1:
        raise BadInput("requests", f"{requests} is out of range", "write a number from 1 on")
    if seed < 0:
        raise BadInput("seed", f"{seed} is out of range", "write a number from 0 on")
    arrival_rng, length_rng = np.random.default_rng(seed).spawn(2)
    left = requests
    for times in arrivals.times(arrival_rng, rows if left is None else min(rows, left)):
        stop = len(times) if left is None else min(left, len(times))
        if duration_s is not None:
            stop = min(stop, int(np.searchsorted(times, duration_s)))
        if stop == 0:
            break
        drawn = lengths.draw(length_rng, stop)
        yield Trace(times[:stop], drawn.input_tokens, drawn.output_tokens)
        left = None if left is None else left - stop
        if left == 0 or stop < len(times):
            return
    if left == requests:
        raise BadInput("duration_s", f"no request comes within {duration_s:g} s", "make it longer")
