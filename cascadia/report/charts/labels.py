"""Labels in a column, moved apart as little as it takes."""

from collections.abc import Sequence

import numpy as np

LINE_PX = 13.0


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Nearest positions in low..high that keep the order of `wanted` and stand at least `gap` apart."""
    order = np.argsort(np.asarray(wanted, np.float64), kind="stable")
    # Less i gaps, "apart by a gap" becomes "not decreasing": pool neighbours that would swap to their mean.
    blocks: list[tuple[float, int]] = []
    for i, index in enumerate(order):
        mean, size = float(wanted[index]) - i * gap, 1
        while blocks and blocks[-1][0] > mean:
            before, count = blocks.pop()
            mean, size = (before * count + mean * size) / (count + size), count + size
        blocks.append((mean, size))
    top = max(low, high - (len(wanted) - 1) * gap)
    level = [min(max(mean, low), top) for mean, size in blocks for _ in range(size)]
    placed = [0.0] * len(wanted)
    for i, index in enumerate(order):
        placed[index] = level[i] + i * gap
    return placed
