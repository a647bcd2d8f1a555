"""One question sent to one endpoint through the OpenAI SDK, and what came of it."""

import math
import os
import time
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from cascadia.demo.questions.prompt import request
from cascadia.demo.questions.question import Question
from cascadia.demo.stages import KEY_ENV
from cascadia.domain.errors import CascadiaError

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion, ChatCompletionTokenLogprob

LIMIT_S = 120.0
TRIES = 3


def engine(url: str) -> "AsyncOpenAI":
    """A client of the engine, router or API at `url`; use as `async with`."""
    from cascadia.clients.engines.sdk import sdk

    return sdk(f"{url}/v1", os.environ.get(KEY_ENV), timeout_s=LIMIT_S, tries=TRIES, connections=None)


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


FELL_BEHIND = (503, 504)


async def ask(client: "AsyncOpenAI", model: str, question: Question, *, certainty: bool = False) -> Answer:
    """Raises `CascadiaError` where there is no answer."""
    from openai import APIConnectionError, APIStatusError

    body = request(model, question.text)
    if certainty:
        body |= {"logprobs": True, "top_logprobs": 2}
    started_s = time.perf_counter()
    try:
        reply = await client.chat.completions.with_raw_response.create(**body)
    except APIStatusError as error:
        said = error.response.text[:200]
        if error.status_code in FELL_BEHIND:
            said += (
                "; the machine is busier than when it was measured: end other programs, or add --calibrate"
            )
        raise CascadiaError(f"{model} at {client.base_url} says {error.status_code}: {said}") from None
    except APIConnectionError as error:
        raise CascadiaError(f"{model} at {client.base_url}: {error} ({error.__cause__})") from None
    seconds = time.perf_counter() - started_s
    return _read(reply.parse(), reply.headers.get("x-cascadia-stage", model), question, seconds)


def _read(answer: "ChatCompletion", stage: str, question: Question, seconds: float) -> Answer:
    choice, usage = answer.choices[0], answer.usage
    if usage is None:
        raise CascadiaError(f"{stage} does not count its tokens: its answer has no usage")
    counts = {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens}
    said: dict[str, Any] = (answer.model_extra or {}).get("cascadia") or {}
    total = said.get("usage", counts)
    return Answer(
        question=question,
        text=choice.message.content or "",
        stage=stage,
        seconds=seconds,
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=(total["prompt_tokens"], total["completion_tokens"]),
        score=said.get("score"),
        certainty=_certainty((choice.logprobs.content if choice.logprobs else None) or []),
    )


def _certainty(tokens: "list[ChatCompletionTokenLogprob]") -> Certainty | None:
    if not tokens:
        return None
    logprobs = [min(0.0, token.logprob) for token in tokens]
    margins = [_margin([top.logprob for top in token.top_logprobs]) for token in tokens]
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
