"""A cascade of changing replicas told in plain Python: each replica is a token-by-token `Twin`, run again and again.

An arrival is given to a replica by what all replicas have done up to that instant, and what a replica does up to then
depends on nobody who arrives later. So each arrival runs its group's replicas anew with all that they got before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cascadia.dispatch.answer_length import AnswerLength
from cascadia.dispatch.least_outstanding import LeastOutstanding
from cascadia_sim.iteration.timing import ReplicaTiming
from tests.unit.sim.twin import run_twin


@dataclass
class Site:
    """Open from `opens_ps` until `closes_ps`."""

    group: int
    timing: ReplicaTiming
    weight: float
    opens_ps: int
    closes_ps: int
    got: list[tuple[int, int, int, int]] = field(default_factory=list)
    charged: list[int] = field(default_factory=list)
    credit: float = 0.0
    outstanding_tokens: int = 0
    seen: int = 0
    answers: int = 0

    @property
    def name(self) -> str:
        return ""

    def finishes_ps(self) -> list[int]:
        return [s.finish_ps for s in run_twin(self.timing, self.got)[0]] if self.got else []

    def look(self, now_ps: int, length: AnswerLength) -> None:
        """What it has in hand at that instant; `length` is told of what has ended since the last look."""
        ends = self.finishes_ps()
        self.outstanding_tokens = sum(c for c, end in zip(self.charged, ends, strict=True) if end > now_ps)
        ended = [wrote for (_, _, wrote, _), end in zip(self.got, ends, strict=True) if end <= now_ps]
        length.tokens += sum(ended) - self.seen
        length.answers += len(ended) - self.answers
        self.seen, self.answers = sum(ended), len(ended)


REFUSED = -1


def serve(
    sites: Sequence[Site],
    by_load: bool,
    visits: Sequence[tuple[int, int, int]],
    most_load: float,
    most_output: int | None = None,
) -> list[int]:
    """Finish times of `visits` (arrival, input, output) to the replicas of one group, in order of arrival."""
    balancer, length = LeastOutstanding(), AnswerLength()
    chosen: list[tuple[Site, int]] = []
    for now_ps, read, wrote in visits:
        open_ = [s for s in sites if s.opens_ps <= now_ps < s.closes_ps]
        # Stragglers go to the one that closed last.
        open_ = open_ or [max((s for s in sites if s.closes_ps <= now_ps), key=lambda s: s.closes_ps)]
        for site in sites:
            site.look(now_ps, length)
        tokens = read + length.expected(most_output)
        site = open_[balancer.choose(open_, tokens)] if by_load else _richest(open_)
        if site.outstanding_tokens / site.weight > most_load:
            chosen.append((site, REFUSED))
            continue
        chosen.append((site, len(site.got)))
        site.got.append((now_ps, read, wrote, 0))
        site.charged.append(tokens)
    ends = {id(site): site.finishes_ps() for site in sites}
    return [REFUSED if at == REFUSED else ends[id(site)][at] for site, at in chosen]


def _richest(sites: Sequence[Site]) -> Site:
    for site in sites:
        site.credit += site.weight
    best = max(sites, key=lambda s: s.credit)
    best.credit -= sum(s.weight for s in sites)
    return best
