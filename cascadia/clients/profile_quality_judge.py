"""From an answer to its score and quality: an LLM judge's opinion, a check against the reference, or both."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from cascadia.clients.chat import Chat, Refused, Reply, Unanswered
from cascadia.clients.profile_quality_prompts import Prompt
from cascadia_judge.checks import is_right
from cascadia_judge.errors import BadVerdict
from cascadia_judge.llm import READS_TOKENS, request, verdict

ATTEMPTS = 4
"""Of getting a grade out of a judge that answers, but not with a grade."""

Ask = Callable[[Callable[[], Awaitable[Reply]]], Awaitable[Reply]]
"""Makes one attempt, and others where that fails in passing."""


class Judged(NamedTuple):
    """Both 0-100; `quality` is None where the prompt has no reference."""

    score: float
    quality: float | None
    expected: bool


@dataclass(slots=True)
class Judge:
    """`chat` is None where checks alone decide. Learns whether the judge's engine gives log-probabilities."""

    chat: Chat | None
    ask: Ask
    reads_tokens: int = READS_TOKENS
    logprobs: bool = True

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
        attempt = 0
        while attempt < ATTEMPTS:
            asked = self.logprobs
            body = request(question, answer, reads_tokens=self.reads_tokens, attempt=attempt, logprobs=asked)
            try:
                reply = await self.ask(partial(chat.ask, body))
                found = verdict(reply.text, reply.tokens)
                return found.score, found.expected
            except Refused as error:
                if not asked or "logprob" not in str(error):
                    raise
                self.logprobs = False
            except BadVerdict as error:
                said = error.what
                attempt += 1
        raise Unanswered("no grade", f"{said}, and no grade in {ATTEMPTS} attempts")
