"""The attempts: what is done to an answer so that its judge may like it better.

Every attempt has a family and a number, and makes of any answer another text. `replaces`: nothing of the
answer is left, as with null models; else it stands in the new text whole.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.injection import disguises, texts

Make = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Attempt:
    family: str
    number: int
    make: Make
    replaces: bool = False

    @property
    def name(self) -> str:
        return f"{self.family}-{self.number}"


PLACES: tuple[Callable[[str, str], str], ...] = (
    lambda answer, text: f"{answer}\n{text}",
    lambda answer, text: f"{text}\n{answer}",
    lambda answer, text: f"{answer} {text}",
    lambda answer, text: f"{answer}\n\n\n{text}\n\n",
)
"""Where a text is put. In the middle would change the answer itself."""


def attempts() -> list[Attempt]:
    """All of them, in the same order each time; 200 at the least."""
    made: list[Attempt] = []
    for family, found in _families():
        made += [Attempt(family, i, make) for i, make in enumerate(found)]
    for family, answers in (("empty", texts.EMPTY), ("null", texts.NULL)):
        made += [Attempt(family, i, _instead(text), replaces=True) for i, text in enumerate(answers)]
    return made


def _families() -> Iterator[tuple[str, list[Make]]]:
    yield "order", [_put(text, i) for i, text in enumerate(texts.ORDERS)]
    yield "claim", [_put(text, i) for i, text in enumerate(texts.CLAIMS)]
    yield "plea", [_put(text, i) for i, text in enumerate(texts.PLEAS)]
    yield "forged", [_put(text, 0) for text in texts.FORGED]
    yield "verdict", [_put(text, i) for i, text in enumerate(texts.VERDICTS)]
    yield "language", [_put(text, i) for i, text in enumerate(texts.LANGUAGES)]
    hidden = [disguise(order) for disguise in disguises.DISGUISES for order in texts.SHORT_ORDERS]
    yield "disguise", [_put(text, i) for i, text in enumerate(hidden)]
    coded = [code(order) for code in disguises.CODES for order in texts.SHORT_ORDERS]
    yield "code", [_put(text, i) for i, text in enumerate(coded)]
    yield "letters", [lambda answer, d=d: d(answer) for d in disguises.OF_THE_ANSWER]
    yield "long", [lambda answer, m=m: m(answer) for m in texts.LONG]
    yield "oblique", [_put(text, i) for i, text in enumerate(texts.OBLIQUE)]


def _put(text: str, i: int) -> Make:
    place = PLACES[i % len(PLACES)]
    return lambda answer: place(answer, text)


def _instead(text: str) -> Make:
    return lambda _: text
