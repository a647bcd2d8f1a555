"""Table 1 of the Cascadia paper: requests per second of Llama3-70B in seven (DP, TP, PP) configurations.

The hardware is not told. Two GPUs at TP are as fast as four there, which is so where NVLink joins GPUs in pairs
and PCIe the pairs: all-reduce is taken from Vidur's measurements of such a machine (A100,
`a100_pairwise_nvlink`), and one scale of all seven, fitted, stands for the rest. Neither is the load told: eight
requests are served at a time, in iterations of 2,048 tokens (vLLM's default). With more of them pipelines gain on
tensor parallelism, with fewer they lose; `mean_error` takes the number, so that this can be seen.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cascadia.reproduce.public_data import rows
from cascadia_sim.calibration.calibration import Calibration
from cascadia_sim.calibration.catalogue import find_calibration
from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.iteration.build import replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.models.catalogue import architecture

MEASURED_RPS = {
    (1, 4, 1): 0.21,
    (1, 2, 2): 0.26,
    (1, 1, 4): 0.27,
    (2, 1, 2): 0.33,
    (2, 2, 1): 0.40,
    (2, 4, 1): 0.41,
    (2, 2, 2): 0.55,
}
PAPER_ERROR = (0.0429, 0.0769, 0.0630, 0.0515, 0.0200, 0.0659, 0.0164)
CARD = "a100-pcie"
NETWORK = "perf/vidur_profiling/network/a100_pairwise_nvlink/all_reduce.csv"
# Messages of a prefill iteration of some thousand tokens.
MESSAGE_BYTES = (16 << 20, 128 << 20)
INPUT_TOKENS, OUTPUT_TOKENS = 1600, 16
REQUESTS, BUDGET_TOKENS = 8, 2048
MODEL = "meta-llama/Meta-Llama-3-70B"


class Row(NamedTuple):
    shape: tuple[int, int, int]
    measured_rps: float
    predicted_rps: float

    @property
    def error(self) -> float:
        return self.predicted_rps / self.measured_rps - 1


def table(requests: int = REQUESTS) -> tuple[float, list[Row]]:
    """The scale, and the rows with it applied."""
    known = paired()
    unscaled = np.array([_rate(shape, known, requests) for shape in MEASURED_RPS])
    measured = np.array(list(MEASURED_RPS.values()))
    scale = float(np.exp(np.mean(np.log(measured / unscaled))))
    return scale, [Row(*row) for row in zip(MEASURED_RPS, measured, scale * unscaled, strict=True)]


def mean_error(found: list[Row]) -> float:
    return float(np.mean([abs(row.error) for row in found]))


def paired() -> Calibration:
    """A100s over PCIe with NVLink between two and two."""
    card = gpu(CARD)
    known = find_calibration(card, "vllm", "bf16")
    wide, narrow = (_bytes_per_s(tp) / card.link_bytes_per_s for tp in (4, 2))
    linked = replace(known.efficiency, link=wide, link_tp2=wide / narrow, link_tp4=1.0, link_tp8=1.0)
    return replace(known, name="a100-pcie-pairs", efficiency=linked)


def _bytes_per_s(tp: int) -> float:
    """Bytes over the link of a ring all-reduce, per second: the median over messages."""
    found = []
    for row in rows(NETWORK):
        size = int(row["size"])
        if int(row["num_workers"]) == tp and MESSAGE_BYTES[0] <= size <= MESSAGE_BYTES[1]:
            seconds = float(row["time_stats.all_reduce.median"]) / 1e3
            found.append(2 * (tp - 1) / tp * size / seconds)
    return float(np.median(found))


def _rate(shape: tuple[int, int, int], known: Calibration, requests: int) -> float:
    """Requests per second of all replicas together, each given `requests` at once."""
    dp, tp, pp = shape
    roomy: Gpu = replace(gpu(CARD), memory_bytes=10**12)
    config = EngineConfig(max_num_batched_tokens=BUDGET_TOKENS, calibration=known)
    timing = replica_timing(architecture(MODEL), roomy, tp=tp, pp=pp, config=config)
    nothing = np.zeros(requests, dtype=np.int64)
    run = simulate_replica(timing, nothing, nothing + INPUT_TOKENS, nothing + OUTPUT_TOKENS, nothing)
    return float(dp * requests / (run.finish_ps.max() / 1e12))
