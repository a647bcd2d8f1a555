"""Measured iterations, and what a set of constants predicts for them."""

from collections.abc import Hashable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from math import isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cascadia_sim.calibration.calibration import BadCalibration
from cascadia_sim.hardware.gpu import Efficiency, Gpu
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.roofline import Floats
from cascadia_sim.iteration.terms import BY_CONTEXT, BY_PAIRS, BY_SEQUENCES, BY_TOKENS, Setting, charged
from cascadia_sim.models.architecture import Architecture
from cascadia_sim.models.quantization import weight_format


@dataclass(frozen=True, slots=True)
class Cell:
    """One iteration, counted as in `iteration/timing.py`, and how long it was measured to take.

    Cells of the same `run` were measured together (a batch from its prompts to its last token): `seconds` is then
    that of the whole, the same in each, and each iteration happened `repeats` times. `gpu` is that of the fit,
    unless measurements of several are fitted together.
    """

    architecture: Architecture
    tp: int
    pp: int
    _: KW_ONLY
    tokens: float
    sequences: float
    context: float
    pairs: float
    seconds: float
    config: EngineConfig = field(default_factory=EngineConfig)
    repeats: float = 1.0
    run: Hashable = None
    gpu: Gpu | None = None


NOISE = 0.05
"""Relative error at which a measurement weighs as much as one spread of a prior."""


class _Alike(NamedTuple):
    """Cells that differ in their counts only, and where they stand among all."""

    setting: Setting
    counts: Floats  # by cell: tokens, sequences, context, pairs
    rows: NDArray[np.intp]


class Measured:
    """Cells made ready to be predicted often. `seconds`: one entry for each run, in order of appearance."""

    def __init__(self, cells: Sequence[Cell], gpu: Gpu) -> None:
        if not cells or min(c.seconds for c in cells) <= 0 or not all(isfinite(c.seconds) for c in cells):
            raise BadCalibration(
                "cells", "no measured times, or times of 0 or less", "measure some iterations"
            )
        runs: dict[Hashable, int] = {}
        self._run = np.array([runs.setdefault(_run_of(c, i), len(runs)) for i, c in enumerate(cells)])
        self._repeats = np.array([c.repeats for c in cells])
        self.seconds: Floats = np.zeros(len(runs))
        self.seconds[self._run] = [c.seconds for c in cells]
        self.noise: Floats = np.full(len(runs), NOISE)
        alike: dict[Hashable, list[int]] = {}
        for i, c in enumerate(cells):
            alike.setdefault((c.architecture, c.gpu or gpu, c.tp, c.pp, c.config), []).append(i)
        self._alike = [_group([cells[i] for i in rows], gpu, rows) for rows in alike.values()]

    def predicted(self, efficiency: Efficiency) -> Floats:
        """Seconds of each run."""
        iterations = np.empty(len(self._run))
        for part in self._alike:
            setting = replace(part.setting, gpu=replace(part.setting.gpu, efficiency=efficiency))
            tokens, sequences, context, pairs = part.counts
            seconds = charged(BY_TOKENS, tokens, setting) + charged(BY_SEQUENCES, sequences, setting)
            seconds += charged(BY_CONTEXT, context, setting) + charged(BY_PAIRS, pairs, setting)
            iterations[part.rows] = seconds
        totals = np.bincount(self._run, iterations * self._repeats, minlength=len(self.seconds))
        return totals.astype(np.float64)


def _run_of(cell: Cell, index: int) -> Hashable:
    return index if cell.run is None else ("run", cell.run)


def _group(cells: list[Cell], gpu: Gpu, rows: list[int]) -> _Alike:
    c = cells[0]
    form = weight_format(c.config.quantization or c.architecture.quantization)
    setting = Setting(
        c.architecture,
        c.gpu or gpu,
        form,
        tp=c.tp,
        pp=c.pp,
        gpus_per_node=8,
        kv_cache_dtype=c.config.kv_cache_dtype,
        attention_dp=c.config.attention_dp,
        expert_parallel=c.config.enable_expert_parallel,
    )
    counts = np.array([(x.tokens, x.sequences, x.context, x.pairs) for x in cells], dtype=np.float64).T
    return _Alike(setting, counts, np.array(rows))
