"""The form of `experts.layer_seconds` beside measured mixtures on an H100, fitted and on shapes it has not seen.

Source: aiconfigurator's operators (vLLM 0.24.0), experts split by width only (moe_ep_size 1), routing by a power law.
A shape is (experts, chosen, width, hidden size); each fifth is left out in turn.

    CASCADIA_DATA=... python -m tests.benchmarks.fidelity.moe_operators
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.optimize import least_squares

from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.hardware.gpu import Efficiency, Gpu
from cascadia_sim.iteration.moe import layer_seconds
from cascadia_sim.iteration.roofline import Floats
from cascadia_sim.models.architecture import Architecture, Experts
from cascadia_sim.models.catalogue import architecture
from cascadia_sim.models.quantization import weight_format
from tests.data import data_path

FILE = "perf/aiconfigurator_operators/h100_sxm/moe/vllm/0.24.0/moe_perf.parquet"
FORMATS = {
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8",
    "int4_wo": "int4-experts",
    "w4a16_mxfp4": "mxfp4",
}
ROUTING = "power_law_1.01"
FOLDS = 5
FEWEST = 100
# Where the fit starts: expert_read, expert_rows, expert_compute, dequantise, seconds a call.
START = (1.0, 2.0, 0.3, 0.8, 4e-5)


@dataclass(frozen=True, slots=True)
class Call:
    """`seconds` of one layer's routed experts for `tokens`, on one GPU of `tp`."""

    experts: Experts
    hidden: int
    tp: int
    tokens: int
    seconds: float

    @property
    def shape(self) -> tuple[int, int, int, int]:
        e = self.experts
        return e.count, e.per_token, e.intermediate, self.hidden


def calls() -> dict[tuple[str, str], list[Call]]:
    """By number format and kernel."""
    found: dict[tuple[str, str], list[Call]] = defaultdict(list)
    for row in pq.read_table(data_path(FILE)).to_pylist():
        if row["distribution"] == ROUTING and row["moe_ep_size"] == 1 and row["latency"] > 0:
            experts = Experts(row["num_experts"], row["topk"], row["inter_size"])
            found[row["moe_dtype"], row["kernel_source"]].append(
                Call(experts, row["hidden_size"], row["moe_tp_size"], row["num_tokens"], row["latency"] / 1e3)
            )
    return {kernel: own for kernel, own in sorted(found.items()) if len(own) >= FEWEST}


@cache
def _mixture(experts: Experts, hidden: int) -> Architecture:
    return replace(architecture("mistralai/Mixtral-8x7B-v0.1"), moe=experts, hidden=hidden)


def predicted(
    own: Sequence[Call], constants: Sequence[float], precision: str, others: Efficiency | None = None
) -> Floats:
    """`others`: what is not of experts; H100's generic constants, unless given."""
    read, rows, compute, dequantise, call_s = constants
    card: Gpu = gpu("h100-sxm")
    e = replace(
        others or card.efficiency,
        expert_read=read,
        expert_rows=rows,
        expert_compute=compute,
        dequantise=dequantise,
    )
    card = replace(card, efficiency=e)
    alike: dict[tuple[Experts, int, int], list[int]] = defaultdict(list)
    for i, c in enumerate(own):
        alike[c.experts, c.hidden, c.tp].append(i)
    out = np.empty(len(own))
    for (experts, hidden, tp), places in alike.items():
        tokens = np.array([own[i].tokens for i in places], dtype=np.float64)
        form = weight_format(precision)
        out[places] = call_s + layer_seconds(tokens, _mixture(experts, hidden), card, form, tp, False)
    return out


def fit(own: Sequence[Call], precision: str, others: Efficiency | None = None) -> NDArray[np.float64]:
    measured = np.array([c.seconds for c in own])

    def misses(moves: Floats) -> Floats:
        return np.asarray(
            np.log(predicted(own, (np.array(START) * np.exp(moves)).tolist(), precision, others) / measured)
        )

    best = least_squares(misses, np.zeros(len(START)), loss="soft_l1", f_scale=0.2, max_nfev=12)
    return np.asarray(np.array(START) * np.exp(best.x))


def bf16_constants(others: Efficiency) -> dict[str, float]:
    """Constants of BF16 experts on the H100 beside `others`."""
    own = next(found for (number_format, _), found in calls().items() if number_format == "bfloat16")
    read, rows, compute, *_ = fit(own, "bf16", others).tolist()
    return {"expert_read": read, "expert_rows": rows, "expert_compute": compute}


def errors(own: Sequence[Call], constants: Sequence[float], precision: str) -> Floats:
    measured = np.array([c.seconds for c in own])
    return np.asarray(np.abs(predicted(own, constants, precision) / measured - 1.0))


def main() -> None:
    print(
        "| format, kernel | calls | fit median | fit mean | unseen shapes median | unseen shapes mean | a call |"
    )
    print("|---|---|---|---|---|---|---|")
    for (number_format, kernel), own in calls().items():
        precision = FORMATS[number_format]
        constants = fit(own, precision)
        seen = errors(own, constants.tolist(), precision)
        shapes = sorted({c.shape for c in own})
        unseen = []
        for fold in range(min(FOLDS, len(shapes))):
            left_out = set(shapes[fold::FOLDS])
            others = [c for c in own if c.shape not in left_out]
            if others:
                mine = [c for c in own if c.shape in left_out]
                unseen.append(errors(mine, fit(others, precision).tolist(), precision))
        cells = [f"{number_format}, {kernel.removeprefix('vllm_')}", str(len(own))]
        cells += _shares(seen) + (_shares(np.concatenate(unseen)) if unseen else ["–", "–"])
        print("| " + " | ".join([*cells, f"{constants[-1] * 1e6:.0f} µs"]) + " |")


def _shares(of: Floats) -> list[str]:
    return [f"{np.median(of):.1%}", f"{of.mean():.1%}"]


if __name__ == "__main__":
    main()
