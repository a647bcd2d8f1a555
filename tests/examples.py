"""Examples that a property draws: in CI, which draws the same each time, a third of what it draws elsewhere."""

import os
from collections.abc import Iterable
from itertools import islice
from typing import Any

import pytest

FEWEST = 10
"""Of a property that asks for so many."""


def examples(count: int) -> int:
    return count if everything() else min(count, max(count // 3, FEWEST))


def first_in_ci(values: Iterable[Any], most: int) -> list[Any]:
    """Parameters of a fixture, of which CI takes the first."""
    left = iter(values)
    return [*islice(left, most), *(pytest.param(value, marks=pytest.mark.long) for value in left)]


def everything() -> bool:
    """Does this run look at all there is?"""
    return "CASCADIA_CI" not in os.environ or "CASCADIA_LONG" in os.environ
