"""Constants of all served stacks at once: what a GPU, an engine and a weight format have in common in each of them.

Of every constant x and entry (GPU, engine, format)

    ln x = ln generic(GPU) + spread (gpu + engine + format + stack + own)

where the five effects are 0 but for what the points ask for: kernels belong to a GPU and a format, an engine's own work
to the engine whatever the format (`OWN_WORK`), and what one entry's shapes cannot tell apart (a slow matrix from a slow
all-reduce, if all have TP 2; slow kernels from a slow engine, if all have 80 layers) others do. Minimised over all
effects, by Levenberg-Marquardt, is the sum of relative errors with Huber's bend, and of the effects' squares, each over
its share of the spread. Searle, Casella and McCulloch, "Variance components" (1992).
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from functools import cache, lru_cache

import numpy as np

from cascadia_sim.fit.calibration_fit import SHARES
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.hardware.gpu import Efficiency
from cascadia_sim.iteration.roofline import Floats
from tests.benchmarks.fidelity.endtoend_counts import Fitted, format_of
from tests.benchmarks.fidelity.endtoend_points import Point

Stack = tuple[str, str, str]

# Relative error at which a measured time weighs as much as one spread of a constant: TTFT, TPOT.
NOISE = (0.12, 0.05)
HUBER = 2.0
# Constants that the points decide, where they start if a GPU's own are 0, and their spread in the logarithm.
STARTS = {
    "gemm_compute": 0.0,
    "gemm_low_precision": 0.0,
    "gemm_hbm": 0.0,
    "attention_compute": 0.0,
    "kv_hbm": 0.0,
    "link": 0.0,
    "kernel_s": 0.0,
    "iteration_s": 0.0,
    "sequence_s": 5e-6,
    "attention_sequence_s": 1e-7,
    "link_latency": 1.0,
    "link_tp2": 1.0,
    "link_tp8": 1.0,
    "head": 1.0,
    "expert_compute": 0.0,
    "expert_read": 1.0,
    "expert_rows": 2.0,
    "expert_layer_s": 1e-5,
    "latent_layer_s": 1e-5,
    "latent_attention": 1.0,
    "first_token_s": 1e-2,
    "first_token_steps": 3.0,
}
SPREADS = {
    "gemm_compute": 0.05,
    # All-reduces alone take 4.3, 4.6 and 4.9 us on 2, 4 and 8 GPUs (roofline.LATENCY_PER_DOUBLING): the degrees' own
    # factors are known, and left free they take what slows matrices down at that degree.
    "link_tp2": 0.05,
    "link_tp8": 0.05,
    "sequence_s": 0.5,
    "attention_sequence_s": 1.0,
    "kernel_s": 0.5,
    "head": 0.3,
    "latent_attention": 0.5,
}
SPREADS |= {"expert_rows": 0.5, "expert_layer_s": 1.0, "latent_layer_s": 1.0}
SPREADS |= {"first_token_s": 1.0, "first_token_steps": 1.0}
SPREAD = 0.35
# How a spread divides among the effects; together an entry's is 1 of it about the generic constants.
GPU, ENGINE, FORMAT, STACK, OWN = 0.6, 0.5, 0.35, 0.4, 0.35
# What an engine does between kernels and for its clients knows no format of weights.
OWN_WORK = frozenset({"iteration_s", "sequence_s", "first_token_s", "first_token_steps"})
STEPS = 40
STEP = 1e-3
ENOUGH = 1e-4  # a step that gains less, as a share of the sum, is the last


class Crossed:
    """A fit to `points`; `constants` tells those of any entry, also of one that none of them is of."""

    def __init__(self, points: Iterable[Point]) -> None:
        own: dict[tuple[Stack, str], list[Point]] = {}
        for p in points:
            own.setdefault((p.stack, format_of(p)), []).append(p)
        self.entries = list(own)
        self._ready = [_ready(tuple(group)) for group in own.values()]
        effects = sorted({e for entry in own for e in _effects(*entry)})
        self._place = {e: i for i, e in enumerate(effects)}
        self._moves = np.zeros((len(effects), len(STARTS)))
        self._fit()

    def constants(self, stack: Stack, form: str) -> Efficiency:
        return self._constants(stack, form, self._moves)

    def _constants(self, stack: Stack, form: str, moves: Floats) -> Efficiency:
        moved = _SPREADS * sum(
            share * moves[self._place[e]] for e, share in _effects(stack, form).items() if e in self._place
        )
        return _moved(generic(stack[0]), moved)

    def _fit(self) -> None:
        damping, cost = 1e-2, self._cost(self._moves)
        for _ in range(STEPS):
            slope, curvature = self._normal_equations()
            for _ in range(6):
                damped = curvature + damping * np.diag(np.diag(curvature))
                step = np.linalg.solve(damped, -slope).reshape(self._moves.shape)
                tried = self._moves + step / max(1.0, float(np.abs(step * _SPREADS).max()))
                found = self._cost(tried)
                if found < cost:
                    break
                damping *= 5
            else:
                return
            gain, self._moves, cost, damping = cost - found, tried, found, damping / 4
            if gain < ENOUGH * cost:
                return

    def _cost(self, moves: Floats) -> float:
        total = float((moves**2).sum())
        for entry, ready in zip(self.entries, self._ready, strict=True):
            size = np.abs(_misses(ready, self._constants(*entry, moves)))
            total += float(np.where(size > HUBER, 2 * HUBER * size - HUBER**2, size**2).sum())
        return total

    def _normal_equations(self) -> tuple[Floats, Floats]:
        """Slope and curvature of half the cost, by effect and constant."""
        n, k = self._moves.shape
        slope, curvature = self._moves.copy(), np.zeros((n, k, n, k))
        for entry, ready in zip(self.entries, self._ready, strict=True):
            here = self._constants(*entry, self._moves)
            misses = _misses(ready, here)
            steps = np.array([-STEP if name in SHARES else STEP for name in STARTS])
            jacobian = np.stack(
                [(_misses(ready, _moved(here, move)) - misses) / move.sum() for move in np.diag(steps)],
                axis=1,
            )
            jacobian *= _SPREADS
            weighted = jacobian.T * np.minimum(1.0, HUBER / np.maximum(np.abs(misses), 1e-9))
            own_slope, own_curvature = weighted @ misses, weighted @ jacobian
            places = [(self._place[e], share) for e, share in _effects(*entry).items()]
            for i, mine in places:
                slope[i] += mine * own_slope
                for j, other in places:
                    curvature[i, :, j] += np.outer(mine, other) * own_curvature
        return slope.ravel(), curvature.reshape(n * k, n * k) + np.eye(n * k)


_SPREADS = np.array([SPREADS.get(name, SPREAD) for name in STARTS])
_ALL = np.ones(len(STARTS))
_OF_FORMAT = np.array([float(name not in OWN_WORK) for name in STARTS])


@cache
def generic(system: str) -> Efficiency:
    own = gpu(system).efficiency
    values = asdict(own)
    return replace(own, **{n: start or values[n] for n, start in STARTS.items()})


def errors(points: Sequence[Point], e: Efficiency) -> Floats:
    """Predicted / measured - 1, [points, 2]: TTFT, TPOT."""
    ready = _ready(tuple(points))
    return np.asarray(ready.predicted(e) / ready.measured - 1.0)


@lru_cache(maxsize=256)
def _ready(points: tuple[Point, ...]) -> Fitted:
    return Fitted(points)


def _effects(stack: Stack, form: str) -> dict[tuple[str, ...], Floats]:
    """Effects that an entry adds up, and the share of each constant's spread that each has."""
    system, engine, version = stack
    return {
        ("gpu", system): GPU * _ALL,
        ("engine", engine, version): ENGINE * _ALL,
        ("format", form): FORMAT * _OF_FORMAT,
        ("stack", *stack): STACK * _ALL,
        ("own", *stack, form): OWN * _OF_FORMAT,
    }


def _moved(e: Efficiency, logarithms: Floats) -> Efficiency:
    values = asdict(e)
    moved = {n: values[n] * float(np.exp(x)) for n, x in zip(STARTS, logarithms, strict=True)}
    return replace(e, **{n: min(1.0, v) if n in SHARES else v for n, v in moved.items()})


def _misses(ready: Fitted, e: Efficiency) -> Floats:
    """Logarithms of predicted over measured, in units of the noise."""
    return np.asarray((np.log(ready.predicted(e) / ready.measured) / NOISE).ravel())
