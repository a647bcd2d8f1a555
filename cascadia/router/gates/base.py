"""Gate: what scores an answer. A verdict is a score 0-100, or a `JudgeFailed` that names what went wrong."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec
import orjson
from msgspec import Struct

from cascadia.router.gates.usage import spend
from cascadia.router.openai.answers import Choice, read_usage
from cascadia.router.openai.bounded import LONG_BYTES, NOT_JSON, Counted, decoded
from cascadia.router.openai.errors import StageFailed
from cascadia.router.openai.questions import answer
from cascadia.router.openai.requests import Api
from cascadia.router.replicas.replica import Call
from cascadia.router.replicas.stage import Stage
from cascadia.router.telemetry.trace_context import FORWARDED
from cascadia.router.upstream.errors import UpstreamError
from cascadia_judge.errors import BadVerdict
from cascadia_judge.injection.normalise import is_blank
from cascadia_judge.llm.llm import MANNERS, READS_TOKENS, Manner, Token, request, verdict
from cascadia_judge.llm.prompt import CHARACTERS_PER_TOKEN, PROMPT_TOKENS

VERDICT_CHARACTERS = 4096
"""More is not read of what a judge wrote; it was asked for a digit."""


class JudgeFailed(Exception):
    """`kind` is short and free of anybody's text."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Gate(Protocol):
    """`wants` is what an engine must be asked for beside the client's request, so that its answer can be scored."""

    def wants(self, api: Api) -> Mapping[str, Any]: ...

    async def score(self, question: str, choice: Choice, deadline_s: float) -> float: ...


class _Logprob(Counted):
    token: str
    logprob: float
    top_logprobs: list["_Logprob"] | None = None


class _Logprobs(Struct):
    content: list[_Logprob] | None = None


class _Message(Struct):
    content: str | None = None


class _Choice(Counted):
    message: _Message
    logprobs: _Logprobs | None = None


class _Verdict(Struct):
    choices: list[_Choice]


_verdict = msgspec.json.Decoder(_Verdict)


class LlmGate:
    """An LLM judge behind an OpenAI-compatible API; `stage` has its replicas. Learns what its engine can do."""

    def __init__(self, stage: Stage, reads_tokens: int = READS_TOKENS) -> None:
        self.stage = stage
        self.reads_tokens = reads_tokens
        self.logprobs = True
        self.schemas = True

    def wants(self, api: Api) -> Mapping[str, Any]:  # noqa: ARG002 (it reads the text alone)
        return {}

    async def score(self, question: str, choice: Choice, deadline_s: float) -> float:
        text = answer(choice)
        if is_blank(text):
            return 0.0
        if is_blank(question):
            # As of a prompt of tokens: whether an answer is good nobody can say who does not know to what.
            raise JudgeFailed("no-question")
        for manner in MANNERS:
            if manner.forced and not self.schemas:
                continue
            reply = await self._asked(question, text, manner, deadline_s)
            if reply is None:
                continue
            said, tokens = reply
            try:
                return verdict(said, tokens, forced=manner.forced).score
            except BadVerdict:
                continue
        raise JudgeFailed("nonsense")

    async def _asked(
        self, question: str, text: str, manner: Manner, deadline_s: float
    ) -> tuple[str, list[Token]] | None:
        """Text and tokens of the reply; None where the engine cannot be asked in this manner."""
        while True:
            body = request(question, text, manner, reads_tokens=self.reads_tokens, logprobs=self.logprobs)
            content = orjson.dumps({"model": self.stage.settings.model, **_encodable(body)})
            tokens = PROMPT_TOKENS + int((len(question) + len(text)) / CHARACTERS_PER_TOKEN)
            path, most = b"/v1/chat/completions", manner.max_tokens
            call = Call(path, content, FORWARDED.get(), tokens, None, deadline_s, most_output=most)
            try:
                reply = await self.stage.buffered(call, read_usage)
            except StageFailed as error:
                raise JudgeFailed(error.kind) from None
            if reply.found is not None:
                spend(reply.found)
                self.stage.counted(reply.found)
                return _read(reply.body)
            # Learnt from the refusal itself: engines do not tell beforehand what they can do.
            if self.logprobs and b"logprob" in reply.body[:LONG_BYTES]:
                self.logprobs = False
                continue
            if manner.forced:
                self.schemas = False
                return None
            raise JudgeFailed(f"status-{reply.status}")


def _encodable(body: dict[str, Any]) -> dict[str, Any]:
    """Half a surrogate pair in an answer is no reason to do without a verdict."""
    messages = [
        {"role": m["role"], "content": m["content"].encode("utf-8", "replace").decode()}
        for m in body["messages"]
    ]
    return body | {"messages": messages}


def _read(body: bytes) -> tuple[str, list[Token]]:
    try:
        choice = decoded(_verdict, body).choices[0]
    except (*NOT_JSON, IndexError):
        raise JudgeFailed("unreadable") from None
    content = (choice.logprobs.content if choice.logprobs else None) or []
    return (choice.message.content or "")[:VERDICT_CHARACTERS], [_token(entry) for entry in content]


def _token(entry: _Logprob) -> Token:
    """Tokens that are written alike are one; the token that was written is there even where it is not at the top."""
    probability: dict[str, float] = {}
    for seen in entry.top_logprobs or ():
        probability[seen.token] = probability.get(seen.token, 0.0) + math.exp(min(0.0, seen.logprob))
    probability.setdefault(entry.token, math.exp(min(0.0, entry.logprob)))
    return Token(entry.token, probability)


async def judged(gate: Gate, question: str, choice: Choice, timeout_s: float, deadline_s: float) -> float:
    """`gate`'s score, within `timeout_s` and the request's own deadline. Raises `JudgeFailed`."""
    return await within(lambda until_s: gate.score(question, choice, until_s), timeout_s, deadline_s)


async def within(ask: Callable[[float], Awaitable[float]], timeout_s: float, deadline_s: float) -> float:
    """Result of `ask`, who is told until when. Raises `JudgeFailed`."""
    until_s = min(deadline_s, asyncio.get_running_loop().time() + timeout_s)
    try:
        async with asyncio.timeout_at(until_s):
            return await ask(until_s)
    except TimeoutError:
        raise JudgeFailed("timeout") from None
    except UpstreamError as error:
        raise JudgeFailed(error.kind) from None
