"""Choice of a setting for each level of load: a multiple-choice knapsack over a chain.

Given K settings by falling work, L levels by rising load, the share w[l] of the requests that meet each level, and of
setting k at level l the value v[k], its quality, say, and the share late[k, l] that is too late:

    maximise    sum over l of  w[l] v[k(l)]
    subject to  sum over l of  w[l] late[k(l), l] <= allowed
                k(0) <= k(1) <= ...          (work never rises with load; nor does quality, or it costs more)
                at most G different settings

With a multiplier m on lateness the rest is a walk through (level, setting), solved exactly; m is found by bisection
(Everett 1963). What is found is optimal among all that are no later than it: it lies on the hull. What the gap between
two points of the hull leaves is taken by changes of one level, as long as one helps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.workload import Floats

Ints = NDArray[np.int64]

STEPS = 60
"""Of the bisection."""

TINY = 1e-9
BEYOND = 1e-6
"""The weight of a level that no request meets, so that it is chosen for at all."""
MULTIPLIER_BEYOND = 1e4
"""There lateness counts for so many points of quality: nothing shall be late that need not be."""


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """`value` (K), in points of quality, and `late` (K, L), 0-1, by falling work; `weight` (L), adding up to 1.
    `follows` (K, K): as of `falls`.
    """

    value: Floats
    late: Floats
    weight: Floats
    follows: NDArray[np.bool_]

    def late_of(self, chosen: Sequence[int]) -> float:
        return float(self.weight @ self.late[list(chosen), np.arange(len(self.weight))])

    def value_of(self, chosen: Sequence[int]) -> float:
        return float(self.weight @ self.value[list(chosen)])


def falls(quality: Floats) -> NDArray[np.bool_]:
    """(K, K): marks j, k where setting k may come after j as load rises: it takes no more work, and is less good."""
    later = np.arange(len(quality)) > np.arange(len(quality))[:, None]
    less: NDArray[np.bool_] = later & (quality < quality[:, None])
    return less


def choose(choices: Choices, allowed: float, most: int) -> tuple[int, ...]:
    """One setting a level; where none keeps `allowed`, the least late."""
    chosen = hull(choices, allowed, most)
    while (better := _one_level_better(choices, chosen, allowed, most)) is not None:
        chosen = better
    return chosen


def hull(choices: Choices, allowed: float, most: int) -> tuple[int, ...]:
    """The best on the hull that keeps `allowed`; where none does, the least late."""
    best = _walk(choices, 0.0, most)
    if choices.late_of(best) <= allowed + TINY:
        return best
    low, high = 0.0, 1.0
    chosen = _walk(choices, high, most)
    # The multiplier's scale is not known: by eights until it is above, then by halves.
    while choices.late_of(chosen) > allowed + TINY and high < 1e9:
        low, high = high, high * 8
        chosen = _walk(choices, high, most)
    for _ in range(STEPS):
        if high - low <= 1e-6 * high:
            break
        middle = (low + high) / 2
        found = _walk(choices, middle, most)
        if choices.late_of(found) <= allowed + TINY:
            high, chosen = middle, found
        else:
            low = middle
    return chosen


def _walk(choices: Choices, multiplier: float, most: int) -> tuple[int, ...]:
    """The best of all chains under the multiplier: by level, and by how many settings it has had so far."""
    met = choices.weight > 0
    weight = np.where(met, choices.weight, BEYOND)
    price = np.where(met, multiplier, max(multiplier, MULTIPLIER_BEYOND))
    gain = weight * (choices.value[:, None] - price * choices.late)
    settings, levels = gain.shape
    barred = np.where(choices.follows.T, 0.0, -np.inf)
    value = np.full((most, settings), -np.inf)
    value[0] = gain[:, 0]
    came: list[tuple[Ints, NDArray[np.bool_]]] = []
    for level in range(1, levels):
        before = value[:, None, :] + barred
        first = before.argmax(axis=2)
        best = np.take_along_axis(before, first[:, :, None], axis=2)[:, :, 0]
        # From a heavier setting, which makes one more; or from the same.
        changed = np.full_like(value, -np.inf)
        changed[1:] = best[:-1]
        stays = value >= changed
        came.append((first, stays))
        value = np.where(stays, value, changed) + gain[:, level]
    used, at = np.unravel_index(int(value.argmax()), value.shape)
    return _back(came, int(used), int(at))


def _back(came: Sequence[tuple[Ints, NDArray[np.bool_]]], used: int, at: int) -> tuple[int, ...]:
    chosen = [at]
    for first, stays in reversed(came):
        if not stays[used, at]:
            used, at = used - 1, int(first[used - 1, at])
        chosen.append(at)
    return tuple(reversed(chosen))


def _one_level_better(
    choices: Choices, chosen: tuple[int, ...], allowed: float, most: int
) -> tuple[int, ...] | None:
    """The change of one level that gains most."""
    if choices.late_of(chosen) > allowed + TINY:
        return None
    best, found, follows = choices.value_of(chosen) + TINY, None, choices.follows
    for level in range(len(chosen)):
        for setting in range(len(choices.value)):
            other = (*chosen[:level], setting, *chosen[level + 1 :])
            if any(a != b and not follows[a, b] for a, b in pairwise(other)) or len(set(other)) > most:
                continue
            if choices.late_of(other) <= allowed + TINY and choices.value_of(other) > best:
                best, found = choices.value_of(other), other
    return found
