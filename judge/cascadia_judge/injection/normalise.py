"""Text as a judge should read it: what a reader sees, without what only a machine sees.

Invisible characters (zero width, direction marks, tags, variation selectors, control characters), letters
that only look like others, piles of accents and endless repetition all carry text past a filter, and change
what a tokenizer sees while nobody who reads the answer sees a difference. Unicode TR 36 and TR 39 describe
them.
"""

import re
import unicodedata
from functools import lru_cache

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
_TERMINAL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_SPACES = re.compile(r"(?<=\S)[^\S\n]+")
_INDENT = re.compile(r"(?m)^([^\S\n]{32})[^\S\n]+")
_LINES = re.compile(r" ?\n(?:[^\S\n]*\n)+")
_ACCENT = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u20d0-\u20ff]"
_ACCENTS = re.compile(rf"({_ACCENT}{{{ACCENTS_MAX}}}){_ACCENT}+")
_ONE_ACCENT = re.compile(_ACCENT)
_CONTROLS = bytes(c for c in range(32) if chr(c) not in "\n\t")
_CONTROL = re.compile(rf"[{re.escape(_CONTROLS.decode())}\x7f]+")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_ODD_SPACES = frozenset(c for c in map(chr, range(0x80, 0x3001)) if c.isspace())
_LOOKALIKES = frozenset(map(chr, _LOOKS_LIKE))
CHARACTERS_KNOWN = 4096
"""Of so many it is remembered what they are."""
_INVISIBLE_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u17b4\u17b5\u2800\u034f")


def plain(text: str, characters_max: int = CHARACTERS_MAX) -> str:
    """`text` as it looks, at most `characters_max` characters of it. Does nothing to what `plain` has
    returned."""
    # First: all that follows reads the whole text, and a client decides how long it is.
    seen = ends(text, characters_max)
    seen = _ascii_alike(seen) if not seen.isascii() else _TERMINAL.sub("", seen) if "\x1b" in seen else seen
    if seen.isascii():
        seen = seen.encode().translate(None, _CONTROLS).decode()
    for character in _repeated(seen):
        seen = re.sub(f"{re.escape(character)}{{{REPEATS_MAX + 1},}}", character * REPEATS_MAX, seen)
    odd = "\t" in seen or not (seen.isascii() or _ODD_SPACES.isdisjoint(strangers(seen)))
    if odd or "  " in seen:
        seen = _INDENT.sub(r"\1", _SPACES.sub(" ", seen))
    if odd or "\n\n\n" in seen or " \n" in seen:
        seen = _LINES.sub("\n\n", seen)
    # Again, since normal forms may be longer than what they stand for.
    return ends(seen.strip(), characters_max).strip()


def _ascii_alike(text: str) -> str:
    """The text without what nobody sees, and with Latin letters for those that only look Latin in Latin words."""
    seen = text.encode("utf-8", "replace").decode()
    known = strangers(seen)
    gone = [c for c in known if _invisible(c)]
    if gone:
        seen = re.sub(f"[{re.escape(''.join(gone))}]+", "", seen)
    seen = _CONTROL.sub("", seen)
    if any(_is_accent(c) for c in known):
        seen = _ACCENTS.sub(r"\1", seen)
    seen = unicodedata.normalize("NFKC", seen)
    if not _LOOKALIKES.isdisjoint(strangers(seen)):
        seen = _WORD.sub(lambda word: _one_script(word.group()), seen)
    return seen


def _repeated(text: str) -> set[str]:
    """Characters but spaces that stand more than `REPEATS_MAX` times in a row."""
    wide = 1 if text.isascii() else 4
    letters = text.encode("ascii" if wide == 1 else "utf-32-le", "surrogatepass")
    whole = int.from_bytes(letters, "little")
    # Zero where a character is the same as the next one.
    changes = (whole ^ (whole >> 8 * wide)).to_bytes(len(letters), "little")
    run, found = bytes(REPEATS_MAX * wide), set()
    at = changes.find(run)
    while at >= 0:
        found.add(text[-(-at // wide)])
        at = changes.find(run, at + len(run))
    return {c for c in found if not c.isspace()}


def strangers(text: str) -> frozenset[str]:
    """The characters beyond ASCII, each once."""
    return frozenset("".join(_NOT_ASCII.findall(text)))


def ends(text: str, characters: int) -> str:
    """The beginning and the end of `text`, half of `characters` each, where it is longer."""
    if len(text) <= characters:
        return text
    half = max(1, (characters - 1) // 2)
    return f"{text[:half]}\n{text[-half:]}"


def is_blank(text: str) -> bool:
    """Tells whether nothing of the text is seen."""
    blank, count = "", 256
    while text:
        # A look at each of a million would take 50 ms; the same few are passed over much faster.
        seen = set(text[:count])
        if not all(c.isspace() or _invisible(c) for c in seen):
            return False
        blank += "".join(seen)
        text = text.lstrip(blank)
        count *= 8
    return True


@lru_cache(maxsize=CHARACTERS_KNOWN)
def _invisible(character: str) -> bool:
    """Tells whether a character beyond ASCII is invisible."""
    if (
        character in _INVISIBLE_LETTERS
        or "\ufe00" <= character <= "\ufe0f"
        or "\U000e0100" <= character <= "\U000e01ef"
    ):
        return True
    # Format (zero width, direction, tags), control, surrogate, private and unassigned.
    return unicodedata.category(character) in ("Cf", "Cc", "Cs", "Co", "Cn")


@lru_cache(maxsize=CHARACTERS_KNOWN)
def _is_accent(character: str) -> bool:
    return _ONE_ACCENT.match(character) is not None


def _one_script(word: str) -> str:
    """A word of two scripts one of which is Latin is a Latin word in disguise; a Russian word stays
    Russian."""
    if word.isascii() or not any("a" <= c <= "z" for c in word.lower()):
        return word
    return word.translate(_LOOKS_LIKE)
