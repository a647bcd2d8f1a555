"""A question whose answer can be checked without asking anybody."""

import re
from dataclasses import dataclass
from typing import Literal

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_WORD = re.compile(r"[^\W_]+(?:[-'][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class Check:
    """`right` are the accepted answers. Of the first line alone, since a model may go on with questions of its own.

    `number`: its last number is right; `first number`: its first. `words`: it has a right answer as whole words, and
    none of `wrong`.
    """

    how: Literal["number", "first number", "words"]
    right: tuple[str, ...]
    wrong: tuple[str, ...] = ()

    def passes(self, answer: str) -> bool:
        line = next((line for line in answer.splitlines() if line.strip()), "")
        if self.how != "words":
            found = _NUMBER.findall(line.replace(",", ""))
            at = 0 if self.how == "first number" else -1
            return bool(found) and any(float(found[at]) == float(right) for right in self.right)
        said = _plain(line)
        return any(_plain(right) in said for right in self.right) and not any(
            _plain(wrong) in said for wrong in self.wrong
        )


@dataclass(frozen=True, slots=True)
class Question:
    """`key` is what the question is about: two questions with one key are never on both sides of the split."""

    kind: str
    key: str
    text: str
    check: Check


def number(value: float) -> Check:
    return Check("number", (f"{value:g}",))


def words(*right: str, wrong: tuple[str, ...] = ()) -> Check:
    return Check("words", right, wrong)


def _plain(text: str) -> str:
    """Words in lower case, each with a space on both sides."""
    return f" {' '.join(_WORD.findall(text.lower()))} "
