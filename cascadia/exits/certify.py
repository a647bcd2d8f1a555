"""Certificate of a path's settings: which of them may be in force, by evidence that holds at any time.

Given: settings in order, j = 1, 2, ...; for each input fed back, whether setting j's answer differs from the model's
(L, 0 or 1). Wanted: at all times at once, with probability at least 1 - delta, no certified setting has a risk
E[L] above `risk`.

For each setting, H_j: risk_j >= risk. A bet on a smaller risk q multiplies its wealth by q / risk where the answer
differs and by (1 - q) / (1 - risk) where it does not; under H_j its mean does not grow. The mean wealth of several
q is an e-process (Waudby-Smith and Ramdas 2024), so it ever reaches 1 / delta with probability at most delta (Ville
1939), whatever the weights of these, as long as they are set before the first input. So the data that a path was
calibrated on sets `BELIEVED` of them, by how likely each q makes what a setting differed on there, and the rest is
even: where those data mislead, it takes 1 / (1 - BELIEVED) times the wealth, and the promise is kept.

Settings are tested in a fixed sequence from cautious to bold (Angelopoulos et al. 2022, Learn then Test, section 2.3):
j counts only where all before it have passed. So a setting that is too risky comes into force only if the *first* one
that is too risky passes: delta, whatever the number of settings, with no correction.

It holds while inputs that are fed back are alike (each has the same risk given all before it) and are drawn without
regard to where they would leave. What it says is about agreement with the model, not about quality.
"""

from dataclasses import dataclass, field

import numpy as np

from cascadia.exits.readings import Bools, Floats

BETS = tuple(round(0.05 + 0.1 * i, 2) for i in range(10))
"""The risks that are bet on, as shares of the constraint."""
BELIEVED = 0.9
"""Part of the weights that follows from the calibration data."""


@dataclass(frozen=True, slots=True)
class Promise:
    """Promise that with probability `confidence` no setting in force differs from the model more often than `risk`."""

    risk: float = 0.01
    confidence: float = 0.9

    def __post_init__(self) -> None:
        if not (0 < self.risk < 1 and 0 < self.confidence < 1):
            raise ValueError(f"risk {self.risk} and confidence {self.confidence} lie between 0 and 1")

    @property
    def delta(self) -> float:
        return 1.0 - self.confidence


@dataclass(slots=True, eq=False)
class Certificate:
    """Evidence on `settings` settings. It is fed one input after another, and changes in place."""

    promise: Promise
    settings: int
    weights: Floats | None = None
    """(settings, bets): logarithms, of `weighted`; None: even."""
    inputs: int = 0
    certified: int = -1
    """The boldest setting that may be in force; -1: none."""
    differed: Floats = field(init=False)
    excused: Floats = field(init=False)
    """(settings): copies on which a setting did not differ, which count for nothing."""
    passed: Bools = field(init=False)

    def __post_init__(self) -> None:
        self.differed, self.excused = np.zeros(self.settings), np.zeros(self.settings)
        self.passed = np.zeros(self.settings, dtype=np.bool_)

    def feed(self, wrong: Bools, *, copy: bool = False) -> int:
        """Takes in one input, `wrong` (settings), and returns the boldest certified setting."""
        self.inputs += 1
        self.differed += wrong
        if copy:
            self.excused += ~wrong
        # Once passed, for good: Ville's bound is on ever getting there, whatever the wealth does later.
        yet = np.flatnonzero(~self.passed)
        weights = None if self.weights is None else self.weights[yet]
        wealth = evidence(self.differed[yet], self.inputs - self.excused[yet], self.promise.risk, weights)
        self.passed[yet] = wealth >= -np.log(self.promise.delta)
        return self._first_passed()

    def resume(self, inputs: int, differed: Floats, excused: Floats, passed: Bools) -> None:
        """Takes up evidence that was gathered on this path before."""
        self.inputs, self.differed, self.excused, self.passed = inputs, differed, excused, passed
        self._first_passed()

    def _first_passed(self) -> int:
        while self.certified + 1 < self.settings and self.passed[self.certified + 1]:
            self.certified += 1
        return self.certified

    def estimate(self, setting: int) -> float:
        """The share of inputs so far on which a setting differed."""
        return float(self.differed[setting]) / max(1, self.inputs)


def fewest_inputs(promise: Promise) -> int:
    """Inputs fed back, at least, until a setting is certified: so many if it never differs."""
    low, high = 1, 1
    while _first(high, promise.risk) < -np.log(promise.delta):
        high *= 2
    while low < high:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if _first(middle, promise.risk) >= -np.log(promise.delta) else (middle + 1, high)
        )
    return low


def _first(inputs: int, risk: float) -> float:
    return float(evidence(np.zeros(1), inputs, risk)[0])


def weighted(differed: Floats, inputs: int, risk: float) -> Floats:
    """Weights of bets on settings that `differed` (settings) on so many of the `inputs` that they were calibrated on:
    (settings, bets), in logarithms.

    By Poisson's law, with Jeffreys' prior.
    """
    likely = np.outer(differed - 0.5, np.log(_SHARES)) - inputs * risk * _SHARES
    likely -= np.logaddexp.reduce(likely, axis=1)[:, None]
    return np.asarray(np.logaddexp(np.log(BELIEVED) + likely, np.log((1.0 - BELIEVED) / len(BETS))))


def evidence(differed: Floats, inputs: int | Floats, risk: float, weights: Floats | None = None) -> Floats:
    """(settings): the logarithm of the wealth of settings that `differed` (settings) on so many of the `inputs`, which
    are one number or (settings). `weights` are those of `weighted`; even where there are none.
    """
    # In logarithms: after thousands of inputs wealths leave a float's range on either side.
    lost, kept = _LOST, np.log1p(-risk * _SHARES) - np.log1p(-risk)
    wealth = np.outer(differed, lost - kept) + np.multiply.outer(inputs, kept)
    wealth += _EVEN if weights is None else weights
    most = wealth.max(axis=1)
    return np.asarray(most + np.log(np.exp(wealth - most[:, None]).sum(axis=1)))


_SHARES = np.array(BETS)
_LOST = np.log(_SHARES)
_EVEN = -np.log(len(BETS))
