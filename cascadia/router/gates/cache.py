"""A judge is not asked twice about the same answer to the same question: verdicts by the hash of both texts.

Hashes alone are kept, no text. Failures are not kept: the next time may go better. Verdicts of a judge that names
itself are kept while it has that name, and it is asked again every `SURE_S`: trained anew, it has another.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from math import inf
from time import monotonic
from typing import Any

from cascadia.router.gates.base import Gate, JudgeFailed
from cascadia.router.gates.context import ASKED
from cascadia.router.gates.embedding import EmbeddingGate
from cascadia.router.openai.answers import Choice
from cascadia.router.openai.questions import answer
from cascadia.router.openai.requests import Api

SURE_S = 60.0
"""So long after it was asked, a judge that names itself is taken to be the same."""


class CachedGate:
    """`gate`'s scores, the `size` >= 1 last used of them.

    `sees_more`: it looks at the stage and its log-probabilities too.
    """

    def __init__(
        self, gate: Gate, size: int, *, sees_more: bool = False, clock: Callable[[], float] = monotonic
    ) -> None:
        self.gate = gate
        self.sees_more = sees_more
        self.size = size
        self._scores: OrderedDict[bytes, float] = OrderedDict()
        self._clock = clock
        self._named = gate if isinstance(gate, EmbeddingGate) else None
        self._judge: str | None = None
        self._sure_until_s = -inf

    def inherit(self, old: "CachedGate") -> None:
        """The verdicts of `old`, whose settings are the same; whether its judge is, the next verdict tells."""
        self._scores, self._judge = old._scores, old._judge

    def doubt(self) -> None:
        """Doubts that the judge is the same from now on: the next verdict is asked for."""
        self._sure_until_s = -inf

    def wants(self, api: Api) -> Mapping[str, Any]:
        return self.gate.wants(api)

    async def score(self, question: str, choice: Choice, deadline_s: float) -> float:
        more: tuple[bytes, ...] = ()
        if self.sees_more:
            asked = ASKED.get()
            more = (f"{asked.stage}\0{asked.said}".encode("utf-8", "surrogatepass"), *choice.logprobs)
        key = _key(question, answer(choice), more)
        known = self._scores.get(key)
        if known is not None and self._sure():
            self._scores.move_to_end(key)
            return known
        # Of many who come meanwhile one asks.
        self._sure_until_s = self._clock() + SURE_S
        try:
            score = await self.gate.score(question, choice, deadline_s)
        except JudgeFailed:
            if known is None:
                raise
            # Who cannot be asked is not known to be another.
            return known
        self._only_of_this_judge()
        self._scores[key] = score
        if len(self._scores) > self.size:
            self._scores.popitem(last=False)
        return score

    def _sure(self) -> bool:
        if self._named is None:
            return True
        # What it foresees it names as well.
        return self._named.heard in (None, self._judge) and self._clock() < self._sure_until_s

    def _only_of_this_judge(self) -> None:
        if self._named is not None and self._named.heard != self._judge:
            self._scores.clear()
            self._judge = self._named.heard


def _key(question: str, text: str, more: Sequence[bytes]) -> bytes:
    """Lengths say where each part ends."""
    content = f"{len(question)}:{len(text)}:{question}{text}".encode("utf-8", "surrogatepass")
    for part in more:
        content += b"%d:%b" % (len(part), part)
    return blake2b(content, digest_size=16).digest()
