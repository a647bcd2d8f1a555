"""The calibrations that a spec names: read, and refused where they were measured on something else."""

from pathlib import Path
from typing import get_args

from cascadia.domain.cluster import Cluster
from cascadia.domain.errors import BadInput
from cascadia.domain.problem import Engine
from cascadia.files.homes import named_path
from cascadia_sim import errors as sim_errors
from cascadia_sim.calibration.calibration import Calibration
from cascadia_sim.calibration.file import read_calibration
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.models.architecture import Architecture

AGAIN = "measure this one with `cascadia profile latency`, or remove the line"


def calibration_path(name: str | None, folder: Path) -> Path | None:
    return None if name is None else named_path(folder, name)


def stage_calibration(
    path: Path | None, engine: str, quantization: str | None, found: Architecture, where: str
) -> Calibration | None:
    """The calibration at `path` for a stage of this engine, precision and model; `where` it stands in the spec."""
    if path is None:
        return None
    try:
        measured = read_calibration(path)
    except sim_errors.BadInput as error:
        raise BadInput(f"{where}: {error.where}", error.what, error.instead) from None
    if measured.engine in get_args(Engine) and measured.engine != engine:
        raise BadInput(where, f"{path.name} was measured on {measured.engine}, this runs {engine}", AGAIN)
    precision = quantization or found.quantization or "bf16"
    if measured.precision != precision:
        raise BadInput(
            where, f"{path.name} was measured at {measured.precision}, this runs at {precision}", AGAIN
        )
    return measured


def check_on_cluster(config: EngineConfig | None, cluster: Cluster, where: str) -> None:
    """A calibration that holds on no GPU of the cluster would change nothing."""
    if config is None or config.calibration is None:
        return
    here = {pool.gpu for pool in cluster.pools}
    if config.calibration.gpu not in here | {pool.hardware.generation for pool in cluster.pools}:
        raise BadInput(
            f"{where}.calibration",
            f"was measured on {config.calibration.gpu}, and no pool has that",
            f"the pools have {', '.join(sorted(here))}: {AGAIN}",
        )
