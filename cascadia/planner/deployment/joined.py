"""Deployments of several searches in one sequence, of which none is waited for before it is looked at."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import overload

from cascadia.planner.deployment.deployment import Deployment


class Joined(Sequence[Deployment]):
    """The deployments of `parts`, one part after the other."""

    def __init__(self, *parts: Iterable[Deployment]) -> None:
        self._parts = parts

    @cached_property
    def _all(self) -> list[Deployment]:
        return list(chain.from_iterable(self._parts))

    @overload
    def __getitem__(self, at: int) -> Deployment: ...

    @overload
    def __getitem__(self, at: slice) -> list[Deployment]: ...

    def __getitem__(self, at: int | slice) -> Deployment | list[Deployment]:
        return self._all[at]

    def __len__(self) -> int:
        return len(self._all)
