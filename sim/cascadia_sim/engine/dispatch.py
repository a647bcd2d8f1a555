"""Replicas of a stage and the rule by which they share its requests.

The rules are those that Cascadia's router runs (`cascadia.dispatch`), under the same names: "round-robin" is smooth and
weighted; "least-outstanding" gives each request to the replica with the fewest tokens in hand for its weight, where the
tokens are those that a router can know of.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from cascadia_sim.errors import BadInput
from cascadia_sim.iteration.timing import ReplicaTiming

Dispatch = Literal["round-robin", "least-outstanding"]
DEFAULT: Dispatch = "least-outstanding"


@dataclass(frozen=True, slots=True)
class Replica:
    """`weight` is its share of the work relative to its siblings': its capacity, say."""

    timing: ReplicaTiming
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.weight < float("inf"):
            raise BadInput("weight", f"is {self.weight}", "write one above 0, or leave the replica out")


def check_dispatch(dispatch: str) -> None:
    if dispatch not in get_args(Dispatch):
        raise BadInput(
            "dispatch", f"unknown rule {dispatch!r}", f"write one of {', '.join(get_args(Dispatch))}"
        )
