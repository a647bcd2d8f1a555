"""Kernels measured alone (aiconfigurator, Apache-2.0): vLLM's matrix products, attention and all-reduce.

They say what share of a peak an engine's kernels reach and what it costs to start one. What stands between kernels
(scheduler, sampler, waiting for the slowest GPU) they don't: an entry made from them takes it from its start.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cascadia_sim.hardware.gpu import TILE_ROWS, Efficiency, Gpu
from cascadia_sim.iteration.roofline import LATENCY_PER_DOUBLING, Floats, smooth_max, tiled_rows
from tests.data import data_path

Columns = dict[str, NDArray[Any]]
Part = tuple[str, NDArray[np.bool_], Columns, tuple[Any, ...]]

FOLDER = "perf/aiconfigurator_operators"
NOISE = 0.1
# Sizes that a layer of a model has, on one GPU of a few.
LEAST_WIDTH, MOST_ROWS, MOST_CONTEXT = 1024, 16384, 2_000_000
EACH = 7
"""Of the rows, one in so many is learned from."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """`seconds` of all, `kind` of each: "gemm", "prefill", "decode" or "all-reduce"; counts are by kind."""

    gpu: Gpu
    seconds: Floats
    kind: NDArray[np.str_]
    counts: Floats  # (rows, 4)

    @property
    def noise(self) -> Floats:
        return np.full(len(self.seconds), NOISE)

    def predicted(self, efficiency: Efficiency) -> Floats:
        out = np.empty(len(self.seconds))
        for kind, seconds in PREDICTED.items():
            rows = self.kind == kind
            out[rows] = seconds(self.counts[rows].T, self.gpu, efficiency)
        return out


def kernels(card: Gpu, folder: str, version: str) -> Kernels:
    """Of the folder of one GPU (`a100_sxm`) and vLLM's version."""
    parts: list[Part] = []
    gemm = _table(f"{folder}/gemm/vllm/{version}/gemm_perf.parquet", gemm_dtype="bfloat16")
    keep = (gemm["n"] >= LEAST_WIDTH) & (gemm["k"] >= LEAST_WIDTH) & (gemm["m"] <= MOST_ROWS)
    parts.append(("gemm", keep, gemm, (gemm["m"], gemm["n"], gemm["k"])))
    place = f"{folder}/attention/vllm/{version}"
    same = {"head_dim": 128, "kv_cache_dtype": "bfloat16", "attn_dtype": "bfloat16", "window_size": 0}
    for kind in ("context", "generation"):
        t = _table(f"{place}/{kind}_attention_perf.parquet", **same)
        heads, batch = t["num_heads"], t["batch_size"]
        kv_heads = np.where(t["num_key_value_heads"] == 0, heads, t["num_key_value_heads"])
        length = t["isl"] if kind == "context" else t["step"] + 1
        keep = (t["kernel_source"] != "vllm_flash_attn_fa4") & (heads >= 4)
        keep &= length >= (512 if kind == "context" else 64)
        keep &= (batch <= 256) & (batch * length <= (MOST_ROWS if kind == "context" else MOST_CONTEXT))
        name = "prefill" if kind == "context" else "decode"
        parts.append((name, keep, t, (batch, length, heads, kv_heads)))
    sent = _table(
        f"{folder}/comm/vllm/{version}/custom_allreduce_perf.parquet", kernel_source="vLLM_custom_graph"
    )
    keep = (sent["message_size"] >= 8192) & (sent["message_size"] <= 2**28)
    parts.append(("all-reduce", keep, sent, (sent["num_gpus"], sent["message_size"])))
    return _kernels(card, parts)


def _kernels(card: Gpu, parts: list[Part]) -> Kernels:
    seconds, kinds, counts = [], [], []
    for kind, keep, table, columns in parts:
        chosen = np.flatnonzero(keep & (table["latency"] > 0))[:: 1 if kind == "all-reduce" else EACH]
        matrix = np.zeros((len(chosen), 4))
        for j, column in enumerate(columns):
            matrix[:, j] = column[chosen]
        seconds.append(table["latency"][chosen].astype(np.float64) / 1e3)
        kinds.append(np.full(len(chosen), kind))
        counts.append(matrix)
    return Kernels(card, np.concatenate(seconds), np.concatenate(kinds), np.concatenate(counts))


def _table(path: str, **kept: Any) -> Columns:
    """Columns of the rows whose values are `kept`."""
    read = pq.read_table(data_path(f"{FOLDER}/{path}")).to_pydict()
    columns = {name: np.array(values) for name, values in read.items()}
    rows = np.ones(len(columns["latency"]), dtype=bool)
    for name, value in kept.items():
        if name in columns:
            rows &= columns[name] == value
    return {name: values[rows] for name, values in columns.items()}


def _gemm(counts: Floats, card: Gpu, e: Efficiency) -> Floats:
    m, n, k, _ = counts
    bandwidth = card.hbm_bytes_per_s * e.gemm_hbm
    memory = 2.0 * (n * k + m * (n + k)) / bandwidth
    outputs = tiled_rows(m) * n + e.wave_outputs * np.minimum(1.0, m / TILE_ROWS)
    return smooth_max(outputs * 2.0 * k / (card.bf16_flops * e.gemm_compute), memory, e.ridge) + e.kernel_s


def _prefill(counts: Floats, card: Gpu, e: Efficiency) -> Floats:
    batch, length, heads, _ = counts
    flops = 512.0 * batch * heads * length * (length + 1) / 2
    return np.asarray(flops / (card.bf16_flops * e.attention_compute) + e.kernel_s + e.attention_s)


def _decode(counts: Floats, card: Gpu, e: Efficiency) -> Floats:
    batch, length, heads, kv_heads = counts
    read = 512.0 * batch * length * kv_heads / (card.hbm_bytes_per_s * e.kv_hbm)
    again = 512.0 * batch * length * heads * e.decode_compute / card.bf16_flops
    return np.asarray(read + again + batch * e.attention_sequence_s + e.kernel_s + e.attention_s)


def _all_reduce(counts: Floats, card: Gpu, e: Efficiency) -> Floats:
    gpus, message_bytes, _, _ = counts
    latency = card.link_latency_s * e.link_latency * (1 + LATENCY_PER_DOUBLING * np.log2(gpus / 2))
    factor = np.array([e.link_factor(int(n)) for n in gpus])
    return np.asarray(
        factor * (latency + 2 * (gpus - 1) / gpus * message_bytes / (card.link_bytes_per_s * e.link))
    )


PREDICTED = {"gemm": _gemm, "prefill": _prefill, "decode": _decode, "all-reduce": _all_reduce}
