"""One question sent to one endpoint, and what came of it."""

import math
import time
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from cascadia.demo.questions.prompt import request
from cascadia.demo.questions.question import Question
from cascadia.domain.errors import CascadiaError

if TYPE_CHECKING:
    import httpx

LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Certainty:
    """Certainty of an engine in its answer: log-probabilities of the tokens written, and p(first) - p(second)."""

    sum_logprob: float
    mean_logprob: float
    min_logprob: float
    mean_margin: float
    tokens: int


@dataclass(frozen=True, slots=True)
class Answer:
    """`stage` wrote it. `total_tokens`: (in, out) of all stages asked, where a cascade says so."""

    question: Question
    text: str
    stage: str
    _: KW_ONLY
    seconds: float
    input_tokens: int
    output_tokens: int
    total_tokens: tuple[int, int]
    score: float | None = None
    certainty: Certainty | None = None

    @property
    def right(self) -> bool:
        return self.question.check.passes(self.text)


async def ask(
    client: "httpx.AsyncClient", url: str, model: str, question: Question, *, certainty: bool = False
) -> Answer:
    """Raises `CascadiaError` where there is no answer. An engine that drops a kept connection is asked anew."""
    import httpx

    body = request(model, question.text)
    if certainty:
        body |= {"logprobs": True, "top_logprobs": 2}
    started_s = time.perf_counter()
    try:
        reply = await client.post(f"{url}/v1/chat/completions", json=body, timeout=LIMIT_S)
    except httpx.RemoteProtocolError:
        reply = await client.post(f"{url}/v1/chat/completions", json=body, timeout=LIMIT_S)
    seconds = time.perf_counter() - started_s
    if reply.status_code != 200:
        raise CascadiaError(f"{model} at {url} says {reply.status_code}: {reply.text[:200]}")
    return _read(reply.json(), reply.headers.get("x-cascadia-stage", model), question, seconds)


def _read(document: dict[str, Any], stage: str, question: Question, seconds: float) -> Answer:
    choice, usage = document["choices"][0], document["usage"]
    said = document.get("cascadia", {})
    total = said.get("usage", usage)
    return Answer(
        question=question,
        text=choice["message"]["content"] or "",
        stage=stage,
        seconds=seconds,
        input_tokens=usage["prompt_tokens"],
        output_tokens=usage["completion_tokens"],
        total_tokens=(total["prompt_tokens"], total["completion_tokens"]),
        score=said.get("score"),
        certainty=_certainty((choice.get("logprobs") or {}).get("content") or []),
    )


def _certainty(tokens: list[dict[str, Any]]) -> Certainty | None:
    if not tokens:
        return None
    logprobs = [min(0.0, token["logprob"]) for token in tokens]
    margins = [_margin([top["logprob"] for top in token["top_logprobs"]]) for token in tokens]
    return Certainty(
        sum_logprob=sum(logprobs),
        mean_logprob=sum(logprobs) / len(tokens),
        min_logprob=min(logprobs),
        mean_margin=sum(margins) / len(tokens),
        tokens=len(tokens),
    )


def _margin(logprobs: list[float]) -> float:
    """A token without an alternative was certain."""
    first, *others = sorted((math.exp(min(0.0, each)) for each in logprobs), reverse=True) or [1.0]
    return first - others[0] if others else first
