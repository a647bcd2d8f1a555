"""A one-pass model as a folder: `model.json` says what it is, `model.onnx` and `tokenizer.json` lie beside it."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from cascadia.domain.errors import BadInput
from cascadia.files.text import read_text, write_whole

Task = Literal["classify", "rerank"]
Precision = Literal["fp32", "int8"]
ABOUT, GRAPH, TOKENIZER = "model.json", "model.onnx", "tokenizer.json"
MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class OnePassModel:
    """`name` is what clients call it. `labels` are the classes', in the order of the probabilities; of a reranker there
    are none. `tokens_max` is the most that it reads of a text, the two around it among them. `layers` and `precision`
    are for people.
    """

    name: str
    task: Task
    labels: tuple[str, ...]
    tokens_max: int
    layers: int
    precision: Precision


def read_model(folder: Path) -> OnePassModel:
    """Raises `BadInput` where `folder` holds no such model."""
    for name in (ABOUT, GRAPH, TOKENIZER):
        if not (folder / name).is_file():
            raise BadInput(
                str(folder), f"has no {name}", "name a folder that `cascadia engine make` wrote a model into"
            )
    try:
        return TypeAdapter(OnePassModel).validate_json(read_text(folder / ABOUT, MAX_BYTES))
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"]))
        raise BadInput(
            str(folder / ABOUT), f"{at}: {first['msg']}", "make the model anew with `cascadia engine make`"
        ) from None


def write_about(model: OnePassModel, folder: Path) -> None:
    write_whole(folder / ABOUT, json.dumps(asdict(model), indent=2) + "\n")
