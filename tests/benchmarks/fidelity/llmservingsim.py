"""Kernels of GPUs with GDDR memory, measured alone: RTX 4090 and A6000 (LLMServingSim, MIT), A40 (Vidur, MIT).

Not used, because they are no measurement of what an engine of today does: the A6000's decoding (batches read faster
than its memory can) and its norms (eager, five kernels each).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cascadia.reproduce.public_data import rows
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.hardware.gpu import Efficiency, Gpu
from cascadia_sim.iteration.roofline import Floats
from tests.benchmarks.fidelity.operators import NOISE, PREDICTED

SERVING = "perf/llmservingsim"
A40 = "perf/vidur_profiling/compute/a40/meta-llama"
TOKENS = frozenset({1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1536, 2048, 4096})
HEADS, KV_HEADS, HEAD_FLOPS = 32, 8, 512.0
"""Of Llama-3.1-8B; and of one query, key and head in prefill: both products, 128 wide."""
# Inputs and outputs of each matrix of Llama-3.1-8B.
SHAPES = {"q_proj": (4096, 4096), "k_proj": (4096, 1024), "qkv_proj": (4096, 6144), "o_proj": (4096, 4096)}
SHAPES |= {"gate_proj": (4096, 14336), "gate_up_proj": (4096, 28672), "down_proj": (14336, 4096)}
MOVED = {"layernorm": 4 * 4096, "rotary_emb": 2 * 5120, "act_fn": 3 * 14336}
"""Numbers that a token's kernel reads and writes."""

Row = tuple[str, str, tuple[float, ...], float]
"""Kind, group (a model), counts, seconds."""


@dataclass(frozen=True, slots=True)
class CardKernels:
    """`kind` of each: "gemm compute" or "gemm memory" (which bounds it at the peaks), "prefill", "decode",
    "element-wise"."""

    gpu: Gpu
    seconds: Floats
    kind: NDArray[np.str_]
    group: NDArray[np.str_]
    counts: Floats  # (rows, 4)

    @property
    def noise(self) -> Floats:
        return np.full(len(self.seconds), NOISE)

    def only(self, chosen: NDArray[np.bool_]) -> "CardKernels":
        return CardKernels(
            self.gpu, self.seconds[chosen], self.kind[chosen], self.group[chosen], self.counts[chosen]
        )

    def predicted(self, efficiency: Efficiency) -> Floats:
        e, card = efficiency, self.gpu
        out = np.empty(len(self.seconds))
        for kind in np.unique(self.kind):
            chosen = self.kind == kind
            counts = self.counts[chosen].T
            if kind.startswith("gemm"):
                out[chosen] = PREDICTED["gemm"](counts, card, e)
            elif kind == "decode":
                out[chosen] = PREDICTED["decode"](counts, card, e)
            elif kind == "prefill":
                flops = HEAD_FLOPS * HEADS * counts[0]
                out[chosen] = flops / (card.bf16_flops * e.attention_compute) + e.kernel_s + e.attention_s
            else:
                out[chosen] = 2.0 * counts[0] / (card.hbm_bytes_per_s * e.gemm_hbm) + counts[1] * e.kernel_s
        return out


def rtx4090() -> CardKernels:
    place = f"{SERVING}/RTX4090/meta-llama/Llama-3.1-8B/bf16/tp1"
    found: list[Row] = []
    for row in rows(f"{place}/dense.csv"):
        tokens, seconds = int(row["tokens"]), float(row["time_us"]) / 1e6
        if tokens in TOKENS and row["layer"] in SHAPES:
            found.append(_gemm(gpu("rtx4090"), row["layer"], tokens, *SHAPES[row["layer"]], seconds))
        elif tokens in TOKENS and row["layer"] in MOVED:
            found.append(("element-wise", row["layer"], (tokens * MOVED[row["layer"]], 1), seconds))
    for row in rows(f"{place}/attention.csv"):
        new, past, sequences, context = (
            int(row[k]) for k in ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")
        )
        seconds = float(row["time_us"]) / 1e6
        if sequences == 0 and new >= 512:
            found.append(("prefill", "attention", (new * (new + 1) / 2 + new * past,), seconds))
        elif new == 0 and sequences and context >= 64:
            found.append(("decode", "attention", (sequences, context, HEADS, KV_HEADS), seconds))
    return _kernels(gpu("rtx4090"), found)


def a6000() -> CardKernels:
    """Attention is that of whole prompts, beside the matrices in the file."""
    found: list[Row] = []
    for row in rows(f"{SERVING}/A6000/meta-llama/Llama-3.1-8B/tp1/layers.csv"):
        layer, tokens, seconds = row["layer_name"], int(row["input"]), float(row["latency(ns)"]) / 1e9
        if tokens in TOKENS and layer in SHAPES:
            found.append(_gemm(gpu("a6000"), layer, tokens, *SHAPES[layer], seconds))
        elif layer == "attn" and tokens >= 512 and tokens % 128 == 0:
            found.append(("prefill", layer, (tokens * (tokens + 1) / 2,), seconds))
    return _kernels(gpu("a6000"), found)


def a40() -> CardKernels:
    found: list[Row] = []
    for model in ("Llama-2-7b-hf", "Llama-2-70b-hf"):
        for row in rows(f"{A40}/{model}/mlp.csv"):
            tokens, tp = int(row["num_tokens"]), int(row["num_tensor_parallel_workers"])
            if tokens not in TOKENS:
                continue
            hidden, inner = int(row["n_embd"]), int(row["n_expanded_embd"]) // tp
            heads, kv_heads = int(row["n_head"]) * 128 // tp, int(row["n_kv_head"]) * 128 // tp
            shapes = {
                "attn_pre_proj": (hidden, heads + 2 * kv_heads),
                "attn_post_proj": (heads, hidden),
                "mlp_up_proj": (hidden, 2 * inner),
                "mlp_down_proj": (inner, hidden),
            }
            for name, shape in shapes.items():
                found.append(_gemm(gpu("a40"), model, tokens, *shape, _median(row, name)))
            # Residual sums are kernels of their own here, fused with the norms in engines of today.
            parts = ("input_layernorm", "post_attention_layernorm", "add", "add", "attn_rope", "mlp_act")
            moved = tokens * (2 * 4 * hidden + 2 * (heads + 2 * kv_heads) + 3 * inner)
            found.append(("element-wise", model, (moved, 4), sum(_median(row, p) for p in parts)))
    return _kernels(gpu("a40"), found)


def _gemm(card: Gpu, group: str, tokens: int, inputs: int, outputs: int, seconds: float) -> Row:
    compute = 2.0 * tokens * inputs * outputs / card.bf16_flops
    memory = 2.0 * (inputs * outputs + tokens * (inputs + outputs)) / card.hbm_bytes_per_s
    kind = "gemm compute" if compute > memory else "gemm memory"
    return kind, group, (tokens, outputs, inputs), seconds


def _median(row: dict[str, str], name: str) -> float:
    return float(row[f"time_stats.{name}.median"]) / 1e3


def _kernels(card: Gpu, found: list[Row]) -> CardKernels:
    counts = np.zeros((len(found), 4))
    for i, row in enumerate(found):
        counts[i, : len(row[2])] = row[2]
    return CardKernels(
        card,
        np.array([row[3] for row in found]),
        np.array([row[0] for row in found]),
        np.array([row[1] for row in found]),
        counts,
    )
