"""A judge is not asked twice about the same answer to the same question: verdicts by the hash of both texts.

Hashes alone are kept, no text. Failures are not kept: the next time may go better.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from cascadia.router.gates.base import Gate
from cascadia.router.gates.context import ASKED
from cascadia.router.openai.answers import Choice
from cascadia.router.openai.questions import answer
from cascadia.router.openai.requests import Api


class CachedGate:
    """`gate`'s scores, the `size` >= 1 last used of them.

    `sees_more`: it looks at the stage and its log-probabilities too.
    """

    def __init__(self, gate: Gate, size: int, *, sees_more: bool = False) -> None:
        self.gate = gate
        self.sees_more = sees_more
        self.size = size
        self._scores: OrderedDict[bytes, float] = OrderedDict()

    def inherit(self, old: "CachedGate") -> None:
        """The verdicts of `old`, whose judge is the same."""
        self._scores = old._scores

    def wants(self, api: Api) -> Mapping[str, Any]:
        return self.gate.wants(api)

    async def score(self, question: str, choice: Choice, deadline_s: float) -> float:
        more: tuple[bytes, ...] = ()
        if self.sees_more:
            asked = ASKED.get()
            more = (f"{asked.stage}\0{asked.said}".encode("utf-8", "surrogatepass"), *choice.logprobs)
        key = _key(question, answer(choice), more)
        known = self._scores.get(key)
        if known is not None:
            self._scores.move_to_end(key)
            return known
        score = await self.gate.score(question, choice, deadline_s)
        self._scores[key] = score
        if len(self._scores) > self.size:
            self._scores.popitem(last=False)
        return score


def _key(question: str, text: str, more: Sequence[bytes]) -> bytes:
    """Lengths say where each part ends."""
    content = f"{len(question)}:{len(text)}:{question}{text}".encode("utf-8", "surrogatepass")
    for part in more:
        content += b"%d:%b" % (len(part), part)
    return blake2b(content, digest_size=16).digest()
