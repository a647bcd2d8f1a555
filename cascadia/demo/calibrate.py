"""Speed of the two models here: measured with `cascadia profile latency`, and kept unless others had the cores.

Both engines are measured at the same time, each on its own core, since that is how they will serve.
"""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from cascadia.clients.hub.catalogue import models_folder
from cascadia.clients.processes.ports import free_port
from cascadia.demo.children import Children
from cascadia.demo.measuring.rate import rate_rps
from cascadia.demo.stages import BATCH_TOKENS, LARGE, SLOTS, STAGES, Stage, cascadia_command, engine_command
from cascadia.domain.errors import CascadiaError
from cascadia.files.text import write_whole

MEASURE_S = 90
MEASURED_CONTEXT = 256
"""As much as the demo's requests take, examples included: longer prompts would take all the time."""
BUSY = 0.15
"""Speeds of engines that waited for their cores for more than this share of their time are of that moment only."""


@dataclass(frozen=True, slots=True)
class Speeds:
    """`paths` of the calibrations by stage; `waiting_share` of the engine that waited most while it was measured, 0
    where they were kept from before.
    """

    paths: Mapping[str, Path]
    waiting_share: float = 0.0

    @property
    def busy(self) -> bool:
        return self.waiting_share > BUSY

    @property
    def rate_rps(self) -> float:
        """Requests a second that the large model can bear alone."""
        return rate_rps(self.paths[LARGE.name])


def calibration_paths() -> Mapping[str, Path]:
    """Calibration files by stage, in the cache, named by all that a calibration depends on."""
    folder = models_folder().parent / "calibrations"
    return {stage.name: folder / f"{stage.name}-{_digest(stage)}.json" for stage in STAGES}


def kept_speeds() -> Speeds | None:
    paths = calibration_paths()
    return Speeds(paths) if all(path.exists() for path in paths.values()) else None


def calibrate(weights: Mapping[str, Path], cores: Mapping[str, int | None], logs: Path) -> Speeds:
    """Measures both engines, in about `MEASURE_S`, and writes `calibration_paths`; those of a busy moment are written
    beside `logs` instead, for this once. `weights`, `cores` by stage.
    """
    with Children(logs) as children:
        engines = {}
        for stage in STAGES:
            port = free_port()
            # Prompts of a measured length: without the examples that a template would put in front.
            command = engine_command(stage, weights[stage.name], port, MEASURED_CONTEXT, bare=True)
            engines[stage.name] = children.start(f"calibrated-{stage.name}", command, port, cores[stage.name])
        children.wait()
        new = {stage.name: logs / f"calibration-{stage.name}.json" for stage in STAGES}
        for path in new.values():
            path.unlink(missing_ok=True)
        measuring = {
            stage.name: children.start(
                f"profile-{stage.name}", _measure(stage, engines[stage.name].url, new[stage.name]), 0
            )
            for stage in STAGES
        }
        for name, child in measuring.items():
            if child.process.wait() != 0:
                raise CascadiaError(f"{name} cannot be measured: {child.last_line()}")
        return keep(Speeds(new, max(engine.waiting_share for engine in engines.values())))


def keep(measured: Speeds) -> Speeds:
    """Copies what was measured to `calibration_paths`, unless that was a busy moment."""
    if measured.busy:
        return measured
    paths = calibration_paths()
    for name, path in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, measured.paths[name].read_text())
    return Speeds(paths, measured.waiting_share)


def _measure(stage: Stage, url: str, out: Path) -> list[str]:
    return cascadia_command(
        *("profile", "latency", "--quiet", "--base-url", url, "--model", stage.name),
        *("--architecture", stage.architecture, "--gpu", "cpu", "--quantization", stage.quantization),
        *("--max-num-seqs", str(SLOTS), "--max-num-batched-tokens", str(BATCH_TOKENS)),
        *("--max-seconds", str(MEASURE_S), "--out", str(out)),
    )


def _digest(stage: Stage) -> str:
    """Digest of the weights and their format, the engine and the processor: a calibration of another is not
    used.
    """
    from importlib.metadata import version

    cpu = next(
        (
            line
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith(("model name", "Model"))
        ),
        platform.processor(),
    )
    weights = f"{stage.model.folder_name} {stage.quantization}"
    text = f"{weights} {version('xllamacpp')} {cpu} {SLOTS} {MEASURED_CONTEXT} undisturbed"
    return sha256(text.encode()).hexdigest()[:12]
