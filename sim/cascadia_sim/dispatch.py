"""Which replica of a stage gets which request, where that does not depend on how the replicas fare."""

from typing import Literal, get_args

import numpy as np

from cascadia_sim.errors import InputError
from cascadia_sim.timing import Ints

Dispatch = Literal["round-robin", "weighted", "least-loaded"]


def check_dispatch(dispatch: str) -> None:
    if dispatch not in get_args(Dispatch):
        raise InputError(
            "dispatch", f"unknown rule {dispatch!r}", f"write one of {', '.join(get_args(Dispatch))}"
        )


def round_robin(requests: int, replicas: int) -> Ints:
    """The replica of each request [n], in turn (Cascadia's own rule)."""
    return np.arange(requests, dtype=np.int64) % replicas


def smooth_weighted(requests: int, weights: tuple[float, ...]) -> Ints:
    """The replica of each request [n] in nginx's smooth weighted round robin.

    Deterministic, with each replica's turns spread evenly.
    """
    from cascadia_sim import kernel

    replica = np.zeros(requests, np.int64)
    kernel.smooth_weighted(np.array(weights, np.float64), np.zeros(len(weights)), replica)
    return replica
