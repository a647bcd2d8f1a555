"""Meaning of a plan's `model` or `weights` to an engine: a Hugging Face id, a directory of weights, or a GGUF
file.
"""

import re
from pathlib import PurePosixPath

from cascadia_sim.models.catalogue import UnknownModel, architecture

MODELS_DIR = "/models"
"""Where containers find weights that come from a directory."""

_QUANTISED = re.compile(r"fp8|fp4|awq|gptq|int4|int8|w4a16|w8a8|w8a16|w4a8|bnb|gguf", re.IGNORECASE)


def is_path(model: str) -> bool:
    """A spec names an architecture of its own by the path of its `config.json`, and weights of its own absolutely."""
    return model.endswith(".json") or model.startswith("/")


def weights(model: str) -> str:
    """Weights that a process on the machine itself loads; weights lie beside their `config.json`."""
    return str(PurePosixPath(model).parent) if model.endswith(".json") else model


def mounted_weights(model: str) -> str:
    """Weights that a process in a container loads."""
    if not is_path(model):
        return model
    parts = [part for part in PurePosixPath(weights(model)).parts if part not in ("/", ".", "..")]
    return str(PurePosixPath(MODELS_DIR, *parts))


def is_quantised(model: str) -> bool:
    """Tells whether the checkpoint is quantised as published, by the catalogue or by what its name says."""
    if _QUANTISED.search(PurePosixPath(weights(model)).name):
        return True
    try:
        return not is_path(model) and architecture(model).quantization is not None
    except UnknownModel:
        return False
