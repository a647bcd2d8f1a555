"""A GPU of one's own: figures that mean something, and the catalogued GPU most like it."""

from dataclasses import replace

import pytest

from cascadia_sim.hardware.catalogue import efficiency_of, generations, gpu, known_gpus
from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.hardware.own import BadGpu, OwnGpu, Tflops, hardware_of, nearest_gpu

MINE = OwnGpu("mine", 96, 1800, Tflops(500, 1000), 128)


def described(known: Gpu) -> OwnGpu:
    """The data sheet of a catalogued GPU, under another name."""
    tflops = Tflops(
        *(flops / 1e12 for flops in (known.bf16_flops, known.fp8_flops, known.int8_flops, known.fp4_flops))
    )
    return OwnGpu(
        "mine",
        known.memory_bytes / 2**30,
        known.hbm_bytes_per_s / 1e9,
        tflops,
        known.link_bytes_per_s / 1e9,
        vendor="amd" if known.link == "xgmi" else "nvidia",
    )


@pytest.mark.parametrize("name", [name for name in known_gpus() if gpu(name).generation != "cpu"])
def test_the_nearest_to_a_gpus_own_data_sheet_is_itself_or_its_like(name: str) -> None:
    known = gpu(name)
    found = nearest_gpu(described(known))
    assert (found.memory_bytes, found.hbm_bytes_per_s) == (known.memory_bytes, known.hbm_bytes_per_s)
    assert (found.bf16_flops, found.fp8_flops > 0) == (known.bf16_flops, known.fp8_flops > 0)


@pytest.mark.parametrize("name", ["h100-sxm", "l40s", "a100-80gb"])
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_little_more_or_less_of_one_figure_changes_nothing(name: str, factor: float) -> None:
    own = described(gpu(name))
    tflops = replace(own.tflops, bf16=own.tflops.bf16 * factor)
    for changed in (replace(own, memory_gib=own.memory_gib * factor), replace(own, tflops=tflops)):
        assert nearest_gpu(changed).generation == gpu(name).generation


def test_a_named_generation_lends_its_efficiencies() -> None:
    for generation in generations():
        assert hardware_of(replace(MINE, generation=generation)).efficiency == efficiency_of(generation)


def test_a_generation_that_nobody_knows_is_refused() -> None:
    with pytest.raises(BadGpu, match=r"'hoper' is not known; write one of .*hopper"):
        replace(MINE, generation="hoper")


@pytest.mark.parametrize("name", ["memory_gib", "bandwidth_gb_s", "link_gb_s", "inter_node_gb_s"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_a_figure_that_means_nothing_is_refused(name: str, value: float) -> None:
    with pytest.raises(BadGpu, match=f"{name}.* write a number above 0"):
        replace(MINE, **{name: value})


@pytest.mark.parametrize("name", ["fp8", "int8", "fp4"])
def test_units_may_lack_and_may_not_be_negative(name: str) -> None:
    assert getattr(replace(MINE, tflops=replace(MINE.tflops, **{name: 0.0})).tflops, name) == 0.0
    with pytest.raises(BadGpu, match=f"tflops.{name}.* write 0 where it has no such units"):
        replace(MINE, tflops=replace(MINE.tflops, **{name: -1.0}))


def test_figures_of_a_data_sheet_are_read_in_its_units() -> None:
    own = OwnGpu("mine", 96, 1800, Tflops(500, 1000, 900, 2000), 128, 25)
    found = hardware_of(own)
    assert (found.bf16_flops, found.fp8_flops) == (500e12, 1000e12)
    assert (found.int8_flops, found.fp4_flops) == (900e12, 2000e12)
    assert (found.memory_bytes, found.hbm_bytes_per_s) == (96 * 2**30, 1800e9)
    assert (found.link_bytes_per_s, found.inter_node_bytes_per_s) == (128e9, 25e9)
    assert found.usd_per_hour == 0.0


def test_a_gpu_without_fp4_is_not_like_one_that_has_it_however_near_the_rest() -> None:
    """Units that one lacks weigh as much as a figure seven times another."""
    known = gpu("b200-sxm")
    own = described(known)
    assert nearest_gpu(own).name == known.name
    bare = replace(own, tflops=replace(own.tflops, fp4=0.0))
    assert nearest_gpu(bare).fp4_flops == 0.0
