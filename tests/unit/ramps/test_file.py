"""Ramps come back from their files as they were, and only for the model that they were trained on."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cascadia.domain.errors import BadInput
from cascadia.exits.timing import Timing
from cascadia.ramps.file import ABOUT, About, digest, read_ramps, settings_digest, write_ramps
from cascadia.ramps.ramp import Ramp

RAMPS = tuple(
    Ramp(f"t{at}", 0.3 * (at + 1), np.full((2, 4), at, dtype=np.float32), np.zeros(2, dtype=np.float32))
    for at in range(2)
)


def about(folder: Path) -> About:
    (folder / "model.onnx").write_bytes(b"a model")
    timing = Timing(1, (1e-3, 2e-3, 1e-3), (1e-5, 1e-5))
    return About(
        digest(folder / "model.onnx"),
        ("t0", "t1"),
        (0.3, 0.6),
        (0.8, 0.9),
        500,
        (1,),
        ((0.1,), (0.2,)),
        (timing,),
        (2.0, 5.0),
    )


def test_they_come_back_as_they_were(tmp_path: Path) -> None:
    write_ramps(tmp_path, RAMPS, about(tmp_path))
    ramps, said = read_ramps(tmp_path)
    assert said == about(tmp_path)
    assert said.path.thresholds.tolist() == [[0.1], [0.2]]
    assert said.path.differed is not None
    assert (said.path.differed.tolist(), said.path.inputs) == ([2.0, 5.0], 500)
    for found, ramp in zip(ramps, RAMPS, strict=True):
        assert (found.tensor, found.share) == (ramp.tensor, ramp.share)
        assert np.array_equal(found.weight, ramp.weight)


def test_ramps_trained_anew_are_told_apart_and_the_same_files_are_not(tmp_path: Path) -> None:
    write_ramps(tmp_path, RAMPS, about(tmp_path))
    known = settings_digest(*read_ramps(tmp_path))
    assert settings_digest(*read_ramps(tmp_path)) == known
    first, second = RAMPS
    for weight, bias in ((second.weight + 1e-3, second.bias), (second.weight, second.bias + 1e-3)):
        write_ramps(tmp_path, (first, replace(second, weight=weight, bias=bias)), about(tmp_path))
        assert settings_digest(*read_ramps(tmp_path)) != known


def test_what_does_not_fit_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"has no ramps\.json"):
        read_ramps(tmp_path)
    write_ramps(tmp_path, RAMPS, about(tmp_path))
    (tmp_path / "model.onnx").write_bytes(b"another model")
    with pytest.raises(BadInput, match="another model"):
        read_ramps(tmp_path)
    said = json.loads((tmp_path / ABOUT).read_text())
    (tmp_path / ABOUT).write_text(json.dumps(said | {"shares": [0.3]}))
    with pytest.raises(BadInput, match="cannot be read"):
        read_ramps(tmp_path)
    (tmp_path / ABOUT).write_text("{")
    with pytest.raises(BadInput, match="cannot be read"):
        read_ramps(tmp_path)


@pytest.mark.parametrize(
    "changed",
    [
        {"active": [7]},
        {"active": [-1]},
        {"active": [1, 0], "thresholds": [[0.1, 0.1], [0.2, 0.2]]},
        {"active": [1, 1], "thresholds": [[0.1, 0.1], [0.2, 0.2]]},
        {"thresholds": [[0.2], [0.1]]},
        {"thresholds": [[float("nan")], [0.1]]},
        {"thresholds": []},
        {"thresholds": [[0.1, 0.2], [0.1, 0.2]]},
        {"timings": []},
        {"timings": [{"batch": 1, "segments_s": [1.0, 1.0], "ramps_s": [0.1]}]},
        {"timings": [{"batch": 1, "segments_s": [float("nan"), 1.0, 1.0], "ramps_s": [0.1, 0.1]}]},
        {"differed": [1.0]},
        {"differed": [1e9, 1e9]},
        {"shares": [0.3]},
        {"tensors": []},
    ],
)
def test_a_file_that_contradicts_itself_is_told(tmp_path: Path, changed: dict[str, Any]) -> None:
    write_ramps(tmp_path, RAMPS, about(tmp_path))
    file = tmp_path / ABOUT
    file.write_text(json.dumps(json.loads(file.read_text()) | changed))
    with pytest.raises(BadInput, match="train them anew"):
        read_ramps(tmp_path)
