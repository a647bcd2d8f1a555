"""Speed of the two models on this machine: measured once, with `cascadia profile latency`, and kept.

Both engines are measured at the same time, each on its own core, since that is how they will serve.
"""

import platform
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from cascadia.clients.hub.catalogue import models_folder
from cascadia.clients.processes.ports import free_port
from cascadia.demo.children import Children
from cascadia.demo.stages import BATCH_TOKENS, SLOTS, STAGES, Stage, cascadia_command, engine_command
from cascadia.domain.errors import CascadiaError

MEASURE_S = 90
MEASURED_CONTEXT = 256
"""As much as the demo's requests take, examples included: longer prompts would take all the time."""


def calibration_paths() -> Mapping[str, Path]:
    """Calibration files by stage, in the cache, named by all that a calibration depends on."""
    folder = models_folder().parent / "calibrations"
    return {stage.name: folder / f"{stage.name}-{_digest(stage)}.json" for stage in STAGES}


def calibrate(weights: Mapping[str, Path], cores: Mapping[str, int | None], logs: Path) -> None:
    """Writes what is missing of `calibration_paths`; takes about `MEASURE_S`. `weights`, `cores` by stage."""
    paths = calibration_paths()
    for path in paths.values():
        path.parent.mkdir(parents=True, exist_ok=True)
    with Children(logs) as children:
        engines = {}
        for stage in STAGES:
            port = free_port()
            # Prompts of a measured length: without the examples that a template would put in front.
            command = engine_command(stage, weights[stage.name], port, MEASURED_CONTEXT, bare=True)
            engines[stage.name] = children.start(f"calibrated-{stage.name}", command, port, cores[stage.name])
        children.wait()
        measuring = {}
        for stage in STAGES:
            new = paths[stage.name].with_suffix(".new.json")
            command = cascadia_command(
                *(
                    "profile",
                    "latency",
                    "--quiet",
                    "--base-url",
                    engines[stage.name].url,
                    "--model",
                    stage.name,
                ),
                *("--architecture", stage.architecture, "--gpu", "cpu", "--quantization", stage.quantization),
                *("--max-num-seqs", str(SLOTS), "--max-num-batched-tokens", str(BATCH_TOKENS)),
                *("--max-seconds", str(MEASURE_S), "--out", str(new)),
            )
            measuring[stage.name] = (children.start(f"profile-{stage.name}", command, 0), new)
        for stage in STAGES:
            child, new = measuring[stage.name]
            if child.process.wait() != 0:
                raise CascadiaError(f"{stage.name} cannot be measured: {child.last_line()}")
            new.replace(paths[stage.name])


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
    text = f"{weights} {version('xllamacpp')} {cpu} {SLOTS} {MEASURED_CONTEXT}"
    return sha256(text.encode()).hexdigest()[:12]
