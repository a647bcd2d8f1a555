"""Constants of GPUs on PCIe: fitted where kernels were measured, carried over by stated rules where none were.

    CASCADIA_DATA=... python -m tests.benchmarks.fidelity.pcie_fit [--write]

prints the errors of the generic constants, of the fit, of a fit without one group (a layer, a model), and of each
GPU's constants on another GPU, by term; then of all-reduce over PCIe. `--write` puts the entries into
sim/cascadia_sim/data/calibrations.json.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from math import sqrt
from typing import NamedTuple

import numpy as np

from cascadia_sim.calibration.calibration import Calibration, FitError, Validity
from cascadia_sim.calibration.catalogue import known_calibrations
from cascadia_sim.fit.calibration_fit import fit_efficiency, relative_errors
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.hardware.gpu import Efficiency
from cascadia_sim.iteration.roofline import Floats
from tests.benchmarks.fidelity.fit import KERNEL_CONSTANTS, write
from tests.benchmarks.fidelity.llmservingsim import CardKernels, a40, a6000, rtx4090
from tests.benchmarks.fidelity.pcie_links import MACHINES, all_reduces

FREE = (*KERNEL_CONSTANTS, "attention_sequence_s")
SOURCES = {
    "rtx4090": "kernels of Llama-3.1-8B alone (LLMServingSim, MIT); held out: one layer",
    "a6000": "matrices and whole-prompt attention of Llama-3.1-8B alone (LLMServingSim, MIT); held out: one layer",
    "a40": "matrices of Llama-2-7B and 70B alone, TP 1-8 (Vidur, MIT); held out: one model",
}
OTHERS = "KV reading from rtx4090's by the ratio of weight reading; rest of an iteration generic; errors are of kernels"
EIGHT = 1.2
"""Of an all-reduce among eight GPUs, drawn to 1 from 1.25-1.4 (two sockets: NVIDIA/nccl issues 1530 and 1639)."""


class Carried(NamedTuple):
    """`gemm_compute` is assumed from the power limit and the tensor cores' rate; all else is carried over."""

    card: str
    like: str
    gemm_compute: float
    why: str


CARRIED = (
    Carried(
        "l40s", "rtx4090", 0.68, "350 W at 0.70 TFLOP/s a watt, RTX PRO 6000's: 417 measured at its 600 W"
    ),
    Carried("l4", "rtx4090", 0.48, "72 W: 0.41 at the same 0.70, more at its low clocks"),
    Carried("a10", "a40", 0.54, "150 W: 0.45 at a40's rate a watt, more at its low clocks"),
    Carried("a10g", "a40", 0.87, "half tensor rate at 300 W: between a40 and rtx4090"),
)


def learned(kernels: CardKernels) -> CardKernels:
    """Without element-wise kernels: alone they find their rows in the cache, or are of another engine."""
    return kernels.only(kernels.kind != "element-wise")


def fitted(kernels: CardKernels) -> Efficiency:
    return fit_efficiency(kernels, kernels.gpu.efficiency, FREE)


def without_a_group(kernels: CardKernels) -> Floats:
    """Errors of each group by a fit to the others."""
    errors = []
    for group in np.unique(kernels.group):
        unseen = kernels.group == group
        errors.append(relative_errors(kernels.only(unseen), fitted(kernels.only(~unseen))))
    return np.concatenate(errors)


def link_share() -> float:
    """Of PCIe's bandwidth, from both machines; their latencies, of collectives outside graphs, are left behind."""
    found = []
    for card in MACHINES:
        measured = all_reduces(card)
        start = replace(measured.gpu.efficiency, link=0.6)
        found.append(fit_efficiency(measured, start, ("link", "link_latency")).link)
    return sqrt(found[0] * found[1])


def entries(measured: dict[str, CardKernels]) -> list[Calibration]:
    own = {name: fitted(kernels) for name, kernels in measured.items()}
    share = link_share()
    peers = {"link": share, "link_tp8": EIGHT}
    kv = own["rtx4090"].kv_hbm / own["rtx4090"].gemm_hbm
    # Attention's share goes with that of matrices; measured at full tensor rate on the A6000.
    attention = own["a6000"].attention_compute / own["a6000"].gemm_compute
    # What error correction in GDDR memory costs: the same die with it and without.
    corrected = own["a40"].gemm_hbm / own["a6000"].gemm_hbm
    found = []
    for name, e in own.items():
        # Its driver lets no GPU read another's memory: all-reduce through the host, as assumed for Ada.
        e = replace(e, **peers) if name != "rtx4090" else replace(e, link_tp8=EIGHT)
        if name != "rtx4090":
            e = replace(e, kv_hbm=kv * e.gemm_hbm, attention_sequence_s=own["rtx4090"].attention_sequence_s)
        if name == "a40":
            e = replace(e, attention_compute=attention * e.gemm_compute)
        k = measured[name]
        errors, unseen = (np.abs(x) for x in (relative_errors(k, e), without_a_group(k)))
        source = SOURCES[name] + ("" if name == "rtx4090" else f"; {OTHERS}")
        found.append(_entry(name, source, e, k, errors, unseen))
    across = np.abs(
        np.concatenate(
            [relative_errors(measured[a], own[b]) for a, b in (("a40", "a6000"), ("a6000", "a40"))]
        )
    )
    for card, like, compute, why in CARRIED:
        e = own[like]
        moved = {"gemm_hbm": e.gemm_hbm, "kv_hbm": kv * e.gemm_hbm}
        if like == "rtx4090":
            now = gpu(card).efficiency
            moved = {name: sqrt(getattr(now, name) * corrected * value) for name, value in moved.items()}
        ratio = (
            attention if card != "a10g" else own["rtx4090"].attention_compute / own["rtx4090"].gemm_compute
        )
        moved |= {"gemm_compute": compute, "attention_compute": ratio * compute}
        moved |= {"attention_sequence_s": own["rtx4090"].attention_sequence_s, **peers}
        source = f"carried over from {like}, no measurement of this GPU; gemm_compute assumed ({why}); fit errors are "
        source += f"{like}'s kernels, held out: a40's constants on a6000 and the reverse"
        errors = np.abs(relative_errors(measured[like], e))
        found.append(_entry(card, source, replace(e, **moved), measured[like], errors, across))
    pcie = next(c for c in known_calibrations() if c.name == "a100-pcie-vllm-0.14.0-bf16")
    half = replace(
        pcie, name="a30-vllm-0.14.0-bf16", gpu="a30", efficiency=_rounded(replace(pcie.efficiency, **peers))
    )
    return [*found, half]


def _entry(
    card: str, source: str, e: Efficiency, k: CardKernels, errors: Floats, unseen: Floats
) -> Calibration:
    """`k`: what was measured, of this GPU or of the one that it is like."""
    figures = (errors.mean(), np.quantile(errors, 0.9), unseen.mean(), np.quantile(unseen, 0.9))
    told = FitError(len(errors), *(round(float(x), 4) for x in figures))
    rows = k.counts[np.char.startswith(k.kind, "gemm"), 0]
    contexts = k.counts[k.kind == "decode", 1] if (k.kind == "decode").any() else np.zeros(1)
    valid = Validity(
        (int(rows.min()), int(rows.max())),
        (1, 8) if card == "a40" else (1, 1),
        (int(contexts.min()), int(contexts.max())),
    )
    name, constants = f"{card}-vllm-kernels-bf16", _rounded(_low_precision(card, e))
    return Calibration(
        name,
        card,
        "vllm",
        engine_version="kernels alone",
        precision="bf16",
        source=source,
        fit=told,
        valid=valid,
        efficiency=constants,
        evidence="kernels",
    )


def _low_precision(card: str, e: Efficiency) -> Efficiency:
    """FP8 and INT8 were not measured: their share moves as BF16's, up to the peak."""
    now = gpu(card).efficiency
    moved = now.gemm_low_precision * e.gemm_compute / now.gemm_compute
    return replace(e, gemm_low_precision=min(1.0, moved))


def _rounded(e: Efficiency) -> Efficiency:
    return Efficiency(**{name: float(f"{value:.4g}") for name, value in asdict(e).items()})


def _line(what: str, kernels: CardKernels, errors: Floats) -> str:
    parts = [f"| {what} | {np.abs(errors).mean():.1%}"]
    for kind in ("gemm compute", "gemm memory", "prefill", "decode", "element-wise"):
        e = errors[kernels.kind == kind]
        parts.append(f"{np.abs(e).mean():.1%} ({np.median(e):+.1%})" if len(e) else "–")
    return " | ".join(parts) + " |"


def report(measured: Sequence[CardKernels], found: Sequence[Calibration]) -> list[str]:
    entry = {c.gpu: c for c in found}
    lines = ["| constants on GPU | all | gemm compute | gemm memory | prefill | decode | element-wise |"]
    lines.append("|---|---|---|---|---|---|---|")
    for k in measured:
        name = k.gpu.name
        lines.append(_line(f"generic on {name}", k, relative_errors(k, k.gpu.efficiency)))
        lines.append(_line(f"entry on {name}", k, relative_errors(k, entry[name].efficiency)))
        fit = entry[name].fit
        lines.append(f"    fit {fit.mean_error:.1%}, unseen {fit.held_out_mean_error:.1%}")
        for other in measured:
            if other is not k:
                errors = relative_errors(k, entry[other.gpu.name].efficiency)
                lines.append(_line(f"{other.gpu.name}'s on {name}", k, errors))
    share = link_share()
    for card in MACHINES:
        m = all_reduces(card)
        for what, link in (("generic", m.gpu.efficiency.link), ("Ada's 0.6", 0.6), (f"{share:.3f}", share)):
            e = relative_errors(m, replace(m.gpu.efficiency, link=link))
            lines.append(
                f"all-reduce of 4 on {card}, link {what}: {np.abs(e).mean():.1%} ({np.median(e):+.1%})"
            )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="constants of GPUs on PCIe")
    parser.add_argument("--write", action="store_true", help="put them into the catalogue")
    asked = parser.parse_args(arguments)
    every = [rtx4090(), a6000(), a40()]
    found = entries({k.gpu.name: learned(k) for k in every})
    for line in report(every, found):
        print(line)
    for c in found:
        constants = {name: getattr(c.efficiency, name) for name in (*FREE, "link", "link_tp8")}
        print(c.name, c.fit.mean_error, c.fit.held_out_mean_error, constants)
    if asked.write:
        write(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
