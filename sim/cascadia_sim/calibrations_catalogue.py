"""Which calibration stands for a GPU, an engine and a precision.

The first that is there is taken; among versions of an engine, the one that the file tells first (the newest):

1. this GPU, this engine, this precision; then another precision;
2. this GPU, another serving engine, this precision; then another precision;
3. the same two for the GPU's generation: an entry for all of it, or for another GPU of it;
4. the generation's generic constants (`data/gpus.json`), fitted to no one engine.

Entries that are no serving engine (a simulator's iteration times) are found only under their own name.
"""

import json
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

from cascadia_sim.calibration import Calibration, FitError, Validity
from cascadia_sim.calibration_json import calibration_from
from cascadia_sim.gpu import Gpu
from cascadia_sim.gpus_catalogue import gpu as catalogued
from cascadia_sim.gpus_catalogue import known_gpus

SERVING_ENGINES = ("vllm", "sglang", "trtllm", "llama.cpp")


class Found(NamedTuple):
    """`match` says in words how near the entry is to what was asked for."""

    calibration: Calibration
    match: str


def find_calibration(gpu: Gpu, engine: str, precision: str) -> Calibration:
    return closest_calibration(gpu, engine, precision).calibration


@lru_cache(maxsize=256)
def closest_calibration(gpu: Gpu, engine: str, precision: str) -> Found:
    """Never fails: a GPU, engine or precision that is not known gets the generation's generic constants."""
    everything = known_calibrations()
    own = [c for c in everything if c.gpu == gpu.name]
    alike = [c for c in everything if c not in own and _generation(c) == gpu.generation]
    for place, at_hand in ((gpu.name, own), (f"generation {gpu.generation}", alike)):
        same = [c for c in at_hand if c.engine == engine]
        others = [c for c in at_hand if c.engine != engine and c.engine in SERVING_ENGINES]
        for whose, entries in (("this engine", same), ("another engine", others)):
            for c in sorted(entries, key=lambda c: c.precision != precision):
                what = "this precision" if c.precision == precision else "another precision"
                return Found(c, f"{place}, {whose}, {what}")
    return Found(generic_calibration(gpu, engine, precision), f"generic for {gpu.generation}")


@cache
def known_calibrations() -> tuple[Calibration, ...]:
    """All entries, in the order of the file."""
    text = (files("cascadia_sim") / "data" / "calibrations.json").read_text(encoding="utf-8")
    entries = json.loads(text)["calibrations"]
    return tuple(calibration_from(e, f"calibrations.json[{i}]") for i, e in enumerate(entries))


def _generation(calibration: Calibration) -> str:
    """An entry's GPU is a generation where it is none of the catalogue."""
    name = calibration.gpu
    return catalogued(name).generation if name in known_gpus() else name


def generic_calibration(gpu: Gpu, engine: str, precision: str) -> Calibration:
    """The constants that `gpu` brings, as a calibration."""
    return Calibration(
        name=f"{gpu.generation}-generic",
        gpu=gpu.generation,
        engine=engine,
        engine_version="any",
        precision=precision,
        source="constants of the GPU's generation, fitted to no one engine (gpus.json)",
        fit=FitError(0, 0.0, 0.0),
        valid=Validity((0, 0), (0, 0), (0, 0)),
        efficiency=gpu.efficiency,
    )
