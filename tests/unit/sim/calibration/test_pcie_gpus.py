"""GPUs on PCIe: each has constants of its own, told from where; those that were measured meet what was measured."""

from collections.abc import Callable

import numpy as np
import pytest

from cascadia_sim.calibration.catalogue import closest_calibration
from cascadia_sim.fit.calibration_fit import relative_errors
from cascadia_sim.hardware.catalogue import gpu
from tests.benchmarks.fidelity.llmservingsim import CardKernels, a40, a6000, rtx4090
from tests.benchmarks.fidelity.pcie_fit import learned
from tests.benchmarks.fidelity.pcie_links import MACHINES, all_reduces

MEASURED = ("rtx4090", "a6000", "a40")
CARRIED_OVER = ("l40s", "l4", "a10", "a10g")


@pytest.mark.parametrize("card", [*MEASURED, *CARRIED_OVER, "a30"])
@pytest.mark.parametrize("engine", ["vllm", "trtllm", "sglang"])
def test_each_has_an_entry_of_its_own_before_any_of_its_generation(card: str, engine: str) -> None:
    assert closest_calibration(gpu(card), engine, "bf16").calibration.gpu == card


@pytest.mark.parametrize("card", CARRIED_OVER)
def test_what_was_not_measured_says_so(card: str) -> None:
    assert "no measurement of this GPU" in closest_calibration(gpu(card), "vllm", "bf16").calibration.source


def test_less_power_leaves_less_of_the_peak() -> None:
    shares = [
        closest_calibration(gpu(c), "vllm", "bf16").calibration.efficiency for c in ("l4", "l40s", "rtx4090")
    ]
    for name in ("gemm_compute", "gemm_low_precision", "attention_compute"):
        values = [getattr(e, name) for e in shares]
        assert values == sorted(values)


@pytest.mark.parametrize("card", [*MEASURED, *CARRIED_OVER])
def test_eight_gpus_that_share_a_bus_reduce_slower_than_their_ring_would(card: str) -> None:
    e = closest_calibration(gpu(card), "vllm", "bf16").calibration.efficiency
    assert e.link_factor(8) > e.link_factor(4) == e.link_factor(2) == 1.0


@pytest.mark.data
@pytest.mark.parametrize("read", [rtx4090, a6000, a40], ids=MEASURED)
def test_an_entry_meets_its_kernels_as_well_as_it_says_and_better_than_generic_constants(
    read: Callable[[], CardKernels],
) -> None:
    kernels = learned(read())
    found = closest_calibration(kernels.gpu, "vllm", "bf16").calibration
    error = np.abs(relative_errors(kernels, found.efficiency)).mean()
    assert error == pytest.approx(found.fit.mean_error, abs=1e-3)
    assert error < np.abs(relative_errors(kernels, kernels.gpu.efficiency)).mean()


@pytest.mark.data
@pytest.mark.parametrize("card", list(MACHINES))
def test_the_share_of_pcie_is_that_of_both_machines_whose_rings_cross_it(card: str) -> None:
    measured = all_reduces(card)
    e = closest_calibration(gpu("l40s"), "vllm", "bf16").calibration.efficiency
    assert np.abs(relative_errors(measured, e)).mean() < 0.08
