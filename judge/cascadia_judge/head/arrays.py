"""Arrays of numbers in JSON: base64 of little-endian bytes, with their type and shape."""

import base64
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TYPES: dict[str, np.dtype[Any]] = {"f4": np.dtype("<f4"), "f8": np.dtype("<f8"), "i2": np.dtype("<i2")}


def array_written(values: NDArray[Any], kind: str) -> dict[str, Any]:
    content = np.ascontiguousarray(values, dtype=_TYPES[kind]).tobytes()
    return {"type": kind, "shape": list(values.shape), "base64": base64.b64encode(content).decode("ascii")}


def numbers_in(found: Mapping[str, Any]) -> NDArray[Any]:
    kind = _TYPES[found["type"]]
    values = np.frombuffer(base64.b64decode(found["base64"], validate=True), dtype=kind)
    if kind.kind == "f" and np.isnan(values).any():
        raise ValueError("not a number among the numbers")
    shaped: NDArray[Any] = values.reshape(found["shape"])
    return shaped.astype(np.float64 if kind.kind == "f" else np.int64)


def digest_of(content: bytes) -> str:
    """Short digest of a judge's file: tells it from one of the same name that was trained anew."""
    return sha256(content).hexdigest()[:16]
