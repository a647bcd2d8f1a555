"""A cascade of changing replicas told in plain Python: each replica is a token-by-token `Twin`, run again and again.

An arrival is given to a replica by what all replicas have done up to that instant, and what a replica does up to then
depends on nobody who arrives later. So each arrival runs its group's replicas anew with all that they got before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cascadia_sim.timing import ReplicaTiming
from tests.unit.sim_engine.twin import run_twin


@dataclass
class Site:
    """Open from `opens_ps` until `closes_ps`."""

    group: int
    timing: ReplicaTiming
    weight: float
    opens_ps: int
    closes_ps: int
    got: list[tuple[int, int, int, int]] = field(default_factory=list)
    credit: float = 0.0

    def finishes_ps(self) -> list[int]:
        return [s.finish_ps for s in run_twin(self.timing, self.got)[0]] if self.got else []

    def load(self, now_ps: int) -> float:
        """Tokens of unfinished requests per weight."""
        left = zip(self.got, self.finishes_ps(), strict=True)
        return sum(read + wrote for (_, read, wrote, _), end in left if end > now_ps) / self.weight


REFUSED = -1


def serve(
    sites: Sequence[Site], by_load: bool, visits: Sequence[tuple[int, int, int]], most_load: float
) -> list[int]:
    """Finish times of `visits` (arrival, input, output) to the replicas of one group, in order of arrival."""
    chosen: list[tuple[Site, int]] = []
    for now_ps, read, wrote in visits:
        open_ = [s for s in sites if s.opens_ps <= now_ps < s.closes_ps]
        # Stragglers go to the one that closed last.
        open_ = open_ or [max((s for s in sites if s.closes_ps <= now_ps), key=lambda s: s.closes_ps)]
        site = _least(open_, now_ps) if by_load else _richest(open_)
        if site.load(now_ps) > most_load:
            chosen.append((site, REFUSED))
            continue
        chosen.append((site, len(site.got)))
        site.got.append((now_ps, read, wrote, 0))
    ends = {id(site): site.finishes_ps() for site in sites}
    return [REFUSED if at == REFUSED else ends[id(site)][at] for site, at in chosen]


def _least(sites: Sequence[Site], now_ps: int) -> Site:
    return min(sites, key=lambda s: s.load(now_ps))


def _richest(sites: Sequence[Site]) -> Site:
    for site in sites:
        site.credit += site.weight
    best = max(sites, key=lambda s: s.credit)
    best.credit -= sum(s.weight for s in sites)
    return best
