"""A judge is not asked twice about the same answer to the same question: verdicts by the hash of both texts.

Hashes alone are kept, no text. Failures are not kept: the next time may go better.
"""

from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from cascadia.router.answers import Choice
from cascadia.router.gates import Gate
from cascadia.router.questions import answer
from cascadia.router.requests import Api


class CachedGate:
    """`gate`'s scores, the `size` >= 1 last used of them."""

    def __init__(self, gate: Gate, size: int) -> None:
        self.gate = gate
        self.size = size
        self._scores: OrderedDict[bytes, float] = OrderedDict()

    def inherit(self, old: "CachedGate") -> None:
        """The verdicts of `old`, whose judge is the same."""
        self._scores = old._scores

    def wants(self, api: Api) -> Mapping[str, Any]:
        return self.gate.wants(api)

    async def score(self, question: str, choice: Choice, deadline_s: float) -> float:
        key = _key(question, answer(choice))
        known = self._scores.get(key)
        if known is not None:
            self._scores.move_to_end(key)
            return known
        score = await self.gate.score(question, choice, deadline_s)
        self._scores[key] = score
        if len(self._scores) > self.size:
            self._scores.popitem(last=False)
        return score


def _key(question: str, text: str) -> bytes:
    """The length says where the question ends."""
    content = f"{len(question)}:{question}{text}".encode("utf-8", "surrogatepass")
    return blake2b(content, digest_size=16).digest()
