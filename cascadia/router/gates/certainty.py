"""The engine's own certainty: one number of its log-probabilities, as a score 0-100."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from cascadia.router.examiner.examiner import Examiner, Unexamined
from cascadia.router.gates.base import JudgeFailed
from cascadia.router.openai.answers import Choice
from cascadia.router.openai.bounded import SMALL_BYTES
from cascadia.router.openai.logprobs import KINDS, Unreadable, certainty_in
from cascadia.router.openai.requests import Api
from cascadia.router.settings.model import Statistic
from cascadia_judge.scores.certainty import Certainty


class CertaintyGate:
    """`margin` (default): the mean over tokens of p(first) - p(second), times 100 (CascadeServe, app. B eq.
    5; the paper takes the scores of one classification, and an answer is many choices of a token).

    `sum-logprob`: 100 times the probability of the whole answer; `mean-logprob` and `min-logprob`: of a
    token, in the geometric mean, and of the least. `points` (statistic, score), ascending in both, replace
    that: straight lines between them. The statistic is then the plain number: a margin of 0-1, or a natural
    logarithm.
    """

    def __init__(
        self, examiner: Examiner, statistic: Statistic = "margin", points: Sequence[tuple[float, float]] = ()
    ) -> None:
        self.examiner = examiner
        self.statistic = statistic
        self.points = tuple(points)

    def wants(self, api: Api) -> Mapping[str, Any]:
        return logprobs_wanted(api)

    async def score(self, question: str, choice: Choice, deadline_s: float) -> float:  # noqa: ARG002
        found = await certainty_of(choice, self.examiner)
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


async def certainty_of(choice: Choice, examiner: Examiner) -> Certainty:
    """Many log-probabilities are read by `examiner`. Raises `JudgeFailed` where there are none that can be read."""
    parts = choice.logprobs
    try:
        if sum(map(len, parts)) <= SMALL_BYTES:
            return certainty_in(parts)
        return Certainty(*await examiner.certainty(parts))
    except Unreadable as error:
        raise JudgeFailed(error.kind) from None
    except Unexamined as error:
        raise JudgeFailed(f"certainty-{error.kind}" if error.kind not in KINDS else error.kind) from None


def _on_lines(value: float, points: Sequence[tuple[float, float]]) -> float:
    """Constant beyond the first point and the last."""
    if value <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if value <= x1:
            return y0 + (y1 - y0) * (value - x0) / (x1 - x0)
    return points[-1][1]
