"""Detector of drift: the setting in force differs from the model more often than it may, so it is withdrawn.

Given: for each input fed back, whether the setting in force differs from the model (L). For a risk q above the
constraint, e = q / risk where it differs and (1 - q) / (1 - risk) where it does not has mean at most 1 while the
risk is at most `risk`. R_t = (1 + R_{t-1}) e_t (Shiryaev-Roberts), averaged over several q, has mean at most t
then; so stopping at R >= `every` happens at most once in `every` inputs in the mean (Shin, Ramdas and Rinaldo 2024,
e-detectors). The rate of false alarms is chosen so, not fitted. After a change to a risk p it takes about
ln(`every`) / KL(p, risk) inputs.
"""

from dataclasses import dataclass, field

import numpy as np

from cascadia.exits.readings import Floats

MULTIPLES = (1.5, 2.0, 4.0, 8.0, 16.0)
"""The risks that are bet on, as multiples of the constraint."""
HIGHEST = 0.9
EVERY = 100_000.0
"""Inputs fed back for one false alarm, in the mean and at least."""


@dataclass(slots=True, eq=False)
class Drift:
    """Evidence that the risk is above `risk` now. `every`: inputs fed back a false alarm, at least, in the mean."""

    risk: float
    every: float = EVERY
    sums: Floats = field(init=False)
    _won: Floats = field(init=False)
    _kept: Floats = field(init=False)

    def __post_init__(self) -> None:
        # A bet on 1 would lose all it has at the first input that agrees.
        bets = np.minimum(np.array(MULTIPLES) * self.risk, max(HIGHEST, self.risk))
        self._won, self._kept = bets / self.risk, (1 - bets) / (1 - self.risk)
        self.sums = np.zeros(len(bets))

    def feed(self, wrong: bool) -> bool:
        """Takes in one input; true: withdraw."""
        self.sums = (1.0 + self.sums) * (self._won if wrong else self._kept)
        return self.evidence >= self.every

    def resume(self, sums: Floats) -> None:
        self.sums = sums

    @property
    def evidence(self) -> float:
        """Inputs a false alarm of the same evidence would take in the mean."""
        return float(self.sums.mean())


def delay_inputs(before: float, after: float, every: float = EVERY) -> float:
    """Number of inputs fed back, about, that it takes to notice that the risk went from at most `before` to `after`."""
    distance = after * np.log(after / before) + (1 - after) * np.log((1 - after) / (1 - before))
    return float(np.log(every * len(MULTIPLES)) / distance)
