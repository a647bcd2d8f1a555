"""Processes of `cascadia demo --classify`: an engine a core, each with all the models, and a router in front."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cascadia.clients.processes.ports import free_port
from cascadia.demo.children import Child, Children
from cascadia.demo.stages import cascadia_command, cores
from cascadia.onepass.model import read_model

GROUP = "intent"
THRESHOLDS = {"intent-1-int8": 40.0, "intent-4-int8": 20.0, "intent-6-int8": 0.0}
"""Margins of the cascade, chosen on half of the texts that are kept for measuring: the most accurate there for half of
the largest model's compute (`python -m tests.benchmarks.bench_onepass cascade`)."""
EARLIER_WEIGHT = 0.3
"""Chosen with them."""

BATCHES = {
    "slo_ms": 500,
    "max_batch": 32,
    "min_queue": [{"up_to_rps": 1e6, "lengths": dict.fromkeys(THRESHOLDS, 16)}],
    "max_wait_ms": 50,
}
"""Of the group: a batch that is nearly full costs less a text than a small one."""


@dataclass(frozen=True, slots=True)
class OnePassFleet:
    engines: tuple[Child, ...]
    router: Child

    @property
    def engines_cpu_s(self) -> float:
        return sum(engine.cpu_s for engine in self.engines)


def start_one_pass(
    children: Children,
    models: Sequence[Path],
    thresholds: Mapping[str, float],
    folder: Path,
    *,
    port: int = 0,
    group: Mapping[str, Any] | None = None,
    workers: int | None = None,
    earlier_weight: float = 0.0,
) -> OnePassFleet:
    """Starts the processes and does not wait. `thresholds` by model in the order of the cascade; `group` are the keys
    of a group that all are in, None for none. One worker a core, where `workers` does not say how many;
    `earlier_weight` is of all models but the first."""
    engines = []
    for number, core in enumerate(cores()[: workers or len(cores())]):
        at = free_port()
        command = cascadia_command("engine", "serve", *map(str, models), "--port", str(at), "--quiet")
        engines.append(children.start(f"engine-{number}", command, at, core))
    at = port or free_port()
    urls = [engine.url for engine in engines]
    document = one_pass_document(thresholds, urls, at, group, earlier_weight)
    file = folder / "router.yaml"
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    router = children.start("router", cascadia_command("serve", str(file), "--quiet"), at)
    return OnePassFleet(tuple(engines), router)


def one_pass_document(
    thresholds: Mapping[str, float],
    urls: Sequence[str],
    port: int,
    group: Mapping[str, Any] | None,
    earlier_weight: float = 0.0,
) -> dict[str, Any]:
    """`router.yaml` of models that classify, all at each of `urls`."""
    stages = [
        {"name": name, "task": "classify", "threshold": threshold, "replicas": [{"url": url} for url in urls]}
        | ({} if group is None else {"group": GROUP})
        | ({"earlier_weight": earlier_weight} if at and earlier_weight else {})
        for at, (name, threshold) in enumerate(thresholds.items())
    ]
    groups = {} if group is None else {"groups": [{"name": GROUP, **group}]}
    return {"stages": stages, **groups, "port": port}


def made_models(encoder: Path, root: Path) -> list[Path]:
    """Folders of the cascade's models under `root`, made where they are not there yet."""
    from cascadia.onepass.family import make_family

    folders = [root / name for name in THRESHOLDS]
    if not all((folder / "model.json").is_file() for folder in folders):
        list(make_family(encoder, root, ("classify",), ("int8",)))
    for folder in folders:
        read_model(folder)
    return folders
