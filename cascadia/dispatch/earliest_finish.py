"""The replica that costs least time, weighted by what its time is worth, among those that finish by the deadline.

Kairos (section 5.1, Eq. 2, 3 and 8) for one request: with L_j the time until replica j would have answered, and C_j in
(0, 1] what an hour of j is worth beside one of the fastest, it takes argmin C_j L_j among those with L_j within the
deadline, and where there is none the one that is done first. So short answers fill the slow replicas, and the fast ones
have room for the long. Without a deadline nothing is gained by keeping fast replicas free: all C_j are 1.

Two things are not the paper's, since an engine batches and an answer's length is not known. C_j is the square root of
its Definition 1: a replica that serves many at once costs each of them time. And the deadline is to be kept by an
answer that nine in ten are not longer than, with time to spare for those who come later and share the batch.

Kinds of which one takes less than twice the time of another are not told apart: of those the least loaded is as good,
and nothing depends on what is told of lengths.

L_j rises with what a replica has in hand, by as much for all of a kind. So within a kind the least loaded is enough.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import ClassVar, NamedTuple

from cascadia.dispatch.answer_length import AnswerLength
from cascadia.dispatch.candidate import Asked, TimedCandidate
from cascadia.dispatch.latency_model import MISTAKEN, LatencyModel, Seen
from cascadia.dispatch.least_outstanding import LeastOutstanding
from cascadia.dispatch.output_length import OutputLength

ENOUGH = 50
"""Answers of a kind after which a model that no plan has seeded is relied on."""
SPARE = 1.5
"""What is told of a long answer, times this, is to be within the deadline: batches grow while it is written."""
UNEQUAL = 0.5
"""Time that a large request takes on the fastest kind, of that on the slowest. Above it, no rate was ever won by
lengths (docs/models/unequal.md)."""
WEIGHED_ANEW = 64
"""Answers between two looks at what kinds are worth."""


_NONE: list[float] = []


class Trial(NamedTuple):
    """A request as it was given to a replica: what is learnt from its answer is learnt from this."""

    kind: str
    seen: Seen
    expected_tokens: float
    """Of each of its `answers`; what it counts for in hand is these and what it reads."""
    most_output: int | None = None
    """Tokens that each has at most, where that is known."""
    answers: int = 1

    @property
    def tokens(self) -> int:
        return self.seen.tokens + round(self.answers * self.expected_tokens)


@dataclass(slots=True)
class _Kind:
    """Replicas of one kind: their places among the candidates, and where among them it looks first."""

    name: str
    model: LatencyModel
    members: list[TimedCandidate]
    places: list[int]
    worth: float = 1.0
    turn: int = 0

    def next(self, loads: list[float]) -> int:
        """Place of the least loaded, equals in turn: several routers do not all begin with the same."""
        least, turn = min(loads), self.turn
        at = loads.index(least)
        if at < turn and least in loads[turn:]:
            at = loads.index(least, turn)
        self.turn = at + 1
        return self.places[at]


@dataclass(slots=True)
class EarliestFinish:
    """`models` by kind; a kind without one begins with what `LatencyModel` takes for granted.

    While a model knows too little, or errs by more than half, or too little of answers' lengths is told, requests go to
    the least outstanding, and count for as much as they do there: by the mean of all answers.
    """

    binds_late: ClassVar[bool] = False
    """Whether requests wait for the replica that suits them best, and it is a `Matching`."""
    models: dict[str, LatencyModel] = field(default_factory=dict)
    length: OutputLength = field(default_factory=OutputLength)
    least: LeastOutstanding = field(default_factory=LeastOutstanding)
    any_length: AnswerLength = field(default_factory=AnswerLength)
    """Of answers to whatever prompt."""
    _candidates: list[TimedCandidate] = field(default_factory=list)
    _kinds: list[_Kind] = field(default_factory=list)
    _answers: int = 0
    _relied: bool = False
    _unequal: bool = False

    @property
    def relied(self) -> bool:
        """Tells whether the kinds that were last asked about are unequal, and their models and lengths relied on."""
        return self._relied and self._unequal and self.length.tells

    def choose(self, candidates: Sequence[TimedCandidate], asked: Asked) -> int:
        """Index of the replica that gets the request."""
        if candidates != self._candidates:
            self._arrange(candidates)
        if not (self._relied and self._unequal and self.length.tells):
            return self.least.choose(candidates, self.tokens(asked))
        tokens, most_output, _, left_s, answers = asked
        mean, high = self.length.expected(tokens, most_output)
        bounded, beside = left_s != inf, answers - 1
        best: _Kind | None = None
        cost = first_s = inf
        soonest, chosen, spare = self._kinds[0], _NONE, _NONE
        for kind in self._kinds:
            base_s, read_s, step_s, load_s = kind.model.coefficients
            begins_s = base_s + read_s * tokens
            # A kind that would cost more with nothing in hand is not looked at.
            idle_s = begins_s + mean * (step_s + load_s * beside)
            if (kind.worth * idle_s >= cost) if bounded else (idle_s >= first_s):
                continue
            loads = [c.load for c in kind.members]
            token_s = step_s + load_s * (min(loads) + beside)
            took_s = begins_s + mean * token_s
            if took_s < first_s:
                soonest, first_s, spare = kind, took_s, loads
            # Without a deadline the first to finish costs least.
            if (
                bounded
                and (worth_s := kind.worth * took_s) < cost
                and SPARE * (begins_s + high * token_s) <= left_s
            ):
                best, cost, chosen = kind, worth_s, loads
        if best is None:
            best, chosen = soonest, spare
        return best.next(chosen)

    def given(self, candidate: TimedCandidate, asked: Asked, now_s: float = 0.0) -> Trial:  # noqa: ARG002
        """The request goes to `candidate`, which does not count it yet."""
        seen = Seen(asked.tokens, candidate.load + asked.answers - 1)
        return Trial(candidate.kind, seen, self._expected(asked), asked.most_output, asked.answers)

    def tokens(self, asked: Asked) -> int:
        """Tokens that the request counts for in hand: what it reads, and is likely to write."""
        return asked.tokens + round(asked.answers * self._expected(asked))

    def ended(self, trial: Trial, output_tokens: int, seconds: float) -> None:
        """Learns that its answers had so many tokens together, and were there after so long."""
        output_tokens = round(output_tokens / trial.answers)
        self.length.seen(trial.seen.tokens, output_tokens, trial.most_output)
        self.any_length.seen(output_tokens)
        self.model(trial.kind).took(trial.seen, output_tokens, seconds)
        self._answers += 1
        if self._answers % WEIGHED_ANEW == 0 or not self._relied:
            self._weigh()

    def model(self, kind: str) -> LatencyModel:
        """Model of a kind."""
        found = self.models.get(kind)
        if found is None:
            found = self.models[kind] = LatencyModel()
        return found

    def told(self, models: Mapping[str, LatencyModel]) -> None:
        """A new plan has these `models`: kinds of which no answer was seen begin with them.

        Replicas may be of other kinds now, and are looked at anew."""
        for kind, model in models.items():
            if not self.model(kind).answers:
                self.models[kind] = model
        self._candidates = []

    def _expected(self, asked: Asked) -> float:
        """Tokens of each of its answers."""
        if self.relied:
            return self.length.expected(asked.tokens, asked.most_output).mean
        return self.any_length.expected(asked.most_output)

    def _arrange(self, candidates: Sequence[TimedCandidate]) -> None:
        self._candidates = list(candidates)
        by_kind: dict[str, _Kind] = {}
        for place, candidate in enumerate(candidates):
            name = candidate.kind
            kind = by_kind.get(name)
            if kind is None:
                kind = by_kind[name] = _Kind(name, self.model(name), [], [])
            kind.members.append(candidate)
            kind.places.append(place)
        self._kinds = list(by_kind.values())
        self._weigh()

    def _weigh(self) -> None:
        """Says of each kind its C_j: the root of the time that the fastest takes for a large request, over its own
        (Definition 1)."""
        kinds = self._kinds
        self._relied = all(_is_relied_on(kind.model) for kind in kinds)
        largest = self.length.largest
        alone_s = [kind.model.seconds(Seen(largest.tokens, 0.0), largest.output_tokens) for kind in kinds]
        self._unequal = min(alone_s, default=0.0) < UNEQUAL * max(alone_s, default=0.0)
        for kind, seconds in zip(kinds, alone_s, strict=True):
            kind.worth = (min(alone_s) / seconds) ** 0.5


def _is_relied_on(model: LatencyModel) -> bool:
    return (model.seeded or model.answers >= ENOUGH) and model.error <= MISTAKEN
