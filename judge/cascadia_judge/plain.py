"""Text as a judge should read it: what a reader sees, without what only a machine sees.

Invisible characters (zero width, direction marks, tags, variation selectors, control characters), letters
that only look like others, piles of accents and endless repetition all carry text past a filter, and change
what a tokenizer sees while nobody who reads the answer sees a difference. Unicode TR 36 and TR 39 describe
them.
"""

import re
import unicodedata

CHARACTERS_MAX = 32_768
"""Of an answer; of a longer one the beginning and the end are read."""
ACCENTS_MAX = 2
"""On one letter, which is enough for Vietnamese; more is a pile."""
REPEATS_MAX = 8

_LOOKS_LIKE = str.maketrans(
    # Cyrillic, Greek, Armenian and a few others that most typefaces draw as the Latin letter.
    "АВЕЅІЈКМНОРСТХУаеѕіјкморстхуһԁԛԝґɡΑΒΕΖΗΙΚΜΝΟΡΤΥΧαεικνορτυχϲօոսհցսıɑᴀᴄᴅᴇᴊᴋᴍᴏᴘᴛᴜᴠᴡᴢ",
    "ABESIJKMHOPCTXYaesijkmopctxyhdqwrgABEZHIKMNOPTYXaeiknoptuxconuhguiaacdejkmoptuvwz",
)
_WORD = re.compile(r"[^\W\d_]+")
_REPEATED = re.compile(rf"(\S)\1{{{REPEATS_MAX},}}")
_TERMINAL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_SPACES = re.compile(r"(?<=\S)[^\S\n]+")
_INDENT = re.compile(r"(?m)^([^\S\n]{32})[^\S\n]+")
_LINES = re.compile(r" ?\n(?:[^\S\n]*\n)+")
_ACCENT = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u20d0-\u20ff]"
_ACCENTS = re.compile(rf"({_ACCENT}{{{ACCENTS_MAX}}}){_ACCENT}+")
_INVISIBLE_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u17b4\u17b5\u2800\u034f")


def plain(text: str, characters_max: int = CHARACTERS_MAX) -> str:
    """`text` as it looks, at most `characters_max` characters of it. Does nothing to what `plain` has
    returned."""
    seen = ends(text, characters_max)
    if not seen.isascii():
        seen = seen.encode("utf-8", "replace").decode()
        seen = "".join(c for c in seen if not _invisible(c))
        seen = unicodedata.normalize("NFKC", _ACCENTS.sub(r"\1", seen))
        seen = _WORD.sub(lambda word: _one_script(word.group()), seen)
    seen = _TERMINAL.sub("", seen)
    seen = "".join(c for c in seen if c >= " " or c in "\n\t") if not seen.isprintable() else seen
    seen = _REPEATED.sub(lambda run: run.group(1) * REPEATS_MAX, seen)
    seen = _INDENT.sub(r"\1", _SPACES.sub(" ", seen))
    return ends(_LINES.sub("\n\n", seen).strip(), characters_max).strip()


def ends(text: str, characters: int) -> str:
    """The beginning and the end of `text`, half of `characters` each, where it is longer."""
    if len(text) <= characters:
        return text
    half = max(1, (characters - 1) // 2)
    return f"{text[:half]}\n{text[-half:]}"


def skeleton(text: str) -> str:
    """For comparing only: Latin letters for all that look like them, no accents, lower case."""
    if text.isascii():
        return text.lower()
    letters = unicodedata.normalize("NFKD", text.translate(_LOOKS_LIKE)).casefold()
    return "".join(c for c in letters if not unicodedata.combining(c))


def _invisible(character: str) -> bool:
    if character in "\n\t":
        return False
    if (
        character in _INVISIBLE_LETTERS
        or "\ufe00" <= character <= "\ufe0f"
        or "\U000e0100" <= character <= "\U000e01ef"
    ):
        return True
    # Format (zero width, direction, tags), control, surrogate, private and unassigned.
    return unicodedata.category(character) in ("Cf", "Cc", "Cs", "Co", "Cn")


def _one_script(word: str) -> str:
    """A word of two scripts one of which is Latin is a Latin word in disguise; a Russian word stays
    Russian."""
    if word.isascii() or not any("a" <= c <= "z" for c in word.lower()):
        return word
    return word.translate(_LOOKS_LIKE)
