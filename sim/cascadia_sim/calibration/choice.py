"""Choice of the calibration that stands for a GPU, an engine and a precision: the one with the best evidence.

Of the entries of the GPU's generation the first by, in this order:

1. precision: the one asked for, then one that is multiplied alike, then another;
2. evidence: a served engine of today, kernels alone, an engine of years ago;
3. engine: this one, vLLM, another that serves;
4. GPU: this one, then the nearest by bandwidth and peak (shares carry over, the peaks are the GPU's own).

What no one measured together is put together of what was (`joined`): an engine's own work and what its clients wait
belong to the engine, on whatever GPU it was served; links belong to the GPU.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from cascadia_sim.calibration.calibration import Calibration, FitError, Validity
from cascadia_sim.hardware.catalogue import gpu as catalogued
from cascadia_sim.hardware.catalogue import known_gpus
from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.models.quantization import FORMATS

SERVING_ENGINES = ("vllm", "sglang", "trtllm", "llama.cpp")
KERNELS = (
    "gemm_compute",
    "gemm_hbm",
    "attention_compute",
    "kv_hbm",
    "decode_compute",
    "ridge",
    "wave_outputs",
    "expert_compute",
    "expert_read",
    "expert_rows",
)
"""What kernels timed alone tell."""
LINKS = ("link", "link_latency", "link_tp2", "link_tp4", "link_tp8")
CLIENT = ("first_token_s", "first_token_steps")
ENGINE = ("sequence_s", *CLIENT)
"""What an engine does for each sequence and each client, whatever the GPU."""


def best(entries: Sequence[Calibration], gpu: Gpu, engine: str, precision: str) -> Calibration | None:
    """Best entry; None where none is of the GPU's generation. `entries` in order of preference where all else
    is the same.
    """
    alike = [c for c in entries if generation_of(c) == gpu.generation]
    own = [c for c in alike if c.engine == engine]
    if not (own and engine not in SERVING_ENGINES):
        own = [c for c in alike if c.engine in SERVING_ENGINES]
    return min(own, key=lambda c: _rank(c, gpu, engine, precision), default=None)


def server(entries: Sequence[Calibration], gpu: Gpu, engine: str, precision: str) -> Calibration | None:
    """The served entry of this very engine whose own work is most like what it would be on this GPU."""
    own = [
        c for c in entries if c.engine == engine and c.served and not c.superseded and gpu.generation != "cpu"
    ]
    return min(
        own,
        key=lambda c: (generation_of(c) != gpu.generation, _precision(c, precision), _distance(c, gpu)),
        default=None,
    )


def joined(
    entry: Calibration, own: Calibration | None, links: Calibration | None, gpu: Gpu, precision: str
) -> Calibration:
    """`entry` with what the engine, served (`own`), adds, and the links of `gpu` (of `links`, else generic).

    Experts' share of a peak is of the entry's precision; where another is multiplied the generic one stands.
    """
    e = entry.efficiency
    if _precision(entry, precision) > 1:
        e = replace(e, expert_compute=gpu.efficiency.expert_compute)
    if own is not None and entry.evidence != "served" and generation_of(own) == generation_of(entry):
        e = replace(own.efficiency, **{n: getattr(e, n) for n in (*KERNELS, *LINKS)})
    elif own is not None and entry.evidence != "served":
        e = replace(e, **{n: getattr(own.efficiency, n) for n in ENGINE})
        # Routing and grouping: on an older GPU no less than where they were served.
        e = replace(e, expert_layer_s=max(e.expert_layer_s, own.efficiency.expert_layer_s))
    elif own is not None and own.engine != entry.engine:
        e = replace(e, **{n: getattr(own.efficiency, n) for n in CLIENT})
    else:
        own = None
    if link_of(entry) not in (None, gpu.link):
        found = links.efficiency if links is not None else gpu.efficiency
        e = replace(e, **{n: getattr(found, n) for n in LINKS})
    if own is None:
        return entry if e == entry.efficiency else replace(entry, efficiency=e)
    return replace(
        entry,
        name=f"{entry.name}+{own.name}",
        source=f"{entry.source}; what the engine itself adds as in {own.name}",
        efficiency=e,
        # A kernel entry's was found with the same engine's additions.
        error_ttft=entry.error_ttft if own.engine == entry.engine else None,
        evidence="mixed",
    )


def generic(gpu: Gpu, engine: str, precision: str) -> Calibration:
    """The constants that `gpu` brings, as a calibration."""
    return Calibration(
        name=f"{gpu.generation}-generic",
        gpu=gpu.generation,
        engine=engine,
        engine_version="any",
        precision=precision,
        source="constants of the GPU's generation, fitted to no one engine (gpus.json)",
        fit=FitError(0, 0.0, 0.0),
        valid=Validity((0, 0), (0, 0), (0, 0)),
        efficiency=gpu.efficiency,
        evidence="none",
    )


def generation_of(calibration: Calibration) -> str:
    """An entry's GPU is a generation where it is none of the catalogue."""
    name = calibration.gpu
    return catalogued(name).generation if name in known_gpus() else name


def link_of(calibration: Calibration) -> str | None:
    """Link between the GPUs that it was measured on; None for a generation's."""
    return catalogued(calibration.gpu).link if calibration.gpu in known_gpus() else None


def _rank(c: Calibration, gpu: Gpu, engine: str, precision: str) -> tuple[float, ...]:
    evidence = 3 if c.superseded else ("served", "mixed", "kernels", "none").index(c.evidence)
    kin = 0 if c.engine == engine else 1 if c.engine == SERVING_ENGINES[0] else 2
    return _precision(c, precision), evidence, kin, _distance(c, gpu)


def _precision(c: Calibration, precision: str) -> int:
    """0 for the one asked for, 1 for one that is multiplied alike, 2 for another."""
    if c.precision == precision:
        return 0
    mine, other = FORMATS.get(c.precision), FORMATS.get(precision)
    if mine is None or other is None:
        return 2
    return 1 if (mine.precision, mine.dequantised) == (other.precision, other.dequantised) else 2


def _distance(c: Calibration, gpu: Gpu) -> float:
    """0 on the same GPU; else beyond 1 by how far apart bandwidths and peaks are, and links of another kind."""
    if c.gpu == gpu.name:
        return 0.0
    if c.gpu not in known_gpus():
        return 1.0
    other = catalogued(c.gpu)
    apart = abs(math.log(other.hbm_bytes_per_s / gpu.hbm_bytes_per_s))
    apart += abs(math.log(other.bf16_flops / gpu.bf16_flops))
    return 1.0 + apart + (1.0 if other.link != gpu.link else 0.0)
