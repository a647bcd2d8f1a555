"""Skill of the cascade: what its share of right answers is worth between a coin and an oracle that cost as
much.

The coin sends a share of the questions, drawn without looking, to the large model and the rest to the small one; the
share is that which makes it as dear as the cascade was. The oracle costs as much too, and knows beforehand whom to ask:
of the questions that only the large model answers rightly it sends there as many as the money allows, none else.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from cascadia.demo.measuring.asking import Answer
from cascadia.demo.measuring.measured import Pass

Floats = NDArray[np.float64]

DRAWS = 2000
DRAWS_SEED = 7
TAILS = (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class Skill:
    """Shares of right answers, 0-1. `large_share`: what part of its questions the coin sends to the large model. `way`:
    of the way from the coin to the oracle, how much the cascade goes; `lower` and `upper` hold it with 95 % confidence,
    `gain_lower` and `gain_upper` the points by which the cascade is beyond the coin."""

    cascade: float
    coin: float
    oracle: float
    _: KW_ONLY
    large_share: float
    lower: float
    upper: float
    gain_lower: float
    gain_upper: float

    @property
    def way(self) -> float:
        return _way(self.cascade, self.coin, self.oracle)


def skill_of(cascade: Pass, small: Pass, large: Pass) -> Skill | None:
    """Skill on the same questions; None where the two models cost the same, so that no share is as dear as the
    cascade.

    Limits are the percentiles of as many questions drawn anew from these, with replacement (Efron 1979).
    """
    spread = large.engine_s_per_question - small.engine_s_per_question
    if spread <= 0:
        return None
    share = min(max((cascade.engine_s_per_question - small.engine_s_per_question) / spread, 0.0), 1.0)
    right = np.array([_right(each.answers) for each in (cascade, small, large)])
    random = Random(DRAWS_SEED)
    count = right.shape[1]
    drawn = np.array([random.choices(range(count), k=count) for _ in range(DRAWS)])
    found = _compared(right[:, drawn], share)
    ways = [_way(*each) for each in found.T.tolist()]
    lower, upper = np.percentile(ways, TAILS).tolist()
    gain_lower, gain_upper = np.percentile(found[0] - found[1], TAILS).tolist()
    one, coin, oracle = _compared(right, share).tolist()
    return Skill(
        one,
        coin,
        oracle,
        large_share=share,
        lower=lower,
        upper=upper,
        gain_lower=gain_lower,
        gain_upper=gain_upper,
    )


def _compared(right: Floats, share: float) -> Floats:
    """Cascade, coin and oracle, from the right answers (3, ..., n) of cascade, small and large."""
    cascade, small, large = right
    only_large = (large * (1 - small)).mean(axis=-1)
    coin = (1 - share) * small.mean(axis=-1) + share * large.mean(axis=-1)
    oracle = small.mean(axis=-1) + np.minimum(only_large, share)
    return np.array([cascade.mean(axis=-1), coin, oracle])


def _way(cascade: float, coin: float, oracle: float) -> float:
    return (cascade - coin) / (oracle - coin) if oracle > coin else 0.0


def _right(answers: Sequence[Answer]) -> list[float]:
    return [float(answer.right) for answer in answers]
