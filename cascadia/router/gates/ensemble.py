"""Several gates as one: the weighted mean of their scores, or the lowest.

All are asked at once. Where one fails the verdict fails, and `judge.on_failure` decides: a mean over those
that are left would be another judge than the one that thresholds were chosen for.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from cascadia.router.gates.base import Gate
from cascadia.router.openai.answers import Choice
from cascadia.router.openai.requests import Api
from cascadia.router.settings.model import Combine


class EnsembleGate:
    """`weights` above 0, one a gate; the lowest score knows no weights."""

    def __init__(self, gates: Sequence[Gate], weights: Sequence[float], combine: Combine) -> None:
        self.gates = gates
        self.weights = weights
        self.combine = combine

    def wants(self, api: Api) -> Mapping[str, Any]:
        wanted: dict[str, Any] = {}
        for gate in self.gates:
            for name, value in gate.wants(api).items():
                wanted[name] = max(value, wanted.get(name, value))
        return wanted

    async def score(self, question: str, choice: Choice, deadline_s: float) -> float:
        tasks = [asyncio.ensure_future(gate.score(question, choice, deadline_s)) for gate in self.gates]
        try:
            scores = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        if self.combine == "minimum":
            return min(scores)
        total = sum(weight * score for weight, score in zip(self.weights, scores, strict=True))
        return total / sum(self.weights)
