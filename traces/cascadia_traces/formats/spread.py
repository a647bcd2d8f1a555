"""Requests whose times were rounded to a tick, laid over that tick at random.

Mooncake's times are multiples of 3 s (to a few ms), and `created` in OpenAI objects is in whole seconds.
Taken as they stand, such a trace is a row of stampedes that never happened: mooncake_conversation has 10
requests at each tick, and an index of dispersion per second of 7.9 instead of 1.05. Within its tick a
request's true time is unknown, so it is drawn uniformly.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from cascadia_traces.checks import Floats
from cascadia_traces.trace import Trace, join

COARSER_S = ((3600.0, 2), (60.0, 3))
"""Ticks of programs that leave out minutes or seconds, and how many after the first request's a log has to have: by
chance whole seconds are one once in 60, or in 3,600."""
ROUNDING_S = 0.01
"""How far from a multiple a time may be; Mooncake's are up to 3 ms off."""


def spread_ticks(
    chunks: Iterator[Trace], tick_s: float, seed: int, note: Callable[[str], None]
) -> Iterator[Trace]:
    """The same requests, those of a tick uniform within it; unchanged if the first chunk is not on ticks.

    The last tick of a chunk is held back until it is complete, so that chunks don't show in the result.
    """
    first = next(chunks)
    if not on_ticks(first.arrival_s, tick_s):
        yield first
        yield from chunks
        return
    tick_s = next(
        (coarser for coarser, least in COARSER_S if _met(first.arrival_s, coarser) >= least), tick_s
    )
    note(f"times are rounded to {tick_s:g} s: spread over it at random (seed {seed})")
    rng = np.random.default_rng(seed)
    held: list[Trace] = [first]
    for chunk in chunks:
        if _tick(chunk.arrival_s[-1:], tick_s)[0] > _tick(held[0].arrival_s[:1], tick_s)[0]:
            known = join([*held, chunk])
            ticks = _tick(known.arrival_s, tick_s)
            complete = int(np.searchsorted(ticks, ticks[-1]))
            yield _laid_out(known.rows(0, complete), tick_s, rng)
            held = [known.rows(complete, len(known))]
        else:
            held.append(chunk)
    yield _laid_out(join(held), tick_s, rng)


def on_ticks(arrival_s: Floats, tick_s: float) -> bool:
    """Tells whether all times are multiples of the tick, and some are equal."""
    off_s = np.abs(arrival_s - _tick(arrival_s, tick_s) * tick_s)
    return bool(off_s.max() <= ROUNDING_S) and bool((np.diff(arrival_s) == 0).any())


def _met(arrival_s: Floats, tick_s: float) -> int:
    """How many ticks after 0 there are; 0 where some request is on none."""
    return len(np.unique(_tick(arrival_s, tick_s))) - 1 if on_ticks(arrival_s, tick_s) else 0


def _tick(arrival_s: Floats, tick_s: float) -> Floats:
    return np.round(arrival_s / tick_s)


def _laid_out(trace: Trace, tick_s: float, rng: np.random.Generator) -> Trace:
    # Sorting tick plus uniform sorts within ticks only.
    arrival_s = np.sort(_tick(trace.arrival_s, tick_s) + rng.random(len(trace))) * tick_s
    return replace(trace, arrival_s=arrival_s)
