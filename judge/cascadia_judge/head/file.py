"""An embedding judge as one JSON file: what it was trained on, how well it did, and its numbers.

Arrays are base64 of little-endian bytes, with their type and shape. Nothing in the file can name code.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascadia_judge.errors import BadVerdict
from cascadia_judge.head.features import GROUPS
from cascadia_judge.head.head import Head
from cascadia_judge.head.learned import Line, Trees
from cascadia_judge.head.projection import Basis
from cascadia_judge.scores.calibration import Calibration

KIND = "cascadia-embedding-judge"
VERSION = 1
BYTES_MAX = 64 * 2**20
_TYPES: dict[str, np.dtype[Any]] = {"f4": np.dtype("<f4"), "f8": np.dtype("<f8"), "i2": np.dtype("<i2")}


def dump(heads: tuple[Head, ...], about: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> str:
    """Writes a judge's file. `about` says what the judge was trained on; it stands in front, for people. `more`
    stands behind, under keys of its own, and is not a part of the judge.
    """
    document = {
        "kind": KIND,
        "version": VERSION,
        "about": dict(about),
        "heads": [_written(head) for head in heads],
        **(more or {}),
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def load(text: str, where: str) -> tuple[tuple[Head, ...], dict[str, Any]]:
    """Raises `BadVerdict`, naming `where`."""
    instead = "name a file that `cascadia judge train` has written"
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise BadVerdict(where, "is no JSON", instead) from None
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise BadVerdict(where, "is no embedding judge", instead)
    if document.get("version") != VERSION:
        raise BadVerdict(
            where, f"has version {document.get('version')!r}", f"train it anew: this is version {VERSION}"
        )
    try:
        heads = tuple(_read(head) for head in document["heads"])
        about = dict(document["about"])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise BadVerdict(where, f"is damaged ({type(error).__name__}: {error})"[:200], instead) from None
    if not heads:
        raise BadVerdict(where, "has no head", instead)
    return heads, about


def _written(head: Head) -> dict[str, Any]:
    line, trees, calibration = head.line, head.trees, head.calibration
    return {
        "stage": head.stage,
        "groups": list(head.basis.groups),
        "measured": head.measured,
        "columns": len(head.basis.names),
        "axes": {name: _array(axes, "f4") for name, axes in head.basis.axes.items()},
        "line": {"weight": _array(line.weight, "f8"), "bias": line.bias, "mean": _array(line.mean, "f8")},
        "trees": {
            "column": _array(trees.column, "i2"),
            "cut": _array(trees.cut, "f8"),
            "leaf": _array(trees.leaf, "f8"),
            "bias": trees.bias,
        },
        "calibration": {
            "score": _array(calibration.score, "f8"),
            "quality": _array(calibration.quality, "f8"),
            "spread_at": _array(head.spread_at, "f8"),
            "spread": _array(head.spread, "f8"),
        },
    }


def _read(found: Mapping[str, Any]) -> Head:
    groups = tuple(group for group in GROUPS if group in found["groups"])
    if list(groups) != list(found["groups"]):
        raise ValueError("unknown groups")
    basis = Basis(groups, {name: _numbers(axes).astype(np.float32) for name, axes in found["axes"].items()})
    columns = len(basis.names)
    line = Line(
        _numbers(found["line"]["weight"]), float(found["line"]["bias"]), _numbers(found["line"]["mean"])
    )
    parts = found["trees"]
    trees = Trees(
        _numbers(parts["column"]).astype(np.int64),
        _numbers(parts["cut"]),
        _numbers(parts["leaf"]),
        float(parts["bias"]),
    )
    if line.weight.shape != (columns,) or line.mean.shape != (columns,):
        raise ValueError("the line does not fit the columns")
    inner = trees.leaf.shape[1] - 1
    if trees.column.shape != (len(trees.leaf), inner) or trees.cut.shape != trees.column.shape:
        raise ValueError("the trees do not fit together")
    if trees.column.size and not 0 <= trees.column.min() <= trees.column.max() < columns:
        raise ValueError("the trees do not fit the columns")
    curve = {name: _numbers(value) for name, value in found["calibration"].items()}
    calibration = Calibration(curve["score"], curve["quality"])
    return Head(
        str(found["stage"]),
        basis,
        line,
        trees=trees,
        calibration=calibration,
        spread_at=curve["spread_at"],
        spread=curve["spread"],
        measured=dict(found["measured"]),
    )


def _array(values: NDArray[Any], kind: str) -> dict[str, Any]:
    content = np.ascontiguousarray(values, dtype=_TYPES[kind]).tobytes()
    return {"type": kind, "shape": list(values.shape), "base64": base64.b64encode(content).decode("ascii")}


def _numbers(found: Mapping[str, Any]) -> NDArray[Any]:
    kind = _TYPES[found["type"]]
    values = np.frombuffer(base64.b64decode(found["base64"], validate=True), dtype=kind)
    if kind.kind == "f" and np.isnan(values).any():
        raise ValueError("not a number among the numbers")
    shaped: NDArray[Any] = values.reshape(found["shape"])
    return shaped.astype(np.float64 if kind.kind == "f" else np.int64)
