"""Searches that do not wait for the plan's, each in a process of its own: what others would deploy, and once the plan
is found, the best at other bars. The same is found as without them, for somewhat more work in all.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from cascadia.domain.deadline import Deadline
from cascadia.planner.baselines.other_bars import Bar, other_bars
from cascadia.planner.baselines.rivals import THEIRS, Rival, rivals, their_deployments
from cascadia.planner.beside.forked import Forked
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.deployment.joined import Joined
from cascadia.planner.refinement.state import Candidate
from cascadia.planner.search.bilevel import BilevelResult
from cascadia.planner.search.context import Search
from cascadia_sim.hardware.cores import usable_cores

BARS = "the plans at other bars"


class Aside:
    """Answers from beside one plan's search, each waited for when it is first looked at."""

    def __init__(self, search: Search, first: Deadline, deadline: Deadline) -> None:
        """`first`: of the deployments that the plan's search starts from; `deadline`: of all else."""
        # All searches need these tables.
        search.whole_demands()
        self._deadline = deadline
        self._others = Forked(partial(_others, search, first, deadline), _known(search))
        self._around: Forked[Any] | None = None
        self.starts: Sequence[Deployment] = Joined(self._starts())

    def look_around(self, search: Search, loop: BilevelResult, chosen: Candidate, *, anew: bool) -> None:
        """Begins to look at other bars beside the plan that was found. `anew`: its search is another than this began
        with, and others are compared on its terms."""
        self._around = Forked(partial(_around, search, loop, chosen, anew), (*_known(search), chosen))
        if anew:
            self._others.close()
            self._others = self._around

    @cached_property
    def bars(self) -> tuple[Bar, ...]:
        found: tuple[Bar, ...] = () if self._around is None else self._next(self._around)
        if self._around is not None and self._around is not self._others:
            self._around.close()
        return found

    @cached_property
    def rivals(self) -> tuple[Rival, ...]:
        # Of each process the first answer has to be taken first.
        len(self.starts if self._others is not self._around else self.bars)
        found: tuple[Rival, ...] = self._next(self._others)
        self._others.close()
        return found

    def close(self) -> None:
        """Ends what nobody will ask for."""
        self._others.close()
        if self._around is not None:
            self._around.close()

    def _starts(self) -> Iterator[Deployment]:
        yield from self._next(self._others)

    def _next(self, told: Iterator[Any]) -> Any:
        found, left_out = next(told)
        self._deadline.has_left_out(left_out)
        return found


def _known(search: Search) -> tuple[object, ...]:
    """Shapes: searches tell them apart by which object they are."""
    return tuple(shape for shapes in search.shapes.values() for shape in shapes)


def _others(search: Search, first: Deadline, deadline: Deadline) -> Iterator[Any]:
    search = _with_threads(search)
    yield their_deployments(replace(search, deadline=first)), first.in_part(THEIRS)
    apart = deadline.apart()
    yield _rivals(replace(search, deadline=apart)), apart.in_part(THEIRS)


def _rivals(search: Search) -> tuple[Rival, ...]:
    return tuple(found for make in rivals(search) if (found := make()) is not None)


def _around(search: Search, loop: BilevelResult, chosen: Candidate, anew: bool) -> Iterator[Any]:
    apart = search.deadline.apart()
    search = replace(_with_threads(search), deadline=apart)
    bars = other_bars(search, loop, chosen)
    yield tuple(_short(bar, chosen) for bar in bars), apart.in_part(BARS)
    if anew:
        apart = apart.apart()
        yield _rivals(replace(search, deadline=apart)), apart.in_part(THEIRS)


def _short(bar: Bar, chosen: Candidate) -> Bar:
    """The bar without its certificate, in which all requests are."""
    if bar.best is None or bar.best is chosen:
        return bar
    return replace(bar, best=replace(bar.best, certificate=None))


def _with_threads(search: Search) -> Search:
    """The search on threads of its own."""
    threads = ThreadPoolExecutor(usable_cores())
    return replace(search, threads=threads, tables=replace(search.tables, pool=threads))
