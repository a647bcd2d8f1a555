"""Checks of an answer that need neither a reference nor a model: does it look like what was asked for, does
it parse?

regex          the pattern (Python's `re`) is found in the answer; where `absent`, it is not
json-schema    the answer is JSON, perhaps in a code fence, that the schema admits python-syntax  all code
in the answer (in fences marked python or unmarked, else the whole of it) is Python that compiles

Code is parsed, never run. An answer of more than `CHARACTERS_MAX` characters fails: it cannot be looked at
in bounded time.
"""

import ast
import re
import warnings
from dataclasses import dataclass
from typing import Any, Literal

from cascadia_judge.scores.checks import is_right, refuse_reference

VerifierKind = Literal["regex", "json-schema", "python-syntax"]
CHARACTERS_MAX = 100_000

_FENCED = re.compile(r"^[ \t]*```[ \t]*([\w+-]*)[^\n]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_PYTHON = frozenset({"", "python", "py", "python3"})


@dataclass(frozen=True, slots=True)
class Verifier:
    """`reference` is the pattern, or the schema. Raises `BadVerdict` where it cannot be applied."""

    kind: VerifierKind
    reference: Any = None
    absent: bool = False

    def __post_init__(self) -> None:
        if self.kind != "python-syntax":
            refuse_reference(self.kind, self.reference, f"verifier of kind {self.kind}")

    def passes(self, answer: str) -> bool:
        if len(answer) > CHARACTERS_MAX:
            return False
        if self.kind == "python-syntax":
            return compiles(answer)
        return is_right(self.kind, self.reference, answer) is not self.absent


def compiles(answer: str) -> bool:
    blocks = [code for language, code in _FENCED.findall(answer) if language.lower() in _PYTHON]
    if not blocks and "```" in answer:
        return False
    return all(_parses(code) for code in blocks or [answer])


def _parses(code: str) -> bool:
    if not code.strip():
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
