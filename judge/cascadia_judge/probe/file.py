"""A probe as one JSON file: what it was trained on, how well it did, and its numbers."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cascadia_judge.errors import BadVerdict
from cascadia_judge.head.arrays import array_written, digest_of, numbers_in
from cascadia_judge.head.learned import Line
from cascadia_judge.probe.familiar import Axes, Familiar
from cascadia_judge.probe.probe import Probe, ProbeHead
from cascadia_judge.scores.calibration import Calibration

KIND = "cascadia-probe"
VERSION = 1
BYTES_MAX = 64 * 2**20
INSTEAD = "name a file that `cascadia judge train --probe` has written"


def dump_probe(probe: Probe) -> str:
    axes = probe.familiar.axes
    document = {
        "kind": KIND,
        "version": VERSION,
        "about": probe.about,
        "layer": probe.layer,
        "layers": probe.layers,
        "width": probe.width,
        "question": _written(probe.question),
        "answer": _written(probe.answer),
        "familiar": {
            "mean": array_written(axes.mean, "f4"),
            "scale": array_written(axes.scale, "f4"),
            "directions": array_written(axes.directions, "f4"),
            "cut": probe.familiar.cut,
            "unlike_rate": probe.familiar.unlike_rate,
        },
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def is_probe(file: Path) -> bool:
    """Tells whether the file says that it is one; nothing else of it is checked."""
    try:
        with file.open("rb") as stream:
            return f'"kind": "{KIND}"'.encode() in stream.read(200)
    except OSError:
        return False


def read_probe(file: Path) -> Probe:
    """Raises `BadVerdict`."""
    if not file.is_file() or file.stat().st_size > BYTES_MAX:
        raise BadVerdict(str(file), "is no file of a probe", INSTEAD)
    try:
        content = file.read_bytes()
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise BadVerdict(str(file), "is no JSON", INSTEAD) from None
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise BadVerdict(str(file), "is no probe", INSTEAD)
    if document.get("version") != VERSION:
        what = f"has version {document.get('version')!r}"
        raise BadVerdict(str(file), what, f"train it anew: this is version {VERSION}")
    try:
        return replace(_read(document), digest=digest_of(content))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise BadVerdict(str(file), f"is damaged ({type(error).__name__}: {error})"[:200], INSTEAD) from None


def _read(document: Mapping[str, Any]) -> Probe:
    width, layer, layers = (int(document[name]) for name in ("width", "layer", "layers"))
    if not 0 <= layer < layers:
        raise ValueError("the layer is none of the layers")
    found = document["familiar"]
    mean, scale, directions = (
        numbers_in(found[name]).astype(np.float64) for name in ("mean", "scale", "directions")
    )
    if mean.shape != (width,) or scale.shape != (width,) or directions.shape[:1] != (width,):
        raise ValueError("the axes do not fit the width")
    return Probe(
        layer,
        layers,
        width,
        question=_head(document["question"], width),
        answer=_head(document["answer"], 3 * width),
        familiar=Familiar(Axes(mean, scale, directions), float(found["cut"]), float(found["unlike_rate"])),
        about=dict(document["about"]),
    )


def _written(head: ProbeHead) -> dict[str, Any]:
    return {
        "measured": head.measured,
        "line": {
            "weight": array_written(head.line.weight, "f4"),
            "mean": array_written(head.line.mean, "f4"),
            "bias": head.line.bias,
        },
        "calibration": {
            "score": array_written(head.calibration.score, "f8"),
            "quality": array_written(head.calibration.quality, "f8"),
        },
    }


def _head(found: Mapping[str, Any], columns: int) -> ProbeHead:
    weight, mean = (numbers_in(found["line"][name]).astype(np.float64) for name in ("weight", "mean"))
    if weight.shape != (columns,) or mean.shape != (columns,):
        raise ValueError("the line does not fit the width")
    curve = found["calibration"]
    calibration = Calibration(numbers_in(curve["score"]), numbers_in(curve["quality"]))
    return ProbeHead(Line(weight, float(found["line"]["bias"]), mean), calibration, dict(found["measured"]))
