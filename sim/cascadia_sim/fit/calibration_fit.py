"""Constants of an engine from measured iterations: least squares on relative errors, tied to a prior.

Minimises  sum_i huber(ln(predicted_i / measured_i) / noise_i)^2 + sum_j (ln(x_j / prior_j) / spread_j)^2  over the
constants x_j, in their logarithms, by Levenberg-Marquardt with numeric derivatives (Levenberg 1944, Marquardt
1963) and weights after Huber (1964), so that a few wild measurements do not decide. What the cells say nothing
about stays at the prior.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import asdict, replace
from typing import Protocol

import numpy as np

from cascadia_sim.calibration.calibration import Calibration, FitError, Validity
from cascadia_sim.fit.calibration_cells import Cell, Measured
from cascadia_sim.hardware.gpu import Efficiency, Gpu
from cascadia_sim.iteration.roofline import Floats

SPREAD = 0.35
"""Of a constant, in its logarithm, where SPREADS says nothing else."""
SPREADS = {
    "ridge": 0.3,
    "link_latency": 0.7,
    "link_tp2": 0.2,
    "link_tp4": 0.2,
    "link_tp8": 0.2,
    "iteration_s": 0.7,
    "sequence_s": 1.5,
    "attention_sequence_s": 1.5,
    "decode_compute": 1.5,
    "wave_outputs": 1.0,
    "head": 0.1,
    "sampler": 1.0,
}
SMALLEST = {
    "sequence_s": 3e-6,
    "attention_sequence_s": 2e-7,
    "decode_compute": 3.0,
    "wave_outputs": 5e4,
}
"""Where a constant with a prior of 0 starts; it can come arbitrarily near to 0 again."""
SHARES = frozenset(
    {"gemm_compute", "gemm_low_precision", "gemm_hbm", "expert_compute", "dequantise"}
    | {"attention_compute", "kv_hbm", "link"}
)
HUBER = 2.0
STEPS = 60
STEP = 1e-4


class Predictable(Protocol):
    """Measured times, and what constants predict for them; `noise` is of each in its logarithm."""

    @property
    def seconds(self) -> Floats: ...

    @property
    def noise(self) -> Floats: ...

    def predicted(self, efficiency: Efficiency) -> Floats: ...


def fit(
    cells: Sequence[Cell], start: Calibration, gpu: Gpu, *, free: Collection[str] | None = None
) -> Calibration:
    """`start` with its constants moved to where the cells want them; its errors and validity are the cells'.

    `free` names the constants that may move; all, unless given. Raises `BadCalibration` for no cells.
    """
    measured = Measured(cells, gpu)
    efficiency = fit_efficiency(measured, start.efficiency, free)
    errors = relative_errors(measured, efficiency)
    return replace(
        start,
        gpu=gpu.name,
        efficiency=efficiency,
        fit=FitError(len(errors), _mean(errors), _p90(errors)),
        valid=_validity(cells),
    )


def held_out(
    cells: Sequence[Cell], groups: Sequence[Hashable], start: Calibration, gpu: Gpu
) -> tuple[Floats, Calibration]:
    """Errors (predicted / measured - 1) of each run by a fit without its group, and the fit to all.

    `groups`: of each cell, such as its model; cells of one run are of one group.
    """
    errors: list[Floats] = []
    for group in dict.fromkeys(groups):
        seen = [c for c, g in zip(cells, groups, strict=True) if g != group]
        unseen = [c for c, g in zip(cells, groups, strict=True) if g == group]
        found = fit(seen, start, gpu) if seen else start
        errors.append(relative_errors(Measured(unseen, gpu), found.efficiency))
    together = np.concatenate(errors)
    whole = fit(cells, start, gpu)
    left_out = replace(whole.fit, held_out_mean_error=_mean(together), held_out_p90_error=_p90(together))
    return together, replace(whole, fit=left_out)


def relative_errors(measured: Predictable, efficiency: Efficiency) -> Floats:
    """Predicted / measured - 1 of each run."""
    return np.asarray(measured.predicted(efficiency) / measured.seconds - 1.0)


def fit_efficiency(
    measured: Predictable,
    prior: Efficiency,
    free: Collection[str] | None = None,
    tightness: float = 1.0,
) -> Efficiency:
    """`tightness` divides the spreads of the priors. A constant of 0 that is not in SMALLEST stays 0."""
    values = asdict(prior)
    starts = {n: v if v > 0 else SMALLEST.get(n, 0.0) for n, v in values.items()}
    may_move = [n for n, v in starts.items() if v > 0 and (free is None or n in free)]
    names = _active(measured, replace(prior, **{n: starts[n] for n in may_move}), may_move)
    centre = np.array([starts[n] for n in names])
    spread = np.array([SPREADS.get(n, SPREAD) for n in names]) / tightness

    def constants(moves: Floats) -> Efficiency:
        moved = (centre * np.exp(moves)).tolist()
        return replace(
            prior, **{n: min(1.0, v) if n in SHARES else v for n, v in zip(names, moved, strict=True)}
        )

    def residuals(moves: Floats) -> Floats:
        misses = np.log(measured.predicted(constants(moves)) / measured.seconds) / measured.noise
        # Huber's loss as a square: grows as the root of the miss beyond HUBER spreads of the noise.
        size = np.abs(misses)
        bent = np.sqrt(np.where(size > HUBER, 2 * HUBER * size - HUBER**2, size**2))
        return np.concatenate([bent * np.sign(misses), moves / spread])

    return constants(_least_squares(residuals, np.zeros(len(names))))


def _active(measured: Predictable, start: Efficiency, names: list[str]) -> list[str]:
    """Names of the constants that change what is predicted; the others stay at the prior."""
    still = measured.predicted(start)

    def moves(name: str) -> bool:
        return bool(np.any(measured.predicted(replace(start, **{name: 0.9 * getattr(start, name)})) != still))

    return [n for n in names if moves(n)]


def _least_squares(residuals: Callable[[Floats], Floats], x: Floats) -> Floats:
    """Levenberg-Marquardt: damps where a step fails, until a step gains less than a millionth."""
    damping, r = 1e-2, residuals(x)
    for _ in range(STEPS):
        jacobian = np.stack([(residuals(x + h) - r) / STEP for h in STEP * np.eye(len(x))], axis=1)
        gradient, curvature = jacobian.T @ r, jacobian.T @ jacobian
        for _ in range(12):
            # Marquardt's scaling by the diagonal: constants differ by how much the cells say of them, not by
            # their units.
            step = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), -gradient)
            # A step of 1 is a factor of e in a constant: beyond it the linear model says nothing.
            tried = residuals(x + np.clip(step, -1.0, 1.0))
            if tried @ tried < r @ r:
                break
            damping *= 4
        else:
            return x
        gain = r @ r - tried @ tried
        x, r, damping = x + np.clip(step, -1.0, 1.0), tried, damping / 3
        if gain < 1e-6 * (r @ r):
            return x
    return x


def _mean(errors: Floats) -> float:
    return float(np.mean(np.abs(errors)))


def _p90(errors: Floats) -> float:
    return float(np.quantile(np.abs(errors), 0.9))


def _validity(cells: Sequence[Cell]) -> Validity:
    context = [c.context / c.sequences for c in cells if c.context and c.sequences] or [0]
    tokens, degrees = [c.tokens for c in cells], [c.tp for c in cells]
    batch, sizes = [c.sequences for c in cells if c.sequences], [c.architecture.parameters for c in cells]
    return Validity(
        tokens=(int(min(tokens)), int(max(tokens))),
        tp=(min(degrees), max(degrees)),
        context=(int(min(context)), int(max(context))),
        batch=(int(min(batch)), int(max(batch))) if batch else None,
        parameters=(min(sizes), max(sizes)),
    )
