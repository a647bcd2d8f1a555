"""Exits of a model that the engine serves: its ramps read from beside it, what a response says of them, their
metrics.
"""

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry, Gauge

from cascadia.exits.certify import Promise
from cascadia.exits.controller import Controller
from cascadia.files.exit_state import SharedExits
from cascadia.onepass.model import GRAPH
from cascadia.onepass.runner import Exits, Forwarded, Runner
from cascadia.ramps.file import STATE, read_ramps, settings_digest
from cascadia.ramps.live import Live
from cascadia.ramps.passes import Passes

EXIT_HEADER = "x-cascadia-exit"
"""Of a request, `off`: no exits. Of a response, where each input left: the ramp counted from 1, or `-`."""
COUNTS = {
    "shadowed": "Inputs that ran to the end whatever their ramps said, by model.",
    "disagreed": "Shadowed inputs whose exit differed from the model, by model.",
    "certified": "Setting in force, counted from 1, by model; 0: none.",
    "settings": "Settings on the path, by model.",
    "fed_back": "Inputs that the certificate rests on, by model.",
    "saved_s": "Seconds that answers came sooner, all together, by the model's profile.",
    "withdrawn": "Times that settings were withdrawn for drift, by model.",
}
NAMES = {"saved_s": "saved_seconds"}

_logger = logging.getLogger("cascadia.engine")


def exits_of(folder: Path, promise: Promise, shadow: float, threads: int) -> Live:
    """Exits as they were left off, where the folder says so; engines of one folder share their evidence. Raises
    `BadInput` where no ramps lie beside the model in `folder`.
    """
    import onnx

    ramps, about = read_ramps(folder)
    passes = Passes.of(onnx.load(folder / GRAPH), [ramps[at] for at in about.active], threads)
    controller = Controller(promise, about.path)
    shared = SharedExits(controller, folder / STATE, settings_digest(ramps, about), _logger.warning)
    return Live(
        passes,
        controller,
        shadow,
        Random(),
        profiles=[(one.batch, one.total_s - one.answered_s(about.active)) for one in about.timings],
        shared=shared,
    )


def exits_told(runner: Runner, found: Forwarded) -> str:
    """Value of the response's header; empty for a model without exits."""
    if runner.exits is None or found.exit_at is None:
        return ""
    ramps = runner.exits.ramps
    return ",".join("-" if at == ramps else str(at + 1) for at in found.exit_at.tolist())


def exits_used(runner: Runner, found: Forwarded) -> dict[str, Any] | None:
    """Inputs that left at each ramp and, last, at none; the setting in force, counted from 1, and how often settings
    were withdrawn. None for a model without exits.
    """
    if runner.exits is None or found.exit_at is None:
        return None
    state = runner.exits.state
    return {
        "left": np.bincount(found.exit_at, minlength=runner.exits.ramps + 1).tolist(),
        "setting": state.certified + 1,
        "settings": state.settings,
        "withdrawn": state.withdrawn,
    }


def add_exits(registry: CollectorRegistry, exits: Mapping[str, Exits]) -> None:
    taken = Gauge(
        "cascadia_engine_exits_taken",
        "Inputs by the ramp they left at, 0: none.",
        ["model", "at"],
        registry=registry,
    )
    for model, live in exits.items():
        for at in range(live.ramps + 1):
            told = taken.labels(model, str(at + 1) if at < live.ramps else "0")
            told.set_function(partial(_taken, live, at))
    for name, about in COUNTS.items():
        suffix = NAMES.get(name, name)
        gauge = Gauge(f"cascadia_engine_exits_{suffix}", about, ["model"], registry=registry)
        for model, live in exits.items():
            gauge.labels(model).set_function(partial(_count, live, name))


def _taken(live: Exits, at: int) -> float:
    return live.state.taken[at]


def _count(live: Exits, name: str) -> float:
    return float(getattr(live.state, name)) + (name == "certified")
