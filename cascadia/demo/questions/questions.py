"""The demo's questions, and the others that its gate was trained on.

A hash of what a question is about says on which side it lies, so no seed and no later change of a list puts one
question on both. A fifth of everything is the demo's.
"""

from hashlib import sha256
from itertools import islice
from random import Random
from typing import Literal

from cascadia.demo.questions.kinds import KINDS, drawn
from cascadia.demo.questions.question import Question

Side = Literal["demo", "training"]
DEMO_QUESTIONS = 72
DEMO_SEED = 60
TRAINING_SEED = 1
_TRIES_PER_QUESTION = 200


def side(question: Question) -> Side:
    return "demo" if sha256(question.key.encode()).digest()[0] % 5 == 0 else "training"


FACT_KINDS = frozenset({"city", "language"})
"""Kinds that ask for something to know, not to work out. Half of the demo's questions are of them."""
WORKED_KINDS = frozenset(
    {"addition", "subtraction", "multiplication", "division", "story", "double", "plural"}
)
ASKED = tuple(kind for kind in KINDS if kind in FACT_KINDS | WORKED_KINDS)
"""Those kinds that the large model answers rightly three times in four or more, of the training questions: where
neither model knows, there is nothing to route. And of facts those that the small model tells in few words: one that
writes twelve tokens where the large one writes two is no cheaper."""
FACT_SHARE = 0.5


def demo_questions(count: int = DEMO_QUESTIONS, seed: int = DEMO_SEED) -> list[Question]:
    """Facts and others in their shares, kinds as equal as can be, mixed."""
    facts = round(FACT_SHARE * count)
    random = Random(seed)
    drawn_ones = [
        *_spread([kind for kind in ASKED if kind in FACT_KINDS], facts, "demo", random, seed),
        *_spread([kind for kind in ASKED if kind not in FACT_KINDS], count - facts, "demo", random, seed),
    ]
    random.shuffle(drawn_ones)
    return drawn_ones


def training_questions(count: int, seed: int = TRAINING_SEED) -> list[Question]:
    """Training questions, as equal in kinds as the lists of facts allow, mixed: the first n are a fair sample
    of all.
    """
    return _spread(list(ASKED), count, "training", None, seed)


def _spread(kinds: list[str], count: int, wanted: Side, random: Random | None, seed: int) -> list[Question]:
    """A question of each kind in turn; a kind that has no more is passed over."""
    if random is not None:
        random.shuffle(kinds)
    before, per_kind = 0, -(-count // len(kinds))
    by_kind: list[list[Question]] = [[] for _ in kinds]
    while True:
        # What had no more before has no more now: lists of facts end.
        by_kind = [
            _some(kind, per_kind, wanted, seed) if len(there) >= before else there
            for kind, there in zip(kinds, by_kind, strict=True)
        ]
        rounds = [kind[turn] for turn in range(per_kind) for kind in by_kind if turn < len(kind)]
        if len(rounds) >= count:
            return rounds[:count]
        before, per_kind = per_kind, per_kind + 1 + per_kind // 8


def _some(kind: str, count: int, wanted: Side, seed: int) -> list[Question]:
    """Fewer than `count` where the kind has no more."""
    random = Random(f"{kind} {wanted} {seed}")
    found: dict[str, Question] = {}
    for question in islice(drawn(kind, random), count * _TRIES_PER_QUESTION):
        if question.text not in found and side(question) == wanted:
            found[question.text] = question
        if len(found) == count:
            break
    return list(found.values())
