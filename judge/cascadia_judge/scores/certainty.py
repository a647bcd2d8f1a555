"""Certainty of an engine in an answer: five numbers from its own log-probabilities."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from cascadia_judge.errors import BadVerdict


@dataclass(frozen=True, slots=True)
class Certainty:
    """`sum_logprob`, `mean_logprob`, `min_logprob` (natural, <= 0) of the tokens that were written,
    `mean_margin` (0-1) the mean of p(first) - p(second) (CascadeServe, app. B eq. 5), and how many `tokens`
    >= 1 there were.
    """

    sum_logprob: float
    mean_logprob: float
    min_logprob: float
    mean_margin: float
    tokens: int

    def __post_init__(self) -> None:
        logprobs = (self.sum_logprob, self.mean_logprob, self.min_logprob)
        if not all(math.isfinite(p) and p <= 0.0 for p in logprobs):
            raise BadVerdict("certainty", "a log-probability is above 0 or not finite", "write 0 or less")
        if not 0.0 <= self.mean_margin <= 1.0 or self.tokens < 1:
            raise BadVerdict(
                "certainty", "margin or tokens are out of range", "write 0-1, and 1 or more tokens"
            )

    @classmethod
    def of(cls, written: Sequence[float], margins: Sequence[float]) -> "Certainty":
        """Certainty from each token's log-probability and margin. What an engine rounds above 0 is 0; -inf is
        `FLOOR`.
        """
        if not written or len(written) != len(margins):
            raise BadVerdict("certainty", "there are no tokens", "ask the engine for log-probabilities")
        known = [min(0.0, max(FLOOR, p)) for p in written]
        total = math.fsum(known)
        return cls(total, total / len(known), min(known), math.fsum(margins) / len(margins), len(known))

    @classmethod
    def read(cls, document: object, where: str) -> "Certainty":
        """Reads it from JSON; raises `BadVerdict`, naming `where`."""
        names = cls.__slots__
        if not isinstance(document, Mapping) or set(document) != set(names):
            raise BadVerdict(where, "is no certainty", f"write an object with {', '.join(names)}")
        values = [document[name] for name in names]
        if any(isinstance(v, bool) or not isinstance(v, int | float) for v in values):
            raise BadVerdict(where, "has what is no number", f"write numbers for {', '.join(names)}")
        try:
            total, mean, least, margin = map(float, values[:4])
            return cls(total, mean, least, margin, int(values[4]))
        except BadVerdict as error:
            raise BadVerdict(where, error.what, error.instead) from None

    def document(self) -> dict[str, float]:
        return asdict(self)


FLOOR = -50.0
"""Less than any engine's float16 can say; engines write -inf or -9999 for what they cut off."""
