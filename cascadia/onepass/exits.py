"""Exits of a model that the engine serves: its ramps read from beside it, what a response says of them, their
metrics.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from random import Random

from prometheus_client import CollectorRegistry, Gauge

from cascadia.exits.certify import Promise
from cascadia.exits.controller import Controller
from cascadia.onepass.model import GRAPH
from cascadia.onepass.runner import Forwarded, Runner
from cascadia.ramps.file import read_ramps
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
    "withdrawn": "Times that settings were withdrawn for drift, by model.",
}


def exits_of(folder: Path, promise: Promise, shadow: float, threads: int) -> Live:
    """Raises `BadInput` where no ramps lie beside the model in `folder`."""
    import onnx

    ramps, about = read_ramps(folder)
    passes = Passes.of(onnx.load(folder / GRAPH), [ramps[at] for at in about.active], threads)
    return Live(passes, Controller(promise, about.path), shadow, Random())


def exits_told(runner: Runner, found: Forwarded) -> str:
    """Value of the response's header; empty for a model without exits."""
    if runner.exits is None or found.exit_at is None:
        return ""
    ramps = runner.exits.ramps
    return ",".join("-" if at == ramps else str(at + 1) for at in found.exit_at.tolist())


def add_exits(registry: CollectorRegistry, exits: Mapping[str, Live]) -> None:
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
        gauge = Gauge(f"cascadia_engine_exits_{name}", about, ["model"], registry=registry)
        for model, live in exits.items():
            gauge.labels(model).set_function(partial(_count, live, name))


def _taken(live: Live, at: int) -> float:
    return live.state.taken[at]


def _count(live: Live, name: str) -> float:
    return float(getattr(live.state, name)) + (name == "certified")
