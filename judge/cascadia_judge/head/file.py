"""An embedding judge as one JSON file: what it was trained on, how well it did, and its numbers.

Arrays are base64 of little-endian bytes, with their type and shape. Nothing in the file can name code.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from cascadia_judge.errors import BadVerdict
from cascadia_judge.head.arrays import array_written, numbers_in
from cascadia_judge.head.features import GROUPS
from cascadia_judge.head.head import Head
from cascadia_judge.head.learned import Line, Trees
from cascadia_judge.head.projection import Basis
from cascadia_judge.scores.calibration import Calibration

KIND = "cascadia-embedding-judge"
VERSION = 1
BYTES_MAX = 64 * 2**20


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
        "axes": {name: array_written(axes, "f4") for name, axes in head.basis.axes.items()},
        "line": {
            "weight": array_written(line.weight, "f8"),
            "bias": line.bias,
            "mean": array_written(line.mean, "f8"),
        },
        "trees": {
            "column": array_written(trees.column, "i2"),
            "cut": array_written(trees.cut, "f8"),
            "leaf": array_written(trees.leaf, "f8"),
            "bias": trees.bias,
        },
        "calibration": {
            "score": array_written(calibration.score, "f8"),
            "quality": array_written(calibration.quality, "f8"),
            "spread_at": array_written(head.spread_at, "f8"),
            "spread": array_written(head.spread, "f8"),
        },
    }


def _read(found: Mapping[str, Any]) -> Head:
    groups = tuple(group for group in GROUPS if group in found["groups"])
    if list(groups) != list(found["groups"]):
        raise ValueError("unknown groups")
    basis = Basis(groups, {name: numbers_in(axes).astype(np.float32) for name, axes in found["axes"].items()})
    columns = len(basis.names)
    line = Line(
        numbers_in(found["line"]["weight"]), float(found["line"]["bias"]), numbers_in(found["line"]["mean"])
    )
    parts = found["trees"]
    trees = Trees(
        numbers_in(parts["column"]).astype(np.int64),
        numbers_in(parts["cut"]),
        numbers_in(parts["leaf"]),
        float(parts["bias"]),
    )
    if line.weight.shape != (columns,) or line.mean.shape != (columns,):
        raise ValueError("the line does not fit the columns")
    inner = trees.leaf.shape[1] - 1
    if trees.column.shape != (len(trees.leaf), inner) or trees.cut.shape != trees.column.shape:
        raise ValueError("the trees do not fit together")
    if trees.column.size and not 0 <= trees.column.min() <= trees.column.max() < columns:
        raise ValueError("the trees do not fit the columns")
    curve = {name: numbers_in(value) for name, value in found["calibration"].items()}
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
