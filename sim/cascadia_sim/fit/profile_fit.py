"""Fit of an engine's constants to what a client saw of it, and their error where the fit did not look.

A client sees requests, not iterations. Two situations tell of iterations all the same: while b sequences decode
and nothing else happens, each new token of a sequence is one iteration; and a lone prompt's first token comes
after the iterations of its prefill, plus what a request costs outside of iterations.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cascadia_sim.calibration.calibration import BadCalibration, Calibration
from cascadia_sim.fit.calibration_cells import Cell, Measured
from cascadia_sim.fit.calibration_fit import fit
from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.models.architecture import Architecture

FREE = frozenset(
    {"gemm_compute", "gemm_hbm", "expert_compute", "attention_compute", "kv_hbm"}
    | {"kernel_s", "iteration_s", "sequence_s", "attention_sequence_s", "ridge"}
)
"""What one model on one shape can tell of. The rest stays as it was, the links' constants above all."""
NEAR_NOTHING = 40
"""A prompt of at most so many tokens (a chat template alone has 30) takes about as long as a decoding step."""
PASSES = 4
"""Fits, each with the one before as prior: an engine may be far from the constants assumed for its device."""
FOLDS = 3


@dataclass(frozen=True, slots=True)
class Observation:
    """`sequences` alike. `decodes`: `seconds` is one iteration's at `context` tokens, all sequences together; else
    it is the time to the first token of a lone prompt of `prompt_tokens`.
    """

    decodes: bool
    sequences: int
    prompt_tokens: float
    context: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Setup:
    """Setup that the observations were made on."""

    architecture: Architecture
    gpu: Gpu
    tp: int
    pp: int
    config: EngineConfig

    @property
    def precision(self) -> str:
        return self.config.quantization or self.architecture.quantization or "bf16"


class LeftOut(NamedTuple):
    """An observation, and what a fit without it expects."""

    seen: Observation
    predicted_s: float

    @property
    def error(self) -> float:
        return self.predicted_s / self.seen.seconds - 1


class Fitted(NamedTuple):
    """`request_s` is what a request takes outside of iterations: network, tokenizer, hand-over.

    It is the calibration's `first_token_s` too, so that plans count it.
    """

    calibration: Calibration
    request_s: float
    left_out: tuple[LeftOut, ...]


def fit_profile(
    seen: Sequence[Observation], setup: Setup, start: Calibration, fixed: Collection[str] = frozenset()
) -> Fitted:
    """Constants from all observations; errors also from fits that each leave out every third point.

    `fixed` constants stay at `start`'s. Raises `BadCalibration` where there is no observation.
    """
    if not seen:
        raise BadCalibration("observations", "none: nothing was measured", "measure longer")
    request_s, free = outside_s(seen), FREE.difference(fixed)
    left_out: list[LeftOut] = []
    folds = _folds(seen)
    for fold in range(FOLDS):
        unseen = [o for o, f in zip(seen, folds, strict=True) if f == fold]
        known = [o for o, f in zip(seen, folds, strict=True) if f != fold]
        if unseen and known:
            found = _fit(known, setup, start, request_s, free)
            times = predicted_s(unseen, setup, found, request_s)
            left_out += [LeftOut(o, t) for o, t in zip(unseen, times, strict=True)]
    whole = _fit(seen, setup, start, request_s, free)
    errors = np.abs([one.error for one in left_out])
    if errors.size:
        mean, p90 = float(errors.mean()), float(np.quantile(errors, 0.9))
        whole = replace(whole, fit=replace(whole.fit, held_out_mean_error=mean, held_out_p90_error=p90))
    client = replace(whole.efficiency, first_token_s=request_s, first_token_steps=0.0)
    return Fitted(replace(whole, efficiency=client), request_s, tuple(left_out))


def predicted_s(
    seen: Sequence[Observation], setup: Setup, calibration: Calibration, request_s: float
) -> list[float]:
    """Seconds that each observation should have shown."""
    iterations_s = Measured(_cells(seen, setup, 0.0), setup.gpu).predicted(calibration.efficiency)
    return [t if o.decodes else t + request_s for t, o in zip(iterations_s.tolist(), seen, strict=True)]


def outside_s(seen: Sequence[Observation]) -> float:
    """The shortest prompt's first token takes one iteration as small as a lone decoding step; the rest is not one.

    0 where no lone decoding or no prompt as short was measured.
    """
    steps = [o for o in seen if o.decodes and o.sequences == 1]
    prompts = [o for o in seen if not o.decodes and o.prompt_tokens <= NEAR_NOTHING]
    if not steps or not prompts:
        return 0.0
    shortest = min(prompts, key=lambda o: o.prompt_tokens)
    step = min(steps, key=lambda o: o.context)
    return max(0.0, shortest.seconds - step.seconds)


def _fit(
    seen: Sequence[Observation], setup: Setup, start: Calibration, request_s: float, free: Collection[str]
) -> Calibration:
    cells = _cells(seen, setup, request_s)
    for _ in range(PASSES):
        start = fit(cells, start, setup.gpu, free=free)
    return start


def _cells(seen: Sequence[Observation], setup: Setup, request_s: float) -> list[Cell]:
    return [
        cell
        for i, o in enumerate(seen)
        for cell in (_steps if o.decodes else _prefill)(o, i, setup, request_s)
    ]


def _steps(seen: Observation, run: int, setup: Setup, request_s: float) -> list[Cell]:  # noqa: ARG001
    """Decode steps of each lane, which has its share of the sequences."""
    share = max(1.0, seen.sequences / setup.pp)
    context = seen.context * share / seen.sequences
    return [_cell(setup, share, share, context=context, pairs=0.0, seconds=seen.seconds, run=run)]


def _prefill(seen: Observation, run: int, setup: Setup, request_s: float) -> list[Cell]:
    """Chunks of the token budget, of which the last yields the token."""
    prompt, budget = seen.prompt_tokens, float(setup.config.max_num_batched_tokens)
    # Noise may leave less than nothing of a short prompt, and the fit takes logarithms.
    seconds = max(seen.seconds - request_s, 0.05 * seen.seconds)
    ends = [*np.arange(budget, prompt, budget), prompt]
    cells = []
    for begin, end in zip([0.0, *ends[:-1]], ends, strict=True):
        chunk = end - begin
        pairs = chunk * end - chunk * (chunk - 1) / 2
        cells.append(
            _cell(setup, chunk, float(end == prompt), context=0.0, pairs=pairs, seconds=seconds, run=run)
        )
    return cells


def _cell(
    setup: Setup, tokens: float, sequences: float, *, context: float, pairs: float, seconds: float, run: int
) -> Cell:
    return Cell(
        setup.architecture,
        setup.tp,
        setup.pp,
        tokens=tokens,
        sequences=sequences,
        context=context,
        pairs=pairs,
        seconds=seconds,
        config=setup.config,
        run=run,
    )


def _folds(seen: Sequence[Observation]) -> list[int]:
    """Neighbours in length or number fall into different folds."""
    order = sorted(
        range(len(seen)), key=lambda i: (seen[i].decodes, seen[i].sequences, seen[i].prompt_tokens)
    )
    folds = [0] * len(seen)
    for place, index in enumerate(order):
        folds[index] = place % FOLDS
    return folds
