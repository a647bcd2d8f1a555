"""Whether a stage agrees with itself: it is asked again with some chance, and the score is the share of the
same answer.

Self-consistency (Wang et al. 2022), as a gate. It costs `samples` more answers of the stage, which pays
where the stage is much cheaper than the next. Answers are compared as they look, less case, spacing and
stops; where `extract` is given, by what its last match found.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from cascadia.router.answers import Choice
from cascadia.router.gate_context import ASKED
from cascadia.router.gates import JudgeFailed
from cascadia.router.questions import answer
from cascadia.router.requests import Api
from cascadia_judge.checks import bare
from cascadia_judge.plain import plain

COMPARED_CHARACTERS = 8192


class AgreementGate:
    """Asks for `samples` >= 1 more answers at `temperature`."""

    def __init__(self, samples: int, temperature: float, extract: str | None = None) -> None:
        self.samples = samples
        self.temperature = temperature
        self.extract = re.compile(extract) if extract else None

    def wants(self, api: Api) -> Mapping[str, Any]:  # noqa: ARG002 (it reads the text alone)
        return {}

    async def score(self, question: str, choice: Choice, deadline_s: float) -> float:  # noqa: ARG002
        again = ASKED.get().again
        if again is None:
            raise JudgeFailed("not-repeatable")
        mine = self.said(answer(choice))
        if not mine:
            return 0.0
        changes = {"temperature": self.temperature, "n": 1}
        tasks = [asyncio.ensure_future(again(changes)) for _ in range(self.samples)]
        try:
            others = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        return 100.0 * sum(self.said(answer(other)) == mine for other in others) / self.samples

    def said(self, text: str) -> str:
        """What of an answer is compared; empty where `extract` finds nothing."""
        seen = plain(text, COMPARED_CHARACTERS)
        if self.extract is not None:
            found = list(self.extract.finditer(seen))
            seen = found[-1].group(found[-1].lastindex or 0) if found else ""
        return bare(seen)
