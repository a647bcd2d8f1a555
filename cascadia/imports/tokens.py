"""Counts of tokens where a file has the text and not the count: by a model's own `tokenizer.json`, else by length."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from cascadia.domain.errors import BadInput
from cascadia_judge.llm.prompt import CHARACTERS_PER_TOKEN


class Counter(NamedTuple):
    """`name` says with what it counts; `tokens_of` gives the tokens of each text, at least 1."""

    name: str
    tokens_of: Callable[[Sequence[str]], list[int]]


def counter_of(path: Path | None) -> Counter:
    """The tokenizer in `path`, a `tokenizer.json` or a model's folder; None: characters, which is off by up to 15 % in
    English and by more in other scripts. Raises `BadInput`."""
    if path is None:
        return Counter(f"{CHARACTERS_PER_TOKEN:g} characters a token, no tokenizer", _by_length)
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise BadInput(str(path), "no tokenizer.json there", "name a model's folder, or the file")
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # noqa: BLE001 (tokenizers raises Exception itself)
        raise BadInput(str(file), f"is no tokenizer ({error})", "name a model's tokenizer.json") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()

    def count(texts: Sequence[str]) -> list[int]:
        encoded = tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [max(len(one.ids), 1) for one in encoded]

    return Counter(str(file), count)


def _by_length(texts: Sequence[str]) -> list[int]:
    return [max(round(len(text) / CHARACTERS_PER_TOKEN), 1) for text in texts]
