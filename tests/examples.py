"""Examples that a property draws: in CI, which draws the same each time, a third of what it draws elsewhere."""

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

FEWEST = 10
"""Of a property that asks for so many."""


def examples(count: int) -> int:
    return count if everything() else min(count, max(count // 3, FEWEST))


def cases(every: Sequence[T]) -> Sequence[T]:
    """Cases of a claim that takes long: in CI the first alone."""
    return every if everything() else every[:1]


def everything() -> bool:
    """Does this run look at all there is?"""
    return "CASCADIA_CI" not in os.environ or "CASCADIA_LONG" in os.environ
