"""Examples that a property draws: in CI, which draws the same each time, a third of what it draws elsewhere."""

import os

FEWEST = 10
"""Of a property that asks for so many."""


def examples(count: int) -> int:
    return count if everything() else min(count, max(count // 3, FEWEST))


def everything() -> bool:
    """Does this run look at all there is?"""
    return "CASCADIA_CI" not in os.environ or "CASCADIA_LONG" in os.environ
