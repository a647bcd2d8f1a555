"""An LLM as judge: what it is asked, in OpenAI's terms, and what is read from its reply.

A verdict is one digit. Where the engine gives log-probabilities, the score is the expected digit under the
probabilities of the token that carries it (`prompt.score_of`); else the digit itself. A judge whose first token is no
digit is made to write one by a JSON schema, where its engine can, and else is given room to talk.

Who asks and what happens on refusal is the caller's affair: nothing here talks to anyone.
"""

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from cascadia_judge.errors import BadVerdict
from cascadia_judge.llm.prompt import CHARACTERS_PER_TOKEN, GRADES, OUTPUT_TOKENS, messages, score_of

READS_TOKENS = 8192
"""Of question and answer together, where the caller names no other limit."""

TOP_LOGPROBS = 20
"""The most that vLLM, SGLang, llama.cpp and OpenAI give without being configured to give more."""

TALKATIVE_TOKENS = 16
"""Room for `**Grade:** 7` and its like."""

_GRADE = re.compile(r"(?<![\d.,/-])(?<!out of )([0-9])(?![\d%]|[.,/]\d|\s*(?:/|out of)\s*\d)")
_LEFT_OUT = "\n[... {count} characters left out ...]\n"


class Token(NamedTuple):
    """One token of a reply: the probabilities (0-1) of what might have stood there, itself among them."""

    text: str
    probability: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`score` 0-100. `expected`: read from probabilities, not from one digit."""

    score: float
    expected: bool


class Manner(NamedTuple):
    """Manner in which a verdict is asked for. `forced`: by a schema that admits one digit only."""

    max_tokens: int
    forced: bool = False
    temperature: float = 0.0


MANNERS = (
    Manner(OUTPUT_TOKENS),
    Manner(TALKATIVE_TOKENS, forced=True),
    Manner(TALKATIVE_TOKENS),
    Manner(TALKATIVE_TOKENS, temperature=0.7),
)
"""To be tried in turn: as a deployed gate asks; forced; talkative; varied, for at temperature 0 it repeats itself."""


def request(
    question: str, answer: str, manner: Manner, *, reads_tokens: int = READS_TOKENS, logprobs: bool = True
) -> dict[str, Any]:
    """The body of a chat completion, less its `model`, that asks for a verdict.

    Of texts longer than `reads_tokens` together, the middle is left out.
    """
    body: dict[str, Any] = {
        "messages": messages(*clipped(question, answer, reads_tokens)),
        "max_tokens": manner.max_tokens,
        "temperature": manner.temperature,
    }
    if logprobs:
        body |= {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
    if manner.forced:
        grade = {"type": "integer", "minimum": 0, "maximum": 9}
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "grade", "strict": True, "schema": grade},
        }
    return body


def verdict(text: str, tokens: Sequence[Token], *, forced: bool = False) -> Verdict:
    """Verdict that a reply gives; `tokens` is empty where the engine gave no log-probabilities.

    Those of a `forced` digit may be of what the judge would rather have written: among them, digits alone count. Raises
    `BadVerdict` where the reply is no grade.
    """
    if tokens and not forced:
        # Where the first token is no grade the text may still hold one, behind a word or a bracket.
        with suppress(BadVerdict):
            return Verdict(score_of(tokens[0].probability), expected=True)
    found = set(_GRADE.findall(text))
    if len(found) != 1:
        said = " ".join(text.split())[:40]
        raise BadVerdict(
            "verdict", f"the judge wrote {said!r}", f"answer with one digit, {GRADES[0]}-{GRADES[-1]}"
        )
    (grade,) = found
    written = next((token.probability for token in tokens if token.text.strip() == grade), None)
    if written is None:
        return Verdict(score_of({grade: 1.0}), expected=False)
    if forced:
        written = {token: p for token, p in written.items() if token.strip() in tuple(GRADES)}
    return Verdict(score_of(written), expected=True)


def clipped(question: str, answer: str, reads_tokens: int) -> tuple[str, str]:
    """Both texts, cut to about `reads_tokens` together; what one does not need, the other may have.

    >>> clipped("why?", "a" * 10 + "z" * 10, reads_tokens=4)
    ('why?', 'aaaaaa\\n[... 8 characters left out ...]\\nzzzzzz')
    """
    room = max(2, int(reads_tokens * CHARACTERS_PER_TOKEN))
    half = room // 2
    of_question = min(len(question), max(half, room - len(answer)))
    of_answer = min(len(answer), room - of_question)
    return _cut(question, of_question), _cut(answer, of_answer)


def _cut(text: str, characters: int) -> str:
    if len(text) <= characters:
        return text
    head = math.ceil(characters / 2)
    tail = characters - head
    return text[:head] + _LEFT_OUT.format(count=len(text) - characters) + (text[-tail:] if tail else "")
