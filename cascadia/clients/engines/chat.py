"""One chat completion at an OpenAI-compatible API: the answer, or whether it is worth asking again."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

from cascadia.clients.engines.errors import QUOTED, engine_words
from cascadia_judge.llm.llm import Token

CONNECT_S = 10.0

_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses that another attempt may not meet."""
_JSON = {"content-type": "application/json"}
_OTHER_LIMIT = "max_completion_tokens"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


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


class Retryable(Unanswered):
    """Failure of a request that may be answered when asked again, where the engine has said so after `after_s`."""

    def __init__(self, kind: str, message: str, after_s: float | None = None) -> None:
        super().__init__(kind, message)
        self.after_s = after_s


class Refused(Unanswered):
    """Asking again would not help. `status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}", message)
        self.status = status


class Chat:
    """Use as `async with`; `connections` bounds how many requests are under way.

    Learns by which name the engine knows `max_tokens`: OpenAI's newer models know it only by another.
    """

    def __init__(self, endpoint: Endpoint, connections: int) -> None:
        self.endpoint = endpoint
        self.limit = "max_tokens"
        key = endpoint.api_key
        self.http = httpx.AsyncClient(
            headers={"authorization": f"Bearer {key}"} if key else {},
            # A request's whole time is limited by who asks; this is for reaching the engine at all.
            timeout=httpx.Timeout(None, connect=CONNECT_S),
            limits=httpx.Limits(max_connections=connections),
            # A proxy may lead to a judge elsewhere, and never to an engine on this machine.
            trust_env=urlsplit(endpoint.url).hostname not in _LOOPBACK,
        )

    async def __aenter__(self) -> "Chat":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def ask(self, body: Mapping[str, Any]) -> Reply:
        """One attempt. Raises `Retryable` or `Refused`."""
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
            # Written in ASCII: half a surrogate pair in an answer must not end the run when it goes to the judge.
            content = json.dumps({"model": self.endpoint.model, **named}).encode("ascii")
            answer = await self.http.post(url, content=content, headers=_JSON)
        except httpx.HTTPError as error:
            raise Retryable("no connection", f"{url} {reason(error)}") from None
        if answer.status_code != 200:
            message = f"{url} answers {answer.status_code}: {engine_words(answer.content)}"
            if answer.status_code in _PASSING:
                raise Retryable(f"HTTP {answer.status_code}", message, _after_s(answer))
            raise Refused(answer.status_code, message)
        return _reply(url, answer.content)


def reason(error: httpx.HTTPError) -> str:
    """Reason for what went wrong on the way, as the end of a sentence that begins with the address."""
    if isinstance(error, httpx.TimeoutException):
        return "does not answer in time"
    if isinstance(error, httpx.ConnectError):
        return f"cannot be reached ({error})"
    return f"broke off ({type(error).__name__})"


def _after_s(answer: httpx.Response) -> float | None:
    try:
        after_s = float(answer.headers["retry-after"])
    except (KeyError, ValueError):
        return None
    return after_s if after_s >= 0 and math.isfinite(after_s) else None


def _reply(url: str, content: bytes) -> Reply:
    try:
        document = json.loads(content)
        choice, usage = document["choices"][0], document["usage"]
        text = choice["message"].get("content") or ""
        counts = int(usage["prompt_tokens"]), int(usage["completion_tokens"])
        listed = (choice.get("logprobs") or {}).get("content") or ()
        tokens = tuple(_token(entry) for entry in listed)
        if not isinstance(text, str):
            raise TypeError("content")
    except (LookupError, ValueError, ArithmeticError, TypeError, AttributeError, RecursionError) as error:
        lacks = f"{type(error).__name__} {error}"[:QUOTED]
        raise Retryable(
            "unreadable reply", f"{url} answers without text and usage in OpenAI's form ({lacks})"
        ) from None
    return Reply(text, choice.get("finish_reason") == "length", *counts, tokens)


def _token(entry: Mapping[str, Any]) -> Token:
    """Tokens that are written alike are one; the token that was written is there even where it is not at the top."""
    probability: dict[str, float] = {}
    for seen in entry.get("top_logprobs") or ():
        probability[seen["token"]] = probability.get(seen["token"], 0.0) + math.exp(seen["logprob"])
    probability.setdefault(entry["token"], math.exp(entry["logprob"]))
    return Token(entry["token"], probability)
