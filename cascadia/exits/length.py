"""Exits of a model that thinks before it answers: at each, a trial answer is given where its score is good enough.

The promise is that of ramps, by the same certificate. Settings lie between scores that nobody reaches and the exits'
own thresholds; each lets out all that the one before it does, or earlier. A share of the requests, drawn before
anything is known of them, thinks to the end and has a trial at every exit on its way. What is counted (L = 1) is that
a setting would have given a trial answer whose whole answer the judge finds better by more than `BETTER` points.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random

import numpy as np

from cascadia.exits.certify import Promise
from cascadia.exits.controller import Controller
from cascadia.exits.copies import Recent
from cascadia.exits.path import Path
from cascadia.exits.readings import Floats, Ints, exit_of

BETTER = 5.0
"""Points of 100; scores of answers that are worth the same differ by less."""
SETTINGS = 20


def trials(least: Sequence[float | None], foreseen: Mapping[int, float]) -> frozenset[int]:
    """Exits at which a trial is worth writing, of whose score the question alone promises what is `foreseen`.

    Everywhere that is `least` or more; where none is said always, and where what is promised is not known never.
    """
    return frozenset(
        at for at, bar in enumerate(least) if bar is None or (at in foreseen and foreseen[at] >= bar)
    )


class Fixed:
    """Exits at `thresholds` on scores, with no promise."""

    state = (1, 1, 0)

    def __init__(self, thresholds: Sequence[float]) -> None:
        self._thresholds = thresholds

    def drawn(self) -> bool:
        return False

    def open(self, at: int) -> bool:
        """Tells whether anybody may leave at an exit."""
        return self._thresholds[at] <= 100.0

    def leaves(self, at: int, score: float) -> bool:
        return score >= self._thresholds[at]

    def tried(self, _: Mapping[int, float]) -> tuple[int, ...]:
        """Tells that no exit needs a trial: nobody is drawn."""
        return ()

    def feed(
        self,
        _: Mapping[int, float],
        __: float,
        ___: bytes | None = None,
        ____: Mapping[int, float] | None = None,
    ) -> bool:
        """Tells that nothing was lost: nobody is drawn."""
        return False


class Certified:
    """Exits at `thresholds` or above, as they are certified. `shadow` (0-1) of the requests are drawn."""

    def __init__(
        self, thresholds: Sequence[float], promise: Promise, shadow: float, rng: Random | None = None
    ) -> None:
        self._shadow, self._rng = shadow, rng or Random()
        # Just above: a score equal to its threshold is good enough.
        own = [float(np.nextafter(1.0 - each / 100.0, 2.0)) if each <= 100.0 else 0.0 for each in thresholds]
        self._path, self._promise = Path(np.outer(np.arange(1, SETTINGS + 1) / SETTINGS, own)), promise
        self.feeds: Callable[[Ints, Floats, int, bytes | None], object]
        """Takes evidence: the controller, or who shares it with other processes."""
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forgets everything: nothing is in force, and nothing known."""
        path = self._path
        # Thresholds are the plan's: after a withdrawal the same path is examined anew.
        self.controller = Controller(self._promise, path, learned=1, renewed=lambda *_: path)
        recent, feed = Recent(), self.controller.feed
        self.feeds = lambda lost, doubts, final, key: feed(lost, doubts, final, recent.has(key))

    @property
    def state(self) -> tuple[int, int, int]:
        """The setting in force, counted from 1 (0: none), of how many; how often settings were withdrawn."""
        controller = self.controller
        return controller.certified + 1, controller.path.settings, controller.withdrawn

    def drawn(self) -> bool:
        """Tells whether the next request thinks to the end."""
        return self._rng.random() < self._shadow

    def open(self, at: int) -> bool:
        return bool(self.controller.thresholds[at] > 0.0)

    def leaves(self, at: int, score: float) -> bool:
        return bool(1.0 - score / 100.0 < self.controller.thresholds[at])

    def tried(self, foreseen: Mapping[int, float]) -> tuple[int, ...]:
        """Exits at which some setting lets a request out of which so much is `foreseen`: those that need a trial."""
        doubts = self._doubts(foreseen)
        left = {exit_of(doubts, row) for row in self.controller.path.thresholds}
        return tuple(sorted(at for at in left if at is not None))

    def feed(
        self,
        scores: Mapping[int, float],
        whole: float,
        key: bytes | None = None,
        foreseen: Mapping[int, float] | None = None,
    ) -> bool:
        """Takes in a request that was drawn: its trials' scores by exit, and its whole answer's; `key` tells it from
        others, where it is known, and `foreseen` are the scores by which it leaves where these are not the trials' own.
        Tells whether the setting in force would have lost it.
        """
        in_force = self.controller.thresholds
        doubts, lost = (
            self._doubts(scores if foreseen is None else foreseen),
            np.zeros(len(in_force), np.int64),
        )
        for at, score in scores.items():
            lost[at] = whole > score + BETTER
        left = exit_of(doubts, in_force)
        self.feeds(lost, doubts, 0, key)
        return left is not None and bool(lost[left])

    def _doubts(self, scores: Mapping[int, float]) -> Floats:
        doubts = np.ones(len(self.controller.thresholds))
        for at, score in scores.items():
            doubts[at] = 1.0 - score / 100.0
        return doubts
