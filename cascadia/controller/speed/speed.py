"""Speed of an engine while it serves, as a multiple of what its calibration says.

A sequence's next token comes after one iteration. With s the seconds of a decoding step at the batch and context that
sequences met, and r the share of the time that prefills take, both by the calibration, an engine whose times are f
times as long shows f s / (1 - f r) between tokens: in that time prefills go on arriving. What is measured, m, gives

    f = m / (s + m r)

A sequence meets the others that are there (Poisson arrivals see time averages): a batch of 1 + b, where b, the mean
number decoding, is the time that sequences spent between tokens over the time that passed (Little 1961). The factors
of a replica's windows are averaged in their logarithms, with a memory that fades: recursive least squares of one
constant with forgetting (Ljung, System Identification, section 11.2), which also says how sure it is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, inf, log, sqrt

from cascadia_sim.iteration.timing import PS_PER_S, ReplicaTiming

FORGETS = 0.97
"""Of a window's weight, what is left a window later: a memory of about 33."""
MOST_TOKENS = 5_000.0
"""Of a window: more do not weigh more, since what errs then is not chance."""
LEAST_TOKENS = 20.0
FEWEST = 5.0
"""Windows before anything is concluded."""
SURE = 2.0
"""Standard errors on either side: about 95 %."""
LEAST_ERROR = 0.02
"""Standard error of a factor at best: our own equations are no better."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Work of one replica in `seconds`: prompt tokens read, tokens written after the first ones, and the sum
    over sequences of the seconds between them. `prompt` and `context`: mean tokens of a prompt, and of what a
    sequence attends to.
    """

    seconds: float
    prompt_tokens: float
    tokens: float
    decode_s: float
    prompt: float
    context: float


def factor(seen: Seen, timing: ReplicaTiming) -> float | None:
    """Factor by which its iterations took longer than `timing` says; None where too little came to tell."""
    if seen.tokens < LEAST_TOKENS or seen.seconds <= 0 or seen.decode_s <= 0:
        return None
    between_s = seen.decode_s / seen.tokens
    lanes = timing.lanes
    batch = min(1.0 + seen.decode_s / seen.seconds, float(timing.max_num_seqs)) / lanes
    drafts = timing.drafts_at(round(batch))
    step_s = _at(timing.token_ps, batch * (drafts + 1)) + _at(timing.sequence_ps, batch)
    step_s += (timing.context_ps + drafts * timing.draft_context_ps) * max(batch, 1.0) * seen.context
    if timing.draft_ps.size:
        step_s += _at(timing.draft_ps, batch)
    step_s /= timing.progress(drafts)
    share = seen.prompt_tokens * _a_prompt_token(timing, batch, seen.prompt) / lanes / seen.seconds
    return between_s / ((step_s + between_s * share) / PS_PER_S)


def _at(table: object, count: float) -> float:
    """Value between two counts, linearly; picoseconds."""
    count = max(count, 1.0)
    below = min(int(count), len(table) - 2)  # type: ignore[arg-type]
    low, high = float(table[below]), float(table[below + 1])  # type: ignore[index]
    return low + (count - below) * (high - low)


def _a_prompt_token(timing: ReplicaTiming, batch: float, prompt: float) -> float:
    """Picoseconds that one more token of a prompt adds to an iteration."""
    chunk = max(1.0, min(prompt, float(timing.max_num_batched_tokens)) - batch)
    grown = _at(timing.token_ps, batch + chunk) - _at(timing.token_ps, batch)
    return grown / chunk + timing.pair_ps * (prompt + 1.0) / 2.0


@dataclass(frozen=True, slots=True)
class Speed:
    """Speed learnt so far: sums of weights, of weighted logarithms and their squares, and of squared weights."""

    weight: float = 0.0
    first: float = 0.0
    second: float = 0.0
    weights: float = 0.0

    def learnt(self, found: float, tokens: float) -> "Speed":
        """The speed with one more window's factor."""
        w, x = min(tokens, MOST_TOKENS), log(found)
        return Speed(
            FORGETS * self.weight + w,
            FORGETS * self.first + w * x,
            FORGETS * self.second + w * x * x,
            FORGETS**2 * self.weights + w * w,
        )

    @property
    def windows(self) -> float:
        """Equal ones that would say as much."""
        return self.weight**2 / self.weights if self.weights else 0.0

    @property
    def factor(self) -> float:
        return exp(self.first / self.weight) if self.weight else 1.0

    @property
    def error(self) -> float:
        """Standard error of the factor's logarithm; infinite where too few windows were seen."""
        if self.windows < FEWEST:
            return inf
        mean = self.first / self.weight
        spread = max(self.second / self.weight - mean * mean, 0.0)
        return max(sqrt(spread / (self.windows - 1.0)), LEAST_ERROR)

    @property
    def sure(self) -> bool:
        return self.error < inf

    @property
    def range(self) -> tuple[float, float]:
        """Range that holds the factor with about 95 % confidence."""
        if not self.sure:
            return 0.0, inf
        return self.factor * exp(-SURE * self.error), self.factor * exp(SURE * self.error)


def together(speeds: "Sequence[Speed]") -> Speed:
    """Speed of equal replicas as one."""
    return Speed(
        sum(s.weight for s in speeds),
        sum(s.first for s in speeds),
        sum(s.second for s in speeds),
        sum(s.weights for s in speeds),
    )


def others(speeds: "Sequence[Speed]") -> list[Speed]:
    """For each the speed of all but it as one. Nothing is taken away from a sum, which would lose digits."""

    def before(some: "Iterable[Speed]") -> list[Speed]:
        return list(accumulate(some, lambda one, other: together((one, other)), initial=Speed()))

    after = before(reversed(speeds))[-2::-1]
    return [together(pair) for pair in zip(before(speeds), after, strict=False)]


def ratio_range(one: Speed, other: Speed) -> tuple[float, float, float]:
    """`one`'s factor over the other's, and the range that holds it."""
    ratio, error = one.factor / other.factor, sqrt(one.error**2 + other.error**2)
    if error == inf:
        return ratio, 0.0, inf
    return ratio, ratio * exp(-SURE * error), ratio * exp(SURE * error)
