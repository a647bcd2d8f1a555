"""Where in a text a word begins that some rule looks for: one pass over its bytes, whatever the number of rules."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from cascadia_judge.attempts_rules import LONG_WORD, RULES, STEM, Rule

_FIGURES_AND_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_WORDS_ALONE = bytes(c if chr(c) in _FIGURES_AND_LETTERS else ord(" ") for c in range(256))
_OF_A_WORD = bytes(chr(c).isalnum() or chr(c) in "_?" for c in range(128)) + bytes(128)
"""`?` stands for whatever is not ASCII, and may be a letter."""
_LONG = b"\x01" * (LONG_WORD + 1)


def ascii_of(text: str) -> bytes:
    """As many bytes as characters."""
    return text.encode("ascii", "replace")


def has_long_word(letters: bytes) -> bool:
    return _LONG in letters.translate(_OF_A_WORD)


def stems_in(letters: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Places (rising) of words with a stem, and the numbers of their rules; `letters` of a text in lower case."""
    for found in _STEMS.finditer(b" %b " % letters.translate(_WORDS_ALONE)):
        # The space before stands for none in the text; a stem shorter than a whole one is followed by one.
        yield found.start(), _RULES[found.group()[1 : 1 + STEM].rstrip()]


def _by_stem(rules: Sequence[Rule]) -> dict[bytes, tuple[int, ...]]:
    found: dict[bytes, tuple[int, ...]] = defaultdict(tuple)
    for number, rule in enumerate(rules):
        for stem in rule.stems:
            found[stem.encode()] += (number,)
    return dict(found)


def _one_of(words: Mapping[str, str]) -> str:
    """A pattern for any of `words` that tries each letter once: rest of the word by its beginning."""
    first: dict[str, dict[str, str]] = defaultdict(dict)
    for word, end in words.items():
        first[word[:1]][word[1:]] = end
    branches = [letter + _one_of(rest) if letter else rest[""] for letter, rest in sorted(first.items())]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


_RULES = _by_stem(RULES)
_STEMS = re.compile(
    (" " + _one_of({s.decode(): "" if len(s) == STEM else "(?= )" for s in sorted(_RULES)})).encode()
)
