"""Entries of served engines, fitted together: they find constants that made the times, and lend each other theirs."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from cascadia_sim.hardware.gpu import Efficiency
from tests.benchmarks.fidelity.crossed import OWN_WORK, Crossed, errors, generic
from tests.benchmarks.fidelity.endtoend_counts import Fitted
from tests.benchmarks.fidelity.endtoend_points import Point

CARD = "b200-sxm"
TRUTH = replace(
    generic(CARD), gemm_hbm=0.6, kernel_s=2.6e-6, iteration_s=3e-4, sequence_s=3e-6, first_token_steps=4.0
)


def measured(engine: str, gpus: tuple[int, ...], truth: Efficiency) -> Iterator[Point]:
    """Points as servers that are just like `truth` would give them."""
    for n in gpus:
        for concurrency in (1, 4, 16):
            point = Point(
                system=CARD,
                engine=engine,
                version="",
                model="meta-llama/Llama-3.1-70B",
                precision="fp8",
                gpus=n,
                attention_dp=1,
                expert_parallel=False,
                input_tokens=256,
                output_tokens=64,
                concurrency=concurrency,
                varied=True,
                ttft_ms=1.0,
                tpot_ms=1.0,
            )
            ttft_ms, tpot_ms = Fitted([point]).predicted(truth)[0]
            yield replace(point, ttft_ms=float(ttft_ms), tpot_ms=float(tpot_ms))


@pytest.mark.slow
def test_degrees_of_parallelism_that_no_fit_has_seen_come_out_right() -> None:
    seen = [*measured("vllm", (2, 8), TRUTH), *measured("trtllm", (2, 8), replace(TRUTH, iteration_s=5e-4))]
    found = Crossed(seen).constants((CARD, "vllm", ""), "fp8")
    assert found.gemm_hbm == pytest.approx(TRUTH.gemm_hbm, rel=0.05)
    assert found.link_tp2 == pytest.approx(1.0, abs=0.05)
    others = list(measured("vllm", (1, 4), TRUTH))
    assert np.abs(errors(others, found)[:, 1]).max() < 0.02
    # The generic constants are not right by luck.
    assert np.abs(errors(others, generic(CARD))[:, 1]).max() > 0.1


@pytest.mark.slow
def test_an_engines_own_work_is_learned_for_all_formats_at_once() -> None:
    """Eighty layers of slow kernels pass for a slow engine where a format has constants of the engine to itself."""
    fitted = Crossed(measured("vllm", (1, 4), TRUTH))
    for name in OWN_WORK:
        known, kin = (getattr(fitted.constants((CARD, "vllm", ""), form), name) for form in ("fp8", "nvfp4"))
        assert known == kin != getattr(generic(CARD), name), name


@pytest.mark.slow
def test_an_entry_that_nobody_served_has_what_its_gpu_and_engine_have_elsewhere() -> None:
    fitted = Crossed(measured("vllm", (1, 2, 4), TRUTH))
    kin = fitted.constants((CARD, "vllm", ""), "nvfp4")
    stranger = fitted.constants(("h200-sxm", "sglang", ""), "bf16")
    assert stranger == generic("h200-sxm")
    assert TRUTH.gemm_hbm < kin.gemm_hbm < generic(CARD).gemm_hbm
