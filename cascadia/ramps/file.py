"""Ramps as files beside a model: `ramps.json` says where they stand, which are active and how fast they are,
`ramps.safetensors` holds their weights, `exits-state.json` what was certified while they served. They belong to one
`model.onnx`, by its SHA-256, and never change it.
"""

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter, ValidationError

from cascadia.domain.errors import BadInput
from cascadia.exits.path import Path as Settings
from cascadia.exits.timing import Timing
from cascadia.files.atomic import atomic_write
from cascadia.files.text import check_writable, read_text, write_whole
from cascadia.ramps.ramp import Ramp

ABOUT, WEIGHTS, STATE = "ramps.json", "ramps.safetensors", "exits-state.json"
MAX_BYTES = 4_000_000
AGAIN = "train them anew with `cascadia exits train`"


@dataclass(frozen=True, slots=True)
class About:
    """`tensors` and `shares` of all ramps, `active` ones by their place among them, their settings' `thresholds`
    (settings, active), and `timings` of all. `agreement` is the share of texts on which each ramp agrees with the
    model, of `texts` that it was not trained on.
    """

    model_sha256: str
    tensors: tuple[str, ...]
    shares: tuple[float, ...]
    agreement: tuple[float, ...]
    texts: int
    active: tuple[int, ...]
    thresholds: tuple[tuple[float, ...], ...]
    timings: tuple[Timing, ...]
    differed: tuple[float, ...] = ()
    """On how many of the `texts` each setting differs from the model; empty in files that did not say it."""

    def __post_init__(self) -> None:
        n, active = len(self.tensors), self.active
        if not n == len(self.shares) == len(self.agreement) or not self.timings:
            raise ValueError("what is told of ramps does not match them")
        if any(one.ramps != n for one in self.timings):
            raise ValueError("timings are of other ramps")
        if list(active) != sorted(set(active)) or not all(0 <= at < n for at in active):
            raise ValueError("active ramps are not among all, in order")
        if any(len(row) != len(active) for row in self.thresholds):
            raise ValueError("thresholds are of other ramps")
        if not np.isfinite([each for row in self.thresholds for each in row]).all():
            raise ValueError("a threshold is no number")
        if self.differed and len(self.differed) != len(self.thresholds):
            raise ValueError("settings and what they differed on do not match")
        _ = self.path  # It is nested, or raises.

    @property
    def path(self) -> Settings:
        thresholds = np.array(self.thresholds).reshape(len(self.thresholds), len(self.active))
        return Settings(thresholds, np.array(self.differed) if self.differed else None, self.texts)


def check_place(folder: Path) -> None:
    """Raises `BadInput` where ramps could not be written beside the model."""
    for name in (ABOUT, WEIGHTS):
        check_writable(folder / name)


def write_ramps(folder: Path, ramps: tuple[Ramp, ...], about: About) -> None:
    from safetensors.numpy import save

    parts = {
        f"{at}.{part}": np.ascontiguousarray(value)
        for at, ramp in enumerate(ramps)
        for part, value in (("weight", ramp.weight), ("bias", ramp.bias))
    }
    with atomic_write(folder / WEIGHTS) as part:
        part.write_bytes(save(parts))
    write_whole(folder / ABOUT, json.dumps(asdict(about), indent=1) + "\n")


def read_ramps(folder: Path) -> tuple[tuple[Ramp, ...], About]:
    """Raises `BadInput` where there are none, or they were trained for another model."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    for name in (ABOUT, WEIGHTS):
        if not (folder / name).is_file():
            raise BadInput(str(folder), f"has no {name}", f"train ramps with `cascadia exits train {folder}`")
    try:
        about = TypeAdapter(About).validate_json(read_text(folder / ABOUT, MAX_BYTES))
        parts = load_file(folder / WEIGHTS)
        ramps = tuple(
            Ramp(tensor, share, parts[f"{at}.weight"], parts[f"{at}.bias"])
            for at, (tensor, share) in enumerate(zip(about.tensors, about.shares, strict=True))
        )
    except (ValidationError, ValueError, KeyError, SafetensorError) as error:
        raise BadInput(str(folder / ABOUT), f"cannot be read ({error})".splitlines()[0], AGAIN) from None
    if about.model_sha256 != digest(folder / "model.onnx"):
        raise BadInput(str(folder / ABOUT), "is for another model.onnx", AGAIN)
    return ramps, about


def settings_digest(ramps: tuple[Ramp, ...], about: About) -> str:
    """Digest of the ramps and their settings: trained or tuned anew, they have no evidence yet."""
    told = (about.model_sha256, about.active, about.thresholds, [each.tensor for each in ramps])
    found = sha256(json.dumps(told).encode())
    for part in (part for each in ramps for part in (each.weight, each.bias)):
        found.update(np.ascontiguousarray(part).tobytes())
    return found.hexdigest()


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()
