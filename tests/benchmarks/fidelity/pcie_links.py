"""All-reduce among four GPUs whose ring crosses PCIe (Vidur, MIT): two pairs of A100 or of H100, joined by PCIe."""

from dataclasses import dataclass

import numpy as np

from cascadia.reproduce.public_data import rows
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.hardware.gpu import Efficiency, Gpu
from cascadia_sim.iteration.roofline import Floats
from tests.benchmarks.fidelity.operators import NOISE, PREDICTED

FOLDER = "perf/vidur_profiling/network"
MACHINES = {"a100-pcie": "a100_pairwise_nvlink", "h100-pcie": "h100_pairwise_nvlink"}
EACH = 20
"""Of the sizes, one in so many is learned from."""


@dataclass(frozen=True, slots=True)
class AllReduces:
    gpu: Gpu
    seconds: Floats
    message_bytes: Floats

    @property
    def noise(self) -> Floats:
        return np.full(len(self.seconds), NOISE)

    def predicted(self, efficiency: Efficiency) -> Floats:
        of_none = np.zeros_like(self.seconds)
        counts = np.stack([of_none + 4, self.message_bytes, of_none, of_none])
        return PREDICTED["all-reduce"](counts, self.gpu, efficiency)


def all_reduces(card: str) -> AllReduces:
    chosen = [
        (int(row["size"]), float(row["time_stats.all_reduce.median"]) / 1e3)
        for row in rows(f"{FOLDER}/{MACHINES[card]}/all_reduce.csv")
        if row["num_workers"] == "4"
    ]
    sizes, seconds = np.array(sorted(chosen)[::EACH]).T
    return AllReduces(gpu(card), seconds, sizes)
