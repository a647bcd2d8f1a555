"""Error of the times that a calibration gives, where it stands in for what nobody measured.

An entry's own error holds on its GPU, for its engine and precision. Where the catalogue has to fall back
(`calibration/catalogue.py`) more is wrong than that: `STAND_INS` says how much, on average, it was on real servers
of H200 and B200 that were predicted with every entry that could have stood in
(`python -m tests.benchmarks.fidelity.borrowed`, 2026-11-26).
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from cascadia_sim.calibration.calibration import Calibration, FitError
from cascadia_sim.calibration.catalogue import closest_calibration
from cascadia_sim.evidence.unmeasured import carried_over
from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.models.architecture import Architecture

Basis = Literal["own", "served", "kernels", "generic", "unmeasured"]
"""What the constants were fitted to: the user's engine, a served one, kernels alone, a generation's several sources;
`unmeasured`: assumed, from data sheets."""

MEASURED_GENERATIONS = frozenset({"ampere", "hopper", "blackwell"})
"""Of which the generic constants were fitted to something (docs/benchmarks/fidelity.md)."""


class Errors(NamedTuple):
    """Mean |predicted / measured - 1| of the time per output token, and to the first token."""

    tpot: float
    ttft: float


STAND_INS = {
    "kernels": Errors(0.13, 0.29),
    "another precision": Errors(0.24, 0.27),
    "another GPU": Errors(0.24, 0.41),
    "another engine": Errors(0.14, 0.38),
    "generic": Errors(0.17, 0.47),
    "unmeasured": Errors(0.33, 0.76),
}
"""`another GPU` of the generation could not be tried: it has another precision's, and, to the first token, what H200's
entry missed on H100. `unmeasured` has the p90 of what generic constants miss where they were fitted to something."""

FIRST_TOKEN = 0.17
"""Of entries that do not tell their error to the first token: what those of H200 and B200 miss."""


@dataclass(frozen=True, slots=True)
class Standing:
    """`match` says in words how near `calibration` is; `held_out`: its errors are of models that it had not seen,
    on this very GPU, engine and precision."""

    calibration: Calibration
    match: str
    basis: Basis
    error_tpot: float
    error_ttft: float
    held_out: bool


def standing_of(architecture: Architecture, gpu: Gpu, config: EngineConfig) -> Standing:
    """Standing of the calibration that `build.calibration_of` takes."""
    own = config.calibration
    if own is not None and own.gpu in (gpu.name, gpu.generation):
        # A profile measures prefills as it measures steps, so that its error is of both.
        tpot = own_errors(own).tpot
        return Standing(own, "your own", "own", tpot, tpot, own.fit.held_out_mean_error is not None)
    return standing(gpu, config.engine, config.quantization or architecture.quantization or "bf16")


def standing(gpu: Gpu, engine: str, precision: str) -> Standing:
    """Standing of the catalogue's closest entry."""
    entry, match = closest_calibration(gpu, engine, precision)
    basis = basis_of(entry, gpu)
    distances = []
    if basis != "served":
        distances.append(STAND_INS[basis])
    if entry.fit.points:
        distances.append(own_errors(entry))
        if entry.precision != precision:
            distances.append(STAND_INS["another precision"])
        if entry.engine != engine:
            distances.append(STAND_INS["another engine"])
        if entry.gpu != gpu.name or carried_over(entry):
            distances.append(STAND_INS["another GPU"])
    exact = basis == "served" and len(distances) == 1
    # The worst of them and not their sum: each was measured with all that is wrong on real servers.
    worst = Errors(max(e.tpot for e in distances), max(e.ttft for e in distances))
    return Standing(entry, match, basis, *worst, held_out=exact and entry.fit.held_out_mean_error is not None)


def basis_of(entry: Calibration, gpu: Gpu) -> Basis:
    """Basis of `entry`, taken for `gpu`: the measurements that it was fitted to."""
    if not entry.fit.points:
        return "generic" if gpu.generation in MEASURED_GENERATIONS else "unmeasured"
    return "kernels" if entry.evidence == "kernels" or "kernels" in entry.source else "served"


def own_errors(entry: Calibration) -> Errors:
    """Errors on what the fit left out; on what it saw where it left nothing out."""
    tpot, first = (None if e is None else _unseen(e) for e in (entry.fit, entry.error_ttft))
    assert tpot is not None
    return Errors(tpot, max(tpot, FIRST_TOKEN) if first is None else first)


def _unseen(error: FitError) -> float:
    return error.mean_error if error.held_out_mean_error is None else error.held_out_mean_error
