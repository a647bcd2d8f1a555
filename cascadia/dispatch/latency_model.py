"""Latency of an answer on replicas of one kind, learnt while they serve.

A request reads x tokens and writes o; its replica has a load of b in hand: n other requests, and their K tokens, which
weigh as much as `TOKENS_A_REQUEST` to one. A step of its engine takes as long as the batch is large and the contexts
are long, and reading takes its time too, so

    seconds = base + read * x + o * (step + load * b),    b = n + K / 4096

The four coefficients follow the answers by recursive least squares with forgetting (Haykin, Adaptive Filter Theory,
section 9), of relative errors: a tenth of a short answer counts as much as a tenth of a long one. They begin where the
plan's simulation left them, so that the first request is told right; Kairos (section 5.1) begins with a line too.
What tokens weigh is not learnt: requests and their tokens come and go together, and cannot be told apart by what
they cost.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

FORGETS = 0.9998
"""What an answer counts for when the next one is there: half after 3,500. Faster, and a passing crowd is taken for the
way that replicas are (docs/models/unequal.md)."""
DOUBT, DOUBT_OF_PLANS = 100.0, 0.001
"""How far from their first values, relative to `SCALE`, coefficients are thought to be; and from a plan's."""
MOST_MISS = 0.5
"""Of the time that was taken: an answer that was further off counts for no more."""
SCALE = (0.1, 1e-4, 1e-2, 1e-4)
"""Of seconds; a token read; a token written; a request in hand, for each token written."""
LEAST = 1e-6
"""Of a coefficient, relative to `SCALE`."""
MOST_DOUBT = 1.0
"""Where nothing new is seen, doubt grows with forgetting: beyond this nothing is forgotten."""
MISTAKEN = 0.5
"""Mean error beyond which a model is not relied on..."""
ANEW = 200
"""...and begun anew after so many answers in a row: a plan may be wrong, and an engine become another. What a passing
crowd does is over sooner."""
LEARNS = 0.02
"""Weight of the latest answer in the mean error."""
MOST_ERROR = 10.0
"""What an answer counts for in it at most."""
_TERMS = range(len(SCALE))


class Coefficients(NamedTuple):
    """Coefficients of the formula above, in seconds."""

    base_s: float
    read_s: float
    step_s: float
    load_s: float


NOTHING_KNOWN = Coefficients(0.1, 1e-4, 2e-2, 2e-4)
TOKENS_A_REQUEST = 4096
"""A request of ordinary length weighs half as much again for its tokens. A power of two: loads are exact sums."""
FOLLOWED = 4
"""Of the answers after the first few hundred, each so-and-so-many-th is learnt from: the others say little new."""
FIRST = 400


class Seen(NamedTuple):
    """A request as its replica got it: the tokens that it reads, and the load that the replica had in hand."""

    tokens: int
    load: float


@dataclass(slots=True)
class LatencyModel:
    """`seeded`: whether the first coefficients are a plan's.

    `error` is the mean of |taken - told| / taken of late, `answers` how many were seen.
    """

    coefficients: Coefficients = NOTHING_KNOWN
    seeded: bool = False
    error: float = 0.0
    answers: int = 0
    _doubt: list[list[float]] = field(init=False)
    _found: list[float] = field(init=False)
    _mistaken: int = 0
    _learnt: int = 0

    def __post_init__(self) -> None:
        doubt = DOUBT_OF_PLANS if self.seeded else DOUBT
        self._doubt = _alone(doubt)
        self._found = [c / scale for c, scale in zip(self.coefficients, SCALE, strict=True)]

    def seconds(self, seen: Seen, output_tokens: float) -> float:
        """Time from the request to the end of its answer."""
        c = self.coefficients
        return c.base_s + c.read_s * seen.tokens + output_tokens * (c.step_s + c.load_s * seen.load)

    def took(self, seen: Seen, output_tokens: int, seconds: float) -> None:
        """An answer of so many tokens was there after so long."""
        if seconds <= 0 or output_tokens <= 0:
            return
        self.answers += 1
        told = self.seconds(seen, output_tokens)
        error = min(abs(seconds - told) / seconds, MOST_ERROR)
        # A plain mean until there are fifty: the first answer must not stand for all.
        self.error += max(LEARNS, 1 / self.answers) * (error - self.error)
        self._mistaken = self._mistaken + 1 if self.error > MISTAKEN else 0
        if self._mistaken == ANEW:
            self._doubt, self._learnt, self._mistaken = _alone(DOUBT), 0, 0
        self._learnt += 1
        if self._learnt <= FIRST or self._learnt % FOLLOWED == 0:
            self._follow(seen, output_tokens, seconds)

    def _follow(self, seen: Seen, output_tokens: int, seconds: float) -> None:
        """One step of recursive least squares, on what is relative: all is divided by the time that was taken."""
        terms = (1, seen.tokens, output_tokens, output_tokens * seen.load)
        x = [term * scale / seconds for term, scale in zip(terms, SCALE, strict=True)]
        theta = self._found
        doubt = self._doubt
        forgets = FORGETS if sum(doubt[i][i] for i in _TERMS) < MOST_DOUBT else 1.0
        px = [sum(p * v for p, v in zip(row, x, strict=True)) for row in doubt]
        spread = forgets + sum(p * v for p, v in zip(px, x, strict=True))
        miss = 1.0 - sum(t * v for t, v in zip(theta, x, strict=True))
        if self._learnt > FIRST:
            # Not before: at first every answer is far off, and that is what there is to learn.
            miss = max(-MOST_MISS, min(MOST_MISS, miss))
        self._found = [t + p / spread * miss for t, p in zip(theta, px, strict=True)]
        self._doubt = [
            [(p - a * b / spread) / forgets for p, b in zip(row, px, strict=True)]
            for row, a in zip(doubt, px, strict=True)
        ]
        # What is found is left as it is: the squares are least there.
        told = self._found if min(self._found) >= LEAST else _none_below(self._found, self._doubt)
        self.coefficients = Coefficients(*(t * scale for t, scale in zip(told, SCALE, strict=True)))


def _alone(doubt: float) -> list[list[float]]:
    """Covariance while nothing is known of how coefficients depend on each other."""
    return [[doubt if i == j else 0.0 for j in _TERMS] for i in _TERMS]


def _none_below(found: list[float], doubt: list[list[float]]) -> list[float]:
    """The most likely coefficients near `found` of which none is below `LEAST`: no request is sped up by another.

    One after the other is set there, and the rest go along as far as they are known together: answers of one length
    tell the sum of two coefficients, and with one of them cut off alone the sum would be wrong for ever.
    """
    told = list(found)
    for _ in _TERMS:
        least = min(_TERMS, key=told.__getitem__)
        below, own = told[least] - LEAST, doubt[least][least]
        if below >= 0:
            break
        if own > 0:
            told = [t - row[least] / own * below for t, row in zip(told, doubt, strict=True)]
            with_it = doubt[least]
            doubt = [[p - row[least] * q / own for p, q in zip(row, with_it, strict=True)] for row in doubt]
        told[least] = LEAST
    return [max(LEAST, t) for t in told]


def load_of(running: int, outstanding_tokens: int) -> float:
    """Load of a replica with so much in hand."""
    return running + outstanding_tokens / TOKENS_A_REQUEST
