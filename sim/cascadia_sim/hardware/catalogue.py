"""GPUs by name, aliases included."""

import json
import re
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from cascadia_sim.errors import BadInput, nearest_text
from cascadia_sim.hardware.gpu import GPUS_PER_NODE, Efficiency, Gpu


class UnknownGpu(BadInput):
    """No such GPU in the catalogue; `nearest` are the names that look most like it."""

    def __init__(self, name: str, nearest: tuple[str, ...]) -> None:
        known = f"write one of {', '.join(known_gpus())}"
        super().__init__("gpu", f"unknown GPU {name!r}", nearest_text(nearest, known))
        self.name = name
        self.nearest = nearest
        self.args = (name, nearest)


class _Catalogue(NamedTuple):
    gpus: dict[str, Gpu]
    devices: dict[str, Gpu]
    names: dict[str, str]  # folded name or alias -> name


@lru_cache(maxsize=256)
def gpu(name: str) -> Gpu:
    """The GPU of that name or alias; letter case, spaces, underscores and a leading vendor don't matter.

    "cpu" is a core of a server, for engines that run without a GPU.
    """
    folded = _folded(name)
    catalogue = _catalogue()
    if folded not in catalogue.names:
        close = get_close_matches(folded, catalogue.names, n=6, cutoff=0.5)
        raise UnknownGpu(name, tuple(dict.fromkeys(catalogue.names[c] for c in close))[:3])
    name = catalogue.names[folded]
    return catalogue.gpus.get(name) or catalogue.devices[name]


def known_gpus() -> tuple[str, ...]:
    """GPUs that a cluster may have."""
    return tuple(_catalogue().gpus)


def is_known(name: str) -> bool:
    """Tells whether `gpu` finds something under `name`."""
    return _folded(name) in _catalogue().names


def generations() -> tuple[str, ...]:
    """Generations of GPUs, in the order of the catalogue."""
    return tuple(dict.fromkeys(known.generation for known in _catalogue().gpus.values()))


def efficiency_of(generation: str) -> Efficiency:
    """The generic constants of one of `generations`."""
    return Efficiency(**_data()["efficiencies"][generation])


def link_latency_s(link: str) -> float:
    """Seconds of one collective for a message of no size over `link`: "nvlink", "xgmi" or "pcie"."""
    return float(_data()["links"][link]["link_latency_s"])


def _folded(name: str) -> str:
    return re.sub(r"^(nvidia|amd|tesla)-", "", re.sub(r"[\s_]+", "-", name.strip().lower()))


@cache
def _data() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (files("cascadia_sim") / "data" / "gpus.json").read_text(encoding="utf-8")
    )
    return found


@cache
def _catalogue() -> _Catalogue:
    data = _data()
    gpus, devices = (
        {name: _gpu(name, entry, data) for name, entry in data[kind].items()} for kind in ("gpus", "devices")
    )
    entries = {**data["gpus"], **data["devices"]}
    names = {alias: name for name, entry in entries.items() for alias in (name, *entry["aliases"])}
    return _Catalogue(gpus, devices, names)


def _gpu(name: str, entry: dict[str, Any], data: dict[str, Any]) -> Gpu:
    flops = entry["flops"]
    return Gpu(
        name=name,
        generation=entry["generation"],
        memory_bytes=entry["memory_bytes"],
        bf16_flops=flops["bf16"],
        fp8_flops=flops.get("fp8", 0.0),
        int8_flops=flops.get("int8", 0.0),
        fp4_flops=flops.get("fp4", 0.0),
        hbm_bytes_per_s=entry["hbm_bytes_per_s"],
        link=entry["link"],
        link_bytes_per_s=entry["link_bytes_per_s"],
        link_latency_s=data["links"][entry["link"]]["link_latency_s"],
        inter_node_bytes_per_s=entry["inter_node_bytes_per_s"],
        inter_node_latency_s=data["inter_node_latency_s"],
        usd_per_hour=entry["usd_per_hour"],
        price_source=data["sources"][entry["price_source"]],
        source=data["sources"][entry["source"]],
        efficiency=Efficiency(**data["efficiencies"][entry["generation"]]),
        gpus_per_node=entry.get("gpus_per_node", GPUS_PER_NODE),
    )
