"""A stage behind somebody else's API: no queue of ours, times of its own, and at most so many requests a minute."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cascadia_sim.cascade.stage import StageRun
from cascadia_sim.engine.arrays import Apis
from cascadia_sim.iteration.timing import MINUTE_PS, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Elsewhere:
    """Picoseconds [n] from sending each request to its first token, and to its last; `per_minute` None: no limit."""

    first_ps: Ints
    whole_ps: Ints
    per_minute: int | None = None


def simulate_elsewhere(api: Elsewhere, who: Ints, arrival_ps: Ints) -> StageRun:
    """Serves `who` [m] of all requests, who come at `arrival_ps` [m], in any order.

    They wait here until their sending keeps the limit, first come, first served.
    """
    order = np.argsort(arrival_ps, kind="stable")
    sent_ps = np.empty_like(arrival_ps)
    sent_ps[order] = _sent(arrival_ps[order], api.per_minute)
    first_ps, finish_ps = sent_ps + api.first_ps[who], sent_ps + api.whole_ps[who]
    span_ps = int(finish_ps.max() - arrival_ps.min()) if who.size else 0
    return StageRun(np.zeros(who.size, np.int64), first_ps, finish_ps, np.zeros(1, np.int64), 0, span_ps)


def _sent(arrival_ps: Ints, per_minute: int | None) -> Ints:
    """Times of sending; arrivals in order. None is sent less than a minute after the `per_minute`-th before it."""
    sent_ps = arrival_ps.copy()
    if per_minute is not None:
        for at in range(per_minute, sent_ps.size, per_minute):
            now = sent_ps[at : at + per_minute]
            np.maximum(now, sent_ps[at - per_minute : at - per_minute + now.size] + MINUTE_PS, out=now)
    return sent_ps


def apis_of(groups: Sequence[Elsewhere | None]) -> Apis:
    """Groups as the kernel has them, None for those with replicas; times of visits are the caller's to add."""
    places = [0 if api is None else api.per_minute or 0 for api in groups]
    return Apis(
        np.array([api is not None for api in groups], np.bool_),
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
        np.cumsum([0, *places], dtype=np.int64),
        np.full(sum(places), -MINUTE_PS, np.int64),
        np.zeros(len(groups), np.int64),
    )
