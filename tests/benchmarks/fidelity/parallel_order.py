"""Which of two parallel configurations is faster: figures 5a and 5b of LLM-Inference-Bench (TRT-LLM, A100 40 GB).

Of one model, length and batch, every two configurations on any number of GPUs whose measured latencies differ by
more than a tenth are compared; the prediction is right where it has them in the same order. A batch runs alone, so
that a pipeline is as slow as all of its stages: no two batches are there to overlap.
"""

from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

from cascadia_sim.calibration.catalogue import find_calibration
from cascadia_sim.fit.calibration_cells import Measured
from cascadia_sim.hardware.gpu import Efficiency
from tests.benchmarks.fidelity.inference_bench import FIGURE_5, Run, runs

DIFFERENCE = 0.1


class Pair(NamedTuple):
    slow: Run
    fast: Run
    right: bool


def compared(efficiency: Efficiency | None = None) -> list[Pair]:
    """All pairs of dense models, with the catalogue's constants unless others are given."""
    found = {_key(r): r for name in FIGURE_5 for r in runs(name) if r.architecture.moe is None}
    every = list(found.values())
    known = efficiency or find_calibration(every[0].gpu, "trtllm", "bf16").efficiency
    cells = [c for r in every for c in r.cells()]
    predicted = dict(zip(every, Measured(cells, every[0].gpu).predicted(known), strict=True))
    pairs = []
    for a, b in combinations(every, 2):
        if (a.model, a.length, a.batch) != (b.model, b.length, b.batch):
            continue
        slow, fast = (a, b) if a.seconds > b.seconds else (b, a)
        if slow.seconds > (1 + DIFFERENCE) * fast.seconds:
            pairs.append(Pair(slow, fast, bool(predicted[slow] > predicted[fast])))
    return pairs


def share_right(pairs: list[Pair], kept: Callable[[Pair], bool] = lambda _: True) -> tuple[int, float]:
    """How many, and what share is right."""
    right = [p.right for p in pairs if kept(p)]
    return len(right), sum(right) / len(right) if right else float("nan")


def _key(run: Run) -> tuple[object, ...]:
    return run.model, run.tp, run.pp, run.length, run.batch
