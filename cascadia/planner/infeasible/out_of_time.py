"""Answers at the deadline: a search that was cut short has shown nothing infeasible."""

from collections.abc import Callable, Iterator

from cascadia.domain.deadline import Deadline
from cascadia.domain.errors import CascadiaError, Infeasible, OutOfTime
from cascadia.planner.search.context import Search

LONGER = "a longer --time-limit may find one"


def out_of_time() -> OutOfTime:
    return OutOfTime(
        "no plan was found within the time limit, which does not show that there is none", LONGER
    )


def none_in_time(search: Search, why: Callable[[], Infeasible]) -> CascadiaError:
    """`why` there is no plan; where the search was cut short, only that none was found.

    Where time is up before the nearest value that would do is known, what was asked for is refused without it.
    """
    if search.deadline.left_out:
        return out_of_time()
    try:
        return why()
    except OutOfTime:
        return Infeasible(
            "nothing that the search tried keeps the objective's bounds",
            "what would was not found within the time limit; a longer --time-limit tells",
        )


def left_out_note(deadline: Deadline) -> Iterator[str]:
    """Note on what was left out."""
    if deadline.left_out:
        yield (
            "the time limit left out: "
            + ", ".join(deadline.left_out)
            + "; what is told was tried, and a longer --time-limit may find a better plan"
        )
