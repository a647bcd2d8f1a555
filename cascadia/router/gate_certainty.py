"""The engine's own certainty: one number of its log-probabilities, as a score 0-100."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import Struct

from cascadia.router.answers import Choice
from cascadia.router.gates import JudgeFailed
from cascadia.router.requests import Api
from cascadia.router.settings import Statistic
from cascadia_judge.certainty import Certainty
from cascadia_judge.errors import BadVerdict


class CertaintyGate:
    """`margin` (default): the mean over tokens of p(first) - p(second), times 100 (CascadeServe, app. B eq.
    5; the paper takes the scores of one classification, and an answer is many choices of a token).

    `sum-logprob`: 100 times the probability of the whole answer; `mean-logprob` and `min-logprob`: of a
    token, in the geometric mean, and of the least. `points` (statistic, score), ascending in both, replace
    that: straight lines between them. The statistic is then the plain number: a margin of 0-1, or a natural
    logarithm.
    """

    def __init__(self, statistic: Statistic = "margin", points: Sequence[tuple[float, float]] = ()) -> None:
        self.statistic = statistic
        self.points = tuple(points)

    def wants(self, api: Api) -> Mapping[str, Any]:
        return logprobs_wanted(api)

    async def score(self, question: str, choice: Choice, deadline_s: float) -> float:  # noqa: ARG002
        found = certainty_of(choice)
        value = {
            "margin": found.mean_margin,
            "sum-logprob": found.sum_logprob,
            "mean-logprob": found.mean_logprob,
            "min-logprob": found.min_logprob,
        }[self.statistic]
        if self.points:
            return _on_lines(value, self.points)
        return 100.0 * (value if self.statistic == "margin" else math.exp(value))


def logprobs_wanted(api: Api) -> Mapping[str, Any]:
    return {"logprobs": True, "top_logprobs": 2} if api == "chat" else {"logprobs": 2}


class _Entry(Struct):
    logprob: float
    top_logprobs: list["_Entry"] = []


class _Written(Struct):
    """`content` of chat completions; the others of `/v1/completions`, where llama.cpp writes the chat
    form."""

    content: list[_Entry] | None = None
    token_logprobs: list[float | None] | None = None
    top_logprobs: list[dict[str, float] | None] | None = None


_written = msgspec.json.Decoder(_Written)


def certainty_of(choice: Choice) -> Certainty:
    """Raises `JudgeFailed` where the engine gave no log-probabilities that can be read."""
    logprobs: list[float] = []
    margins: list[float] = []
    for part in choice.logprobs:
        try:
            found = _written.decode(part)
        except msgspec.MsgspecError:
            raise JudgeFailed("unreadable-logprobs") from None
        if found.content is not None:
            for entry in found.content:
                logprobs.append(entry.logprob)
                margins.append(_margin([top.logprob for top in entry.top_logprobs] or [entry.logprob]))
            continue
        own = found.token_logprobs or []
        for at, tops in enumerate(found.top_logprobs or ()):
            if tops:
                best = max(tops.values())
                # Of a prompt's first token there is none.
                given = own[at] if at < len(own) else best
                logprobs.append(best if given is None else given)
                margins.append(_margin(list(tops.values())))
    if not logprobs:
        raise JudgeFailed("no-logprobs")
    try:
        return Certainty.of(logprobs, margins)
    except BadVerdict:
        raise JudgeFailed("unreadable-logprobs") from None


def _margin(logprobs: list[float]) -> float:
    """A token without an alternative was certain."""
    first, *others = sorted((math.exp(min(0.0, p)) for p in logprobs), reverse=True)
    return first - others[0] if others else first


def _on_lines(value: float, points: Sequence[tuple[float, float]]) -> float:
    """Constant beyond the first point and the last."""
    if value <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if value <= x1:
            return y0 + (y1 - y0) * (value - x0) / (x1 - x0)
    return points[-1][1]
