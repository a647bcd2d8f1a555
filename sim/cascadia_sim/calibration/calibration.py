"""A calibration: the share of a GPU that one serving engine gets: what was measured, how well it is met, where
it holds.

An all-reduce, a launch or a scheduler differs more between engines, and between versions of one, than a fit errs;
so these constants belong to the pair of GPU and engine. Equations: docs/models/simulator.md.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Literal, get_args

from cascadia_sim.errors import BadInput
from cascadia_sim.hardware.gpu import Efficiency

Evidence = Literal["served", "mixed", "kernels", "none"]
EVIDENCE = get_args(Evidence)
"""Best first: what a calibration rests on."""


class BadCalibration(BadInput):
    """A calibration that cannot be read, or whose numbers mean nothing."""


@dataclass(frozen=True, slots=True)
class FitError:
    """Mean and 90th percentile of |predicted / measured - 1| over `points` iterations.

    Held out: over points of models (or of shapes, or of batches: `source` says which) that the fit did not see;
    None where too few were measured to leave any out.
    """

    points: int
    mean_error: float
    p90_error: float
    held_out_mean_error: float | None = None
    held_out_p90_error: float | None = None


@dataclass(frozen=True, slots=True)
class Validity:
    """Ranges that the measurements covered: tokens of an iteration, degrees of tensor parallelism, context of a
    sequence.

    Also sequences in an iteration (`batch`) and parameters of the models, where these were kept; None: not told.
    Ranges are (least, most), both included.
    """

    tokens: tuple[int, int]
    tp: tuple[int, int]
    context: tuple[int, int]
    batch: tuple[int, int] | None = None
    parameters: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        for name in ("tokens", "tp", "context", "batch", "parameters"):
            least, most = getattr(self, name) or (0, 0)
            if not 0 <= least <= most:
                raise BadCalibration(f"valid.{name}", f"{least} to {most}", "write [least, most]")


@dataclass(frozen=True, slots=True)
class Calibration:
    """`gpu` is a name of the GPU catalogue, or a generation, for all of its GPUs that have no own entry.

    `engine` is "vllm", "sglang", "trtllm", "llama.cpp", or the name of another source of iteration times;
    `precision` is a weight format's name, as in `quantization`.

    `fit` is of the time of an iteration or of an output token, `error_ttft` of the time to the first token as a
    client sees it; None where none was measured. `evidence`: "served", fitted to what a server of this engine, at
    this precision, took; "mixed", kernels of this precision, or another engine's constants, with what this engine
    was measured to add where it served; "kernels", kernels timed alone; "none", generic.
    `superseded`: of an engine so much older than those of today that it stands for none of them.
    """

    name: str
    gpu: str
    engine: str
    _: KW_ONLY
    engine_version: str
    precision: str
    source: str
    fit: FitError
    valid: Validity
    efficiency: Efficiency
    error_ttft: FitError | None = None
    evidence: Evidence = "served"
    superseded: bool = False

    @property
    def served(self) -> bool:
        return self.evidence == "served"
