"""The support matrix: the evidence for each GPU, engine and precision, and the error to expect of its times."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cascadia_sim.calibration.catalogue import SERVING_ENGINES
from cascadia_sim.evidence.standing import Basis, standing
from cascadia_sim.evidence.unmeasured import carried_over
from cascadia_sim.hardware.catalogue import gpu, known_gpus
from cascadia_sim.models.quantization import FORMATS

GGUF = ("f16", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_1", "q4_0")
"""Formats of `llama.cpp`, which has no others but BF16."""
LLAMA_CPP = "llama.cpp"
CPU = "cpu"


@dataclass(frozen=True, slots=True)
class Support:
    """One cell. `exact`: the entry was fitted on this very GPU, engine and precision, else it stands in for them.

    The errors are mean shares, of the time per output token and to the first token; `held_out`: of models that the
    entry had not seen. The ranges (least, most) are what its measurements covered.
    """

    gpu: str
    engine: str
    precision: str
    basis: Basis
    exact: bool
    calibration: str
    engine_version: str
    match: str
    error_tpot: float
    error_ttft: float
    held_out: bool
    tokens: tuple[int, int]
    tp: tuple[int, int]
    context: tuple[int, int]
    batch: tuple[int, int] | None
    parameters: tuple[int, int] | None
    source: str


def support_matrix(
    gpus: Iterable[str] | None = None,
    engines: Iterable[str] = SERVING_ENGINES,
    precisions: Sequence[str] = tuple(FORMATS),
) -> tuple[Support, ...]:
    """All cells that exist: GGUF is for llama.cpp, which has no other format but BF16 and alone runs on `cpu`."""
    cards = (*known_gpus(), CPU) if gpus is None else tuple(gpus)
    return tuple(
        _cell(card, engine, precision)
        for card in cards
        for engine in engines
        for precision in precisions
        if _exists(card, engine, precision)
    )


def _exists(card: str, engine: str, precision: str) -> bool:
    if engine == LLAMA_CPP:
        return precision in GGUF or precision == "bf16"
    return precision not in GGUF and card != CPU


def _cell(card: str, engine: str, precision: str) -> Support:
    found = standing(gpu(card), engine, precision)
    c = found.calibration
    return Support(
        gpu=card,
        engine=engine,
        precision=precision,
        basis=found.basis,
        exact=(c.gpu, c.engine, c.precision) == (card, engine, precision) and not carried_over(c),
        calibration=c.name,
        engine_version=c.engine_version,
        match=found.match,
        error_tpot=round(found.error_tpot, 4),
        error_ttft=round(found.error_ttft, 4),
        held_out=found.held_out,
        tokens=c.valid.tokens,
        tp=c.valid.tp,
        context=c.valid.context,
        batch=c.valid.batch,
        parameters=c.valid.parameters,
        source=c.source,
    )
