"""Judging of an answer, to its score and quality: an LLM judge's opinion, a check against the reference, or
both.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from cascadia.clients.engines.chat import Chat, Refused, Reply, Unanswered
from cascadia.profile.quality.prompts import Prompt
from cascadia_judge.errors import BadVerdict
from cascadia_judge.llm.llm import MANNERS, READS_TOKENS, Manner, request, verdict
from cascadia_judge.scores.checks import is_right

Ask = Callable[[Chat, Mapping[str, Any]], Awaitable[Reply]]
"""Has the chat answer a request when its turn comes."""


class Judged(NamedTuple):
    """Both 0-100; `quality` is None where the prompt has no reference."""

    score: float
    quality: float | None
    expected: bool


@dataclass(slots=True)
class Judge:
    """`chat` is None where checks alone decide. Learns what the judge's engine can do."""

    chat: Chat | None
    ask: Ask
    reads_tokens: int = READS_TOKENS
    logprobs: bool = True
    schemas: bool = True

    async def judge(self, prompt: Prompt, answer: str) -> Judged:
        """Raises `Unanswered` where there is no verdict: the engine fails, or what it writes is no grade."""
        quality = None
        if prompt.check is not None:
            quality = 100.0 if is_right(prompt.check, prompt.reference, answer) else 0.0
        if self.chat is None:
            if quality is None:
                raise ValueError(f"prompt {prompt.id} has neither a judge nor a reference")
            return Judged(quality, quality, expected=False)
        score, expected = await self._score(self.chat, prompt.question, answer)
        return Judged(score, quality, expected)

    async def _score(self, chat: Chat, question: str, answer: str) -> tuple[float, bool]:
        said = ""
        for manner in MANNERS:
            if manner.forced and not self.schemas:
                continue
            try:
                reply = await self._reply(chat, question, answer, manner)
                found = verdict(reply.text, reply.tokens, forced=manner.forced)
                return found.score, found.expected
            except BadVerdict as error:
                said = error.what
            except Refused:
                if not manner.forced:
                    raise
                self.schemas = False
        raise Unanswered("no grade", f"{said}, and no grade when asked in other manners")

    async def _reply(self, chat: Chat, question: str, answer: str, manner: Manner) -> Reply:
        asked = self.logprobs
        body = partial(request, question, answer, manner, reads_tokens=self.reads_tokens)
        try:
            return await self.ask(chat, body(logprobs=asked))
        except Refused as error:
            if not asked or "logprob" not in str(error):
                raise
            self.logprobs = False
            return await self.ask(chat, body(logprobs=False))
