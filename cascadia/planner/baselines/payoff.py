"""Payoff of a cascade of two models: the ratio of their costs at which it pays, and how good its gate must be.

A question costs 1 at the large model, r at the small one and j at the judge. The small model is right with
probability p; escalation turns a wrong answer of it into a right one with probability a, and a right one into a wrong
one with b, so the large model's lead is D = (1 - p) a - p b. A gate that escalates the part e of the answers, of the
wrong ones the part t, of the right ones f,

    costs    r + j + e,       e = (1 - p) t + p f
    gains    (1 - p) t a - p f b   over the small model alone.

The coin (`coin.py`) buys the same lead at an even price: for r + j + e it gains (e + j) D / (1 - r). So the cascade
pays where, for some threshold,

    (1 - p) t a - p f b  >  (e + j) D / (1 - r).                                                     (1)

With a gate that knows (f = 0), no judge's cost, and a large model that is never worse (b = 0) this is r < p: the
small model must be right more often than it is dear. For a gate with an area A under its ROC curve, t and f are taken
from the equal-variance binormal curve (Swets 1986; Hanley and McNeil 1982): t = Phi(d - z), f = Phi(-z),
d = sqrt(2) Phi^-1(A), over all thresholds z. Where quality is not right or wrong, an answer counts as wrong that
escalation improves by more than D; a and b are the mean changes on both sides.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_NORMAL = NormalDist()
_THRESHOLDS = np.linspace(-5.0, 8.0, 651)
PERFECT = 0.9999
WORTHWHILE = 0.01
"""A gain beyond the coin that counts: this part of the large model's lead. Any binormal curve begins steeply enough for
less."""


@dataclass(frozen=True, slots=True)
class Pair:
    """`right` is p; `gain` a and `loss` b in the same unit of quality; `cost_ratio` r and `judge_ratio` j in questions
    to the large model."""

    right: float
    gain: float
    loss: float
    cost_ratio: float
    judge_ratio: float = 0.0

    @property
    def lead(self) -> float:
        """D: of the large model over the small one."""
        return (1.0 - self.right) * self.gain - self.right * self.loss


def margin(pair: Pair, auc: float) -> float:
    """The most that a cascade with such a gate gains beyond the coin, per question; 0 or less: it does not pay."""
    t, f = _roc(auc)
    escalated = (1.0 - pair.right) * t + pair.right * f
    gained = (1.0 - pair.right) * t * pair.gain - pair.right * f * pair.loss
    price = pair.lead / max(1.0 - pair.cost_ratio, 1e-9)
    return float((gained - (escalated + pair.judge_ratio) * price)[escalated < 1.0].max(initial=-math.inf))


def least_auc(pair: Pair) -> float | None:
    """Least AUC with which a cascade pays; None where not even a gate without error does."""
    enough = WORTHWHILE * pair.lead
    if pair.lead <= 0 or pair.cost_ratio >= 1 or margin(pair, PERFECT) <= enough:
        return None
    low, high = 0.5, PERFECT
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if margin(pair, middle) > enough else (middle, high)
    return high


def _roc(auc: float) -> tuple[Floats, Floats]:
    d = math.sqrt(2.0) * _NORMAL.inv_cdf(min(max(auc, 1 - PERFECT), PERFECT))
    cdf = np.vectorize(_NORMAL.cdf, otypes=[np.float64])
    return cdf(d - _THRESHOLDS), cdf(-_THRESHOLDS)
