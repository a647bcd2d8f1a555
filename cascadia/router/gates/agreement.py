"""Agreement of a stage with itself: it is asked again with some chance, and the score is the share of the same
answer.

Self-consistency (Wang et al. 2022), as a gate. It costs `samples` more answers of the stage, which pays
where the stage is much cheaper than the next. Answers are compared as they look, less case, spacing and
stops; where `extract` is given, by what its last match found.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from cascadia.router.examiner.examiner import Examiner, Unexamined
from cascadia.router.gates.base import JudgeFailed
from cascadia.router.gates.context import ASKED
from cascadia.router.openai.answers import Choice
from cascadia.router.openai.questions import answer
from cascadia.router.openai.requests import Api

_SAMPLED = {"n": 1, "top_k": UNSET, "top_p": UNSET, "min_p": UNSET}
"""Of a further answer: a client who leaves no choice of tokens would have agreement with itself for nothing."""


class AgreementGate:
    """Asks for `samples` >= 1 more answers at `temperature`."""

    def __init__(
        self, examiner: Examiner, samples: int, temperature: float, extract: str | None = None
    ) -> None:
        self.examiner = examiner
        self.samples = samples
        self.temperature = temperature
        self.extract = extract

    def wants(self, api: Api) -> Mapping[str, Any]:  # noqa: ARG002 (it reads the text alone)
        return {}

    async def score(self, question: str, choice: Choice, deadline_s: float) -> float:  # noqa: ARG002
        again = ASKED.get().again
        if again is None:
            raise JudgeFailed("not-repeatable")
        (mine,) = await self._said([answer(choice)])
        if not mine:
            return 0.0
        changes = _SAMPLED | {"temperature": self.temperature}
        tasks: list[asyncio.Future[Choice]] = []
        try:
            for number in range(1, self.samples + 1):
                tasks.append(asyncio.ensure_future(again(changes, number)))
                # Each writes the request anew: a long one has a turn of the event loop for itself.
                await asyncio.sleep(0)
            others = await self._said([answer(other) for other in await asyncio.gather(*tasks)])
        finally:
            for task in tasks:
                task.cancel()
        return 100.0 * others.count(mine) / self.samples

    async def _said(self, texts: list[str]) -> list[str]:
        """Part of each answer that is compared; empty where `extract` finds nothing."""
        try:
            return await self.examiner.said(texts, self.extract)
        except Unexamined as error:
            raise JudgeFailed(f"extract-{error.kind}") from None
