"""Standing of all candidates that a climb has simulated: those that keep the bounds by rank, the others by strain."""

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from cascadia.domain.problem import Problem
from cascadia.planner.refinement.state import Candidate, rank, strain, within_limits

FEW = 3

PER_START, MOST_EACH = 200, 11
"""Steps are taken from the best three candidates; on short traces also from the best few of each routing: one for each
so many simulations, at most eleven. What is found for a routing then hardly depends on which others are looked at."""


def starts_of_each(simulations: int) -> int:
    """Candidates of each routing that are stepped from where so many cascades are simulated."""
    return min(simulations // PER_START, MOST_EACH)


class Standing:
    """Lists that are kept in order as candidates come: a climb asks for the best after each of hundreds of steps.

    Of equals, who came first stands first.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._known = 0
        self._left: set[object] = set()
        self._within: list[tuple[tuple[float, ...], int, Candidate]] = []
        self._beyond: list[tuple[tuple[float, float], int, tuple[float, ...], Candidate]] = []

    def add(self, seen: Mapping[object, Candidate]) -> None:
        """Adds those that came since; `seen` only grows, in the order of their coming."""
        problem = self._problem
        for c in islice(seen.values(), self._known, None):
            self._known += 1
            if within_limits(problem, c):
                insort(self._within, (rank(problem, c), self._known, c))
            else:
                insort(self._beyond, ((strain(problem, c), c.latency_s), self._known, rank(problem, c), c))

    def next_start(self, seen: Mapping[object, Candidate], each: int) -> Candidate | None:
        """The most promising of `seen`, which only grows, that was not told before; None where none is left."""
        self.add(seen)
        here = next((c for c in self.promising(each) if c.deployment.key not in self._left), None)
        if here is not None:
            self._left.add(here.deployment.key)
        return here

    def promising(self, each: int) -> Iterator[Candidate]:
        """The best few, and the few that would be better still and are the least beyond the latency bound.

        After them the best `each` of every routing.
        """
        yield from islice(self._keeping(), FEW)
        yield from islice(self._better(), FEW)
        yield from best_of_each(self._keeping(), each)
        yield from best_of_each(self._better(), each)

    def _keeping(self) -> Iterator[Candidate]:
        return (c for _, _, c in self._within)

    def _better(self) -> Iterator[Candidate]:
        """Candidates that break a bound and are better than all that break none."""
        best = self._within[0][0] if self._within else None
        return (c for _, _, its, c in self._beyond if best is None or its < best)


def best_of_each(ordered: Iterable[Candidate], each: int) -> Iterator[Candidate]:
    """The first `each` candidates of every routing."""
    taken: Counter[int] = Counter()
    for c in ordered:
        if taken[c.deployment.routing] < each:
            taken[c.deployment.routing] += 1
            yield c
