"""Texts as the inputs of an ONNX model of the BERT kind: token ids, and where there is a token.

The names are those of Cascadia's own graphs (`ids`, `there`) or of an export from Hugging Face (`input_ids`,
`attention_mask`, `token_type_ids`).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cascadia.domain.errors import BadInput
from cascadia.files.text import numbered_lines, read_text

if TYPE_CHECKING:
    from onnx import ModelProto
    from tokenizers import Tokenizer

MODEL, TOKENIZER = "model.onnx", "tokenizer.json"
IDS, MASKS, KINDS = ("ids", "input_ids"), ("there", "attention_mask"), "token_type_ids"
TEXTS_MAX_BYTES = 2 * 2**30
LEAST = 200
"""Texts without which nothing can be trained."""


@dataclass(frozen=True, slots=True, eq=False)
class Reader:
    """Tokens of texts as `model` wants them, at most `tokens_max` of each."""

    tokenizer: "Tokenizer"
    model: "ModelProto"
    around: tuple[int, int]
    tokens_max: int

    def batches(self, texts: Sequence[str], size: int) -> Iterator[dict[str, Any]]:
        for start in range(0, len(texts), size):
            yield self.batch(texts[start : start + size])

    def batch(self, texts: Sequence[str]) -> dict[str, Any]:
        first, last = self.around
        found = self.tokenizer.encode_batch([*map(well_formed, texts)], add_special_tokens=False)
        rows = [[first, *one.ids[: self.tokens_max - 2], last] for one in found]
        there = np.zeros((len(rows), max(map(len, rows))), dtype=np.bool_)
        ids = np.zeros(there.shape, dtype=np.int64)
        for at, row in enumerate(rows):
            ids[at, : len(row)], there[at, : len(row)] = row, True
        given: dict[str, Any] = {}
        for value in self.model.graph.input:
            if value.name in IDS:
                given[value.name] = ids
            elif value.name in MASKS:
                given[value.name] = there if value.name == MASKS[0] else there.astype(np.int64)
            elif value.name == KINDS:
                given[value.name] = np.zeros_like(ids)
        return given


def key_of(batch: Mapping[str, Any], at: int) -> bytes:
    """Tells one input from others, however far a batch is padded."""
    return b"|".join(np.asarray(part[at]).tobytes().rstrip(b"\0") for part in batch.values())


def well_formed(text: str) -> str:
    """JSON may hold half a surrogate pair, which no tokenizer takes."""
    return text.encode("utf-8", "replace").decode()


def typical(texts: Sequence[str], size: int) -> list[str]:
    """As many of `texts`, evenly spaced by length: one of them is of the middle one. The first that come may be short,
    and a ramp then costs a larger part of their pass than of others'.
    """
    ordered = sorted(texts, key=len)
    return [ordered[(2 * at + 1) * len(ordered) // (2 * size)] for at in range(size)]


def read_model(folder: Path, tokens_max: int) -> Reader:
    """Raises `BadInput` where `folder` holds no model that texts can be given to."""
    import onnx
    from google.protobuf.message import DecodeError
    from tokenizers import Tokenizer

    for name in (MODEL, TOKENIZER):
        if not (folder / name).is_file():
            raise BadInput(str(folder), f"has no {name}", f"name a folder with {MODEL} and {TOKENIZER}")
    try:
        model = onnx.load(folder / MODEL)
    except DecodeError:
        raise BadInput(str(folder / MODEL), "is no ONNX model", "export it anew") from None
    unknown = [v.name for v in model.graph.input if v.name not in (*IDS, *MASKS, KINDS)]
    if unknown or not any(value.name in IDS for value in model.graph.input):
        told = f"takes {', '.join(value.name for value in model.graph.input) or 'nothing'}"
        raise BadInput(
            str(folder / MODEL), told, "name a model of the BERT kind: input_ids and attention_mask"
        )
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    first, last = (tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]"))
    if first is None or last is None:
        raise BadInput(str(folder / TOKENIZER), "has no [CLS] and [SEP]", "name a model of the BERT kind")
    return Reader(tokenizer, model, (first, last), tokens_max)


def read_texts(path: Path) -> list[str]:
    """A text a line, or JSON lines with `text`. Raises `BadInput`."""
    jsonl = path.suffix == ".jsonl"
    told = numbered_lines(read_text(path, TEXTS_MAX_BYTES))
    lines = [_text(line, f"{path}:{at}") if jsonl else line for at, line in told]
    if len(lines) < LEAST:
        raise BadInput(str(path), f"has {len(lines)} texts", f"give at least {LEAST}")
    return lines


def _text(line: str, where: str) -> str:
    try:
        found = json.loads(line)
        if isinstance(found, dict) and isinstance(found.get("text"), str):
            return str(found["text"])
    except ValueError:
        pass
    raise BadInput(where, "is no JSON object with a text", 'write {"text": "…"}')
