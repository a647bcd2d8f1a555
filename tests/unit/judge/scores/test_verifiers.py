"""Verifiers look at an answer and run nothing of it."""

import pytest

from cascadia_judge.errors import BadVerdict
from cascadia_judge.scores.verifiers import CHARACTERS_MAX, Verifier

SCHEMA = {"type": "object", "required": ["x"]}
PYTHON = Verifier("python-syntax")


@pytest.mark.parametrize(
    ("verifier", "passing", "failing"),
    [
        (Verifier("regex", r"^\d+$"), "42", "forty-two"),
        (Verifier("regex", r"(?i)as an ai", absent=True), "42", "As an AI, I cannot"),
        (Verifier("json-schema", SCHEMA), '```json\n{"x": 1}\n```', '{"y": 1}'),
        (Verifier("json-schema", SCHEMA), '{"x": 1}', "x is 1"),
        (PYTHON, "def f(x):\n    return x + 1", "def f(x) return x"),
        (PYTHON, "It is:\n```python\nx = 1\n```\nand that is all.", "It is:\n```python\nx = = 1\n```"),
        (PYTHON, "```\nx = 1\n```\n```js\nlet x = ;\n```", "```\nx = 1\n```\n```py\ny =\n```"),
        (PYTHON, "import os; os.remove('x')", ""),
        (PYTHON, '"\\d"', "x = '\0'"),
    ],
)
def test_a_verifier_tells_what_passes(verifier: Verifier, passing: str, failing: str) -> None:
    assert verifier.passes(passing)
    assert not verifier.passes(failing)


@pytest.mark.parametrize(
    "answer", ["(" * 90_000, "-" * 90_000 + "1", "[" * 5_000 + "]" * 5_000, "x" * (CHARACTERS_MAX + 1)]
)
def test_answers_made_to_choke_a_parser_fail(answer: str) -> None:
    assert not PYTHON.passes(answer)


@pytest.mark.parametrize(
    ("kind", "reference"), [("regex", "("), ("regex", None), ("json-schema", {"type": "shoe"})]
)
def test_what_cannot_be_applied_is_refused_before_any_answer(kind, reference) -> None:
    with pytest.raises(BadVerdict, match="reference"):
        Verifier(kind, reference)
