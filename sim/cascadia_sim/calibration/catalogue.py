"""The catalogue of calibrations, and which of them stands for a GPU, an engine and a precision.

How one is chosen is in `choice.py`. Where a generation has none, its generic constants stand
(`data/gpus.json`), fitted to no one engine.
"""

import json
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

from cascadia_sim.calibration.calibration import Calibration
from cascadia_sim.calibration.choice import (
    SERVING_ENGINES,
    best,
    generation_of,
    generic,
    joined,
    link_of,
    server,
)
from cascadia_sim.calibration.file import calibration_from
from cascadia_sim.hardware.gpu import Gpu

generic_calibration = generic
WORDS = {"served": "served", "mixed": "partly served", "kernels": "kernels alone", "none": "generic"}


class Found(NamedTuple):
    """`match` says in words how near the entry is to what was asked for."""

    calibration: Calibration
    match: str


def find_calibration(gpu: Gpu, engine: str, precision: str) -> Calibration:
    return closest_calibration(gpu, engine, precision).calibration


@lru_cache(maxsize=512)
def closest_calibration(gpu: Gpu, engine: str, precision: str) -> Found:
    """Closest calibration of the catalogue. It never fails: a GPU, engine or precision that is not known gets
    the generation's generic constants.
    """
    return choose(known_calibrations(), gpu, engine, precision)


def choose(entries: tuple[Calibration, ...], gpu: Gpu, engine: str, precision: str) -> Found:
    """Returns what `closest_calibration` would, from these entries alone."""
    entry = best(entries, gpu, engine, precision)
    if entry is None:
        return Found(generic(gpu, engine, precision), f"generic for {gpu.generation}")
    own = server(entries, gpu, engine, precision)
    links = next((c for c in entries if c.gpu == gpu.name and link_of(c) == gpu.link), None)
    found = joined(entry, own, links, gpu, precision)
    words = (
        gpu.name if entry.gpu == gpu.name else f"generation {gpu.generation} ({entry.gpu})",
        "this engine" if entry.engine == engine else f"another engine ({entry.engine})",
        "this precision" if entry.precision == precision else f"another precision ({entry.precision})",
        "served years ago" if found.superseded else WORDS[found.evidence],
    )
    return Found(found, ", ".join(words))


@cache
def known_calibrations() -> tuple[Calibration, ...]:
    """All entries, in the order of the file."""
    text = (files("cascadia_sim") / "data" / "calibrations.json").read_text(encoding="utf-8")
    entries = json.loads(text)["calibrations"]
    return tuple(calibration_from(e, f"calibrations.json[{i}]") for i, e in enumerate(entries))


__all__ = [
    "SERVING_ENGINES",
    "Found",
    "choose",
    "closest_calibration",
    "find_calibration",
    "generation_of",
    "generic_calibration",
    "known_calibrations",
]
