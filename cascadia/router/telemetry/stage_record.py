"""A stage's turn in a request, as it is seen by the log, the workload samples, the spans and the page."""

from time import monotonic
from typing import Any, NamedTuple

from msgspec import Struct

from cascadia.dispatch.earliest_finish import Trial


class Tried(NamedTuple):
    """Facts of a try when it begins, for whoever learns from its answer."""

    trial: Trial
    replica: str
    since_s: float


class Step(Struct, gc=False):
    """Times ending in `_at_s` are the event loop's; None: did not happen.

    `outcome` is empty while the turn lasts, and stays so where the client left meanwhile. `counted`: the tokens are the
    engine's own count, and not the parts of its stream.
    """

    stage: str
    started_at_s: float
    other: bool = False
    """Whether the request goes by the mixture's thresholds."""
    outcome: str = ""
    score: float | None = None
    threshold: float | None = None
    """What the score had to reach; None where none was asked for."""
    ended_at_s: float | None = None
    first_at_s: float | None = None
    answered_at_s: float | None = None
    queued_s: float = 0.0
    tries: int = 0
    replica: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    counted: bool = False
    again_input_tokens: int = 0
    """Of further answers of this stage, by which its judge compares; so `again_output_tokens`."""
    again_output_tokens: int = 0
    judged_at_s: float | None = None
    judge_s: float = 0.0
    judge_failure: str | None = None
    span_id: int = 0
    judge_span_id: int = 0
    answer: str | None = None
    """Text of the answer, only where its client wants to see that of each stage."""
    said: str | None = None
    """What an engine said that failed last, as a log may have it."""
    tried: Tried | None = None
    """The latest try, where its stage's balancing learns from answers."""
    answers: int = 1
    """That its engine was asked for last, of at most `most_output` tokens each."""
    most_output: int | None = None

    def ended(self, outcome: str) -> float:
        """Ends the turn now; how many seconds it took."""
        self.outcome = outcome
        self.ended_at_s = now_s = monotonic()
        return now_s - self.started_at_s

    def used(self, input_tokens: int, output_tokens: int) -> None:
        """Notes tokens as the engine counted; none where it did not say."""
        self.input_tokens, self.output_tokens = input_tokens, output_tokens
        self.counted = bool(input_tokens or output_tokens)

    def again(self, input_tokens: int, output_tokens: int) -> None:
        self.again_input_tokens += input_tokens
        self.again_output_tokens += output_tokens

    @property
    def seconds(self) -> float:
        return 0.0 if self.ended_at_s is None else self.ended_at_s - self.started_at_s

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def all_tokens(self) -> int:
        return self.input_tokens + self.again_input_tokens + self.all_output_tokens

    @property
    def all_output_tokens(self) -> int:
        return self.output_tokens + self.again_output_tokens

    def usd(self, read: float, wrote: float) -> float:
        """Dollars for its engines' tokens, at so many for a million read and written."""
        taken = self.input_tokens + self.again_input_tokens
        return (taken * read + self.all_output_tokens * wrote) / 1e6

    @property
    def tpot_s(self) -> float | None:
        """Time per output token after the first; of streams that wrote two or more."""
        if self.first_at_s is None or self.answered_at_s is None or self.output_tokens < 2:
            return None
        return (self.answered_at_s - self.first_at_s) / (self.output_tokens - 1)

    def line(self) -> dict[str, Any]:
        """Entry of the log."""
        found = {
            "stage": self.stage,
            "outcome": self.outcome,
            "score": self.score,
            "threshold": self.threshold,
            "seconds": round(self.seconds, 6),
            "replica": self.replica,
        }
        return found if self.said is None else {**found, "said": self.said}

    def told(self) -> dict[str, Any]:
        """Explanation to the client: why the answer is whose it is."""
        found = {
            "stage": self.stage,
            "outcome": self.outcome,
            "score": self.score,
            "threshold": self.threshold,
        }
        if self.answer is not None:
            found |= {
                "answer": self.answer,
                "seconds": round(self.seconds, 6),
                "judge_seconds": round(self.judge_s, 6),
                "judge_failure": self.judge_failure,
                "input_tokens": self.input_tokens,
                "output_tokens": self.output_tokens,
            }
        return {name: value for name, value in found.items() if value is not None}


def begun(stage: str) -> Step:
    return Step(stage, monotonic())
