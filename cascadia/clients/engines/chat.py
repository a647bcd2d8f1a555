"""Chat completions at an OpenAI-compatible API: the answer, or why there is none after all attempts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from openai import APIConnectionError, APIStatusError, APITimeoutError
from openai.types.chat import ChatCompletion, ChatCompletionTokenLogprob

from cascadia.clients.engines.errors import cause
from cascadia.clients.engines.sdk import sdk
from cascadia.clients.engines.words import QUOTED, engine_words
from cascadia_judge.llm.llm import Token

TIMEOUT_S = 300.0
TRIES = 6
"""Attempts at one answer, with waits that double from half a second to eight, or as `Retry-After` says."""

_PASSING = frozenset({408, 409, 429})
"""Statuses below 500 that another attempt may not meet: the SDK makes it."""
_OTHER_LIMIT = "max_completion_tokens"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`name` is the stage's, or `judge`; `url` is what `/chat/completions` is appended to; `model` as served."""

    name: str
    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Reply:
    """Token counts are the engine's own. `tokens`: with their probabilities, where they were asked for."""

    text: str
    cut: bool
    input_tokens: int
    output_tokens: int
    tokens: tuple[Token, ...] = ()


class Unanswered(Exception):
    """`kind` is short and free of anybody's text; the message may quote the engine."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Refused(Unanswered):
    """Asking again would not help. `status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}", message)
        self.status = status


class Chat:
    """Use as `async with`; `connections` bounds how many requests are under way.

    Attempts, the waits between them and their time-outs are the OpenAI SDK's. Learns by which name the engine knows
    `max_tokens`: OpenAI's newer models know it only by another.
    """

    def __init__(self, endpoint: Endpoint, connections: int, timeout_s: float = TIMEOUT_S) -> None:
        self.endpoint = endpoint
        self.limit = "max_tokens"
        self.timeout_s = timeout_s
        self.sdk = sdk(
            endpoint.url, endpoint.api_key, timeout_s=timeout_s, tries=TRIES, connections=connections
        )

    async def __aenter__(self) -> "Chat":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.sdk.close()

    async def ask(self, body: Mapping[str, Any]) -> Reply:
        """Raises `Refused`, or another `Unanswered` when the last attempt has failed too."""
        try:
            return await self._ask(body)
        except Refused as error:
            if self.limit == _OTHER_LIMIT or _OTHER_LIMIT not in str(error):
                raise
            self.limit = _OTHER_LIMIT
            return await self._ask(body)

    async def _ask(self, body: Mapping[str, Any]) -> Reply:
        named = {self.limit if key == "max_tokens" else key: value for key, value in body.items()}
        url = f"{self.endpoint.url}/chat/completions"
        try:
            return _reply(await self.sdk.chat.completions.create(model=self.endpoint.model, **named))
        except APITimeoutError:
            raise Unanswered("time-out", f"no answer within {self.timeout_s:g} s") from None
        except APIConnectionError as error:
            raise Unanswered("no connection", f"{url} {reason(error)}") from None
        except APIStatusError as error:
            status = error.status_code
            message = f"{url} answers {status}: {engine_words(error.response.content)}"
            if status in _PASSING or status >= 500:
                raise Unanswered(f"HTTP {status}", message) from None
            raise Refused(status, message) from None
        except (LookupError, ValueError, ArithmeticError, TypeError, AttributeError, RecursionError) as error:
            lacks = f"{type(error).__name__} {error}"[:QUOTED]
            raise Unanswered(
                "unreadable reply", f"{url} answers without text and usage in OpenAI's form ({lacks})"
            ) from None


def reason(error: APIConnectionError) -> str:
    """Reason for what went wrong on the way, as the end of a sentence that begins with the address."""
    failure = cause(error)
    if isinstance(failure, httpx.TimeoutException):
        return "does not answer in time"
    if isinstance(failure, httpx.ConnectError):
        return f"cannot be reached ({failure})"
    return f"broke off ({type(failure).__name__})"


def _reply(answer: ChatCompletion) -> Reply:
    """The SDK does not check what an engine sends: whatever is not in OpenAI's form raises one error or another."""
    choice, usage = answer.choices[0], answer.usage
    if usage is None:
        raise LookupError("usage")
    listed = (choice.logprobs.content if choice.logprobs else None) or ()
    return Reply(
        # Half a surrogate pair, which JSON can carry, is no text that could be sent on to a judge or written to a file.
        (choice.message.content or "").encode(errors="replace").decode(),
        choice.finish_reason == "length",
        int(usage.prompt_tokens),
        int(usage.completion_tokens),
        tuple(_token(entry) for entry in listed),
    )


def _token(entry: ChatCompletionTokenLogprob) -> Token:
    """Tokens that are written alike are one; the token that was written is there even where it is not at the top."""
    probability: dict[str, float] = {}
    for seen in entry.top_logprobs or ():
        probability[seen.token] = probability.get(seen.token, 0.0) + math.exp(seen.logprob)
    probability.setdefault(entry.token, math.exp(entry.logprob))
    return Token(entry.token, probability)
