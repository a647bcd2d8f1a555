"""Texts with labels for the bundled family: what each of 16 cloud services says of its operations and their members.

They come from botocore's service descriptions (Apache-2.0), a package that every machine with pip can fetch, pinned by
hash. A text is the first sentence of a documentation string, without the service's own name; its label is the service.
What kind of request a text is about is what an intent router, or a guard before a prompt, has to tell. Which texts a
family learns from and which it is measured on follows from their hash alone.
"""

import gzip
import html
import json
import re
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from cascadia.domain.errors import BadInput
from cascadia.files.text import numbered_lines, read_text

SOURCE = "botocore-documentation"
"""In the model catalogue."""
TEST_TENTHS = 3
FEWEST, MAX_BYTES = 100, 2 * 2**30
"""Of a user's own texts."""
SHORTEST, LONGEST = 40, 160
"""Characters."""
_TAGS, _SPACE = re.compile(r"<[^>]+>"), re.compile(r"\s+")
_SENTENCE = re.compile(r"(?<=[a-z0-9)])\. ")
_NAMES = re.compile(r"\b(?:Amazon Web Services|Amazon|AWS)(?: [A-Z][A-Za-z0-9]+)*")
_PLACEHOLDER = "Placeholder"


@dataclass(frozen=True, slots=True)
class Question:
    """`label` is the service; `test`: whether it is kept for measuring."""

    text: str
    label: str
    test: bool


def questions(folder: Path) -> list[Question]:
    """All of `folder` (the catalogue's files), in the order of their texts. What two services say is left out."""
    found: dict[str, set[str]] = {}
    for path in sorted(folder.glob("*.json.gz")):
        described = json.loads(gzip.decompress(path.read_bytes()))
        for members in (described["operations"], described["shapes"]):
            for member in members.values():
                if text := _sentence(member.get("documentation", "")):
                    found.setdefault(text, set()).add(path.name.removesuffix(".json.gz"))
    return [
        Question(text, next(iter(labels)), _is_test(text))
        for text, labels in sorted(found.items())
        if len(labels) == 1
    ]


def read_questions(path: Path) -> list[Question]:
    """A user's own, of JSON lines with `text` and `label`. Raises `BadInput`."""
    found = []
    for at, line in numbered_lines(read_text(path, MAX_BYTES)):
        try:
            told = json.loads(line)
            text, label = told["text"], told["label"]
        except (ValueError, KeyError, TypeError):
            text = label = None
        if not (isinstance(text, str) and text and isinstance(label, str)):
            raise BadInput(f"{path}:{at}", "has no text and label", 'write {"text": "…", "label": "…"}')
        found.append(Question(text, label, test=True))
    if len(found) < FEWEST:
        raise BadInput(str(path), f"has {len(found)} texts", f"give at least {FEWEST}")
    return found


def _sentence(documentation: str) -> str:
    """Empty where there is none of a fit length."""
    plain = _SPACE.sub(" ", html.unescape(_TAGS.sub(" ", documentation))).strip()
    text = _NAMES.sub("the service", _SENTENCE.split(plain)[0][:LONGEST])
    return text if len(text) >= SHORTEST and not text.startswith(_PLACEHOLDER) else ""


def _is_test(text: str) -> bool:
    return blake2b(text.encode(), digest_size=1).digest()[0] % 10 < TEST_TENTHS
