"""The best candidate that holds: certificates are asked for in the order of rank, until one is given.

A bound must be kept when the trace goes on, too, which the certificate tells. Who keeps it on one round alone is passed
over, and so is who would not keep it either if the repeats slowed it as little as any of these (`grown`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf

from cascadia.domain.problem import Problem
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.deployment.fewer import scaled
from cascadia.planner.refinement.standing import best_of_each
from cascadia.planner.refinement.state import Candidate, Refinement, rank, strain, within_limits
from cascadia.planner.search import elsewhere
from cascadia.planner.stability.certificate import SLOWER
from cascadia_sim.hardware.cores import usable_cores

IN_RANK = 16
"""So many are tried as they stand. After them only those that are sent less, at their fullest stage, than every one
that was refused: what comes next in rank is mostly its twin."""

SETTLED_REQUESTS, SETTLED_MOST = 40_000, 64
"""Where a trace is so short that what settles ranks anew, as many more are tried as have so many requests together."""

LEAST_LOADED = LEAST_STRAINED = 8
"""When these are spent, the least loaded of all, whatever their rank, then those that keep the bounds most easily."""

ROUTINGS_WITH_MORE, SIXTEENTHS = 2, (18, 20, 24, 32, 48, 64)
"""The best that were refused, of so many routings, are tried with more replicas of all shapes alike: so many sixteenths
of what they had, then what lies between."""

PLAINLY_LATE = 1.05
"""So many times a bound in the run that ranks it, no start is asked: what settles is hardly ever faster."""

LATE = 2
"""Past the search's deadline so many are tried in rank, and as many of the least loaded."""

ASKED_AHEAD = 2
"""After so many refusals no more certificates are asked before the search has ended: one round tells little there."""
ROUNDING = 1e-9

AT_ONCE = 4
"""So many certificates at most are made together: each takes the memory of all its rounds."""


@dataclass(eq=False)
class Ceiling:
    """Dollars an hour of the cheapest that is known to hold within the bounds, where cost is what is sought: what costs
    more need not be simulated, and is `passed_over`. Without limit while none is known, and for other goals, unless
    `any_will_do` is as good.
    """

    state: Refinement
    any_will_do: bool = False
    held: Candidate | None = None
    refused: set[object] = field(default_factory=set)
    passed_over: set[object] = field(default_factory=set)

    def suffices(self) -> bool:
        """Tells whether the search may end."""
        return self.any_will_do and self.held is not None

    @property
    def usd_per_hour(self) -> float:
        return inf if self.held is None else self.held.usd_per_hour

    def lower(self, candidates: Iterable[Candidate]) -> None:
        """Asks for certificates of those that are cheaper than all that is known to hold, the cheapest first."""
        search = self.state.search
        problem = search.problem
        if not self.any_will_do and (problem.asked or problem.objective).goal != "cost":
            return
        cheaper = (c for c in candidates if c.usd_per_hour < self.usd_per_hour and within_limits(problem, c))
        for c in sorted(cheaper, key=lambda c: rank(problem, c)):
            if len(self.refused) >= ASKED_AHEAD or search.deadline.passed:
                return
            if c.deployment.key in self.refused:
                continue
            if _holds(problem, found := self.state.certified(c)):
                self.held = found
                return
            self.refused.add(c.deployment.key)

    def admits(self, d: Deployment, beside: Candidate | None = None) -> bool:
        """Tells whether a deployment may be the cheapest, or is cheaper than the one `beside` it."""
        usd = d.usd_per_hour + elsewhere.usd_per_hour(self.state.search, d.routing)
        if usd <= self.usd_per_hour * (1 + ROUNDING) or (beside is not None and usd < beside.usd_per_hour):
            return True
        self.passed_over.add(d.key)
        return False


def best_certified(
    state: Refinement, candidates: Sequence[Candidate], starts: Sequence[Deployment]
) -> Candidate | None:
    """The first of `candidates` that is certified, or the best of `starts` where that is better.

    Whoever ranks behind many that were refused is not asked in turn. What came from another search mostly held there,
    and a search must not end worse than it began.
    """
    problem = state.search.problem
    best = first_certified(state, candidates)
    known = [state.seen[d.key] for d in starts if d.key in state.seen]
    known = [c for c in known if strain(problem, c) <= PLAINLY_LATE]
    for c in sorted(known, key=lambda c: rank(problem, c)):
        if best is not None and rank(problem, c) >= rank(problem, best):
            break
        # Its certificate decides; what this search's tables say of its load does not.
        found = c if c.certificate is not None else state.certified(c)
        state.seen[c.deployment.key] = found
        if _holds(problem, found) and (best is None or rank(problem, found) < rank(problem, best)):
            best = found
    return best


def first_certified(state: Refinement, candidates: Sequence[Candidate]) -> Candidate | None:
    """The first of `candidates`, best first, that holds and keeps the bounds when it has settled; None if none does.

    If it is slower settled than in the run that ranked it, those that this run ranks before that are tried too, and the
    best of all is taken. What was refused is kept in `state.seen`, with why. Where many are, as on a trace that is over
    before any queue shows, the best of them are tried with more replicas.
    """
    refused: list[Candidate] = []
    first = _first_in_rank(state, candidates, refused)
    if first is not None and len(refused) < IN_RANK:
        return first
    problem = state.search.problem
    more = _with_more(state, refused)
    if first is not None:
        return first if more is None else min(first, more, key=lambda c: rank(problem, c))
    tried = {r.deployment.key for r in refused}
    rest = [c for c in candidates if c.deployment.key not in tried]
    easiest = [
        *sorted(rest, key=lambda c: c.load)[:LEAST_LOADED],
        *sorted(rest, key=lambda c: (strain(problem, c), c.load))[:LEAST_STRAINED],
    ]
    for c in {c.deployment.key: c for c in easiest}.values():
        if more is not None and rank(problem, c) >= rank(problem, more):
            continue
        if len(refused) >= 2 * LATE and state.search.deadline.leaves_out("further tests of stability"):
            break
        if (found := _tried(state, c, refused)) is not None:
            return found
    return more


def _with_more(state: Refinement, refused: Sequence[Candidate]) -> Candidate | None:
    """The best of those that were `refused`, with more replicas; None where none holds."""
    problem = state.search.problem
    firsts = islice(best_of_each(sorted(refused, key=lambda c: rank(problem, c)), 1), ROUTINGS_WITH_MORE)
    found = [more for c in firsts if (more := _until_it_holds(state, c)) is not None]
    return min(found, key=lambda c: rank(problem, c), default=None)


def _until_it_holds(state: Refinement, c: Candidate) -> Candidate | None:
    """`c` with the fewest sixteenths more replicas of all shapes with which it holds; None where the cluster has not so
    many, or it was not refused for want of them.
    """

    def tried(sixteenths: int) -> Candidate | None:
        larger = scaled(c.deployment, sixteenths / 16)
        if not larger.fits(state.search.problem.cluster):
            return None
        if state.search.deadline.leaves_out("further tests of stability"):
            return None
        return next((held for s in state.simulate([larger]) if (held := _tried(state, s, []))), None)

    least, most, best = 16, 16, None
    for most in SIXTEENTHS:
        if (best := tried(most)) is not None:
            break
        least = most
    while best is not None and most - least > 1:
        middle = (least + most) // 2
        if (fewer := tried(middle)) is not None:
            best, most = fewer, middle
        else:
            least = middle
    return best


def best_ahead(state: Refinement, best: Candidate) -> Candidate | None:
    """The best seen that holds and is better than `best` by the goal alone; None if none is."""
    problem = state.search.problem
    bar, least = problem.objective.quality_min or 0.0, rank(problem, best)[0]

    def is_ahead(c: Candidate) -> bool:
        return c.quality_lower >= bar and rank(problem, c)[0] < least

    ahead = [c for c in state.seen.values() if is_ahead(c) and within_limits(problem, c)]
    _first_in_rank(state, ahead, [])
    held = [c for c in state.seen.values() if is_ahead(c) and _holds(problem, c)]
    return min(held, key=lambda c: rank(problem, c), default=None)


def _first_in_rank(
    state: Refinement, candidates: Sequence[Candidate], refused: list[Candidate]
) -> Candidate | None:
    problem = state.search.problem
    ordered = _without_twins(sorted(candidates, key=lambda c: rank(problem, c)))

    def is_hopeless(c: Candidate) -> bool:
        if len(refused) >= IN_RANK and c.load >= min(r.load for r in refused):
            return True
        return c.certificate is None and strain(problem, c) * grown(problem, refused) > 1.0

    for at, c in enumerate(ordered):
        if is_hopeless(c):
            continue
        if len(refused) >= (LATE if state.search.deadline.passed else 2 * IN_RANK):
            break
        if refused and not state.search.deadline.passed:
            # Where one was refused the next mostly are.
            state.certify_together(c for c in ordered[at : at + _at_once()] if not is_hopeless(c))
        if (found := _tried(state, c, refused)) is not None:
            return _best_settled(state, found, ordered[at + 1 :], refused)
    return None


def _at_once() -> int:
    return min(usable_cores(), AT_ONCE)


def missed(problem: Problem, c: Candidate) -> bool:
    """Tells whether a candidate holds and keeps the bounds once, but not when the trace goes on."""
    if c.certificate is None or not c.certificate.holds:
        return False
    return problem.objective.strain(c.latency_s, c.levels_s) <= 1.0 < strain(problem, c)


def grown(problem: Problem, candidates: Iterable[Candidate]) -> float:
    """The least ratio of what the repeats reach to what one round does, of those that `missed`; 1 where none did.

    At most `SLOWER`: a quantile that one round does not show at all, as TPOT of answers that are held, grows at once.
    """
    ratios = (
        strain(problem, c)
        / max(problem.objective.strain(c.latency_s, c.levels_s), strain(problem, c) / SLOWER)
        for c in candidates
        if missed(problem, c)
    )
    return min(ratios, default=1.0)


def _without_twins(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The first of those whose runs of the trace are the same: beyond some ratio other shares change nothing."""
    first: dict[object, Candidate] = {}
    for c in candidates:
        first.setdefault((c.deployment.routing, c.usd_per_hour, c.latency_s, c.levels_s), c)
    return list(first.values())


def _best_settled(
    state: Refinement, found: Candidate, after: Sequence[Candidate], refused: list[Candidate]
) -> Candidate:
    problem = state.search.problem
    for at in range(min(len(after), SETTLED_MOST, SETTLED_REQUESTS // max(len(problem.workload), 1))):
        c = after[at]
        if rank(problem, c) >= rank(problem, found) or state.search.deadline.passed:
            break
        state.certify_together(
            c for c in after[at : at + _at_once()] if rank(problem, c) < rank(problem, found)
        )
        other = _tried(state, c, refused)
        if other is not None and rank(problem, other) < rank(problem, found):
            found = other
    return found


def _holds(problem: Problem, c: Candidate) -> bool:
    return c.certificate is not None and c.certificate.holds and strain(problem, c) <= 1.0


def _tried(state: Refinement, c: Candidate, refused: list[Candidate]) -> Candidate | None:
    settled = c if c.certificate is not None else state.certified(c)
    state.seen[c.deployment.key] = settled
    assert settled.certificate is not None
    if settled.certificate.holds and within_limits(state.search.problem, settled):
        return settled
    refused.append(settled)
    return None
