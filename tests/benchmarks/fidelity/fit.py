"""Fits the calibrations of engines on A100, H100 and other GPUs, and measures their errors on what they have not seen.

    CASCADIA_DATA=... python -m tests.benchmarks.fidelity.fit [NAME ...]

writes sim/cascadia_sim/data/calibrations.json: the entries named (all, unless given) in place of those of the same
name; others stay, and of a GPU without an entry only the errors are told. Those of H200 and B200 come from
`endtoend_fit`, and kernels' take from them what kernels do not say, and their error to the first token from a server
where there was one: `fit kernels` writes these alone.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cascadia_sim.calibration.calibration import Calibration, FitError, Validity
from cascadia_sim.calibration.catalogue import generic_calibration, known_calibrations
from cascadia_sim.calibration.file import as_data
from cascadia_sim.fit.calibration_cells import Cell, Measured
from cascadia_sim.fit.calibration_fit import fit_efficiency, relative_errors
from cascadia_sim.hardware.catalogue import gpu, known_gpus
from cascadia_sim.hardware.gpu import Efficiency, Gpu
from cascadia_sim.iteration.roofline import Floats
from tests.benchmarks.fidelity import h100
from tests.benchmarks.fidelity.endtoend_fit import SOURCE as ENDTOEND
from tests.benchmarks.fidelity.moe_operators import bf16_constants
from tests.benchmarks.fidelity.operators import kernels
from tests.benchmarks.fidelity.sets import BENCH, MeasuredSet, all_sets, without_entry

CATALOGUE = Path(str(files("cascadia_sim"))) / "data" / "calibrations.json"
KERNELS = (
    ("a100-sxm", "a100_sxm", "0.14.0", ("a100-sxm", "a100-40gb", "a100-pcie")),
    ("h100-sxm", "h100_sxm", "0.24.0", ("h100-sxm", "h100-pcie", "h100-nvl", "gh200")),
)
KERNEL_CONSTANTS = (
    "gemm_compute",
    "gemm_hbm",
    "attention_compute",
    "kv_hbm",
    "decode_compute",
    "ridge",
    "wave_outputs",
)
PCIE_LINK = 0.736
"""`pcie_fit`: all-reduce between NVLinked pairs of A100 and of H100, over PCIe."""
LINK_CONSTANTS = ("link", "link_tp2", "link_tp4", "link_tp8")
ONLY_KERNELS = "kernels"
TIGHTER = 1.5
"""By how much nearer a GPU stays to its engine's constants on all GPUs than those to generic ones."""


class Outcome(NamedTuple):
    """Errors are predicted / measured - 1 of each run; held out: in order of the groups."""

    calibration: Calibration
    seen: Floats
    held_out: dict[str, Floats]


def efficiency_of(one: MeasuredSet, family: Sequence[MeasuredSet], without: str | None = None) -> Efficiency:
    """Fitted to `one`, starting from what the whole family gives, both without the group `without`."""
    prior = one.start
    if len(family) > 1:
        together = [c for s in family for c in _kept(s, without)]
        prior = fit_efficiency(Measured(together, gpu(one.gpu)), prior)
    own = _kept(one, without)
    if not own:
        return prior
    return fit_efficiency(Measured(own, gpu(one.gpu)), prior, tightness=TIGHTER if len(family) > 1 else 1.0)


def outcome(one: MeasuredSet, family: Sequence[MeasuredSet]) -> Outcome:
    card = gpu(one.gpu)
    whole = efficiency_of(one, family)
    seen = relative_errors(Measured(one.cells, card), whole)
    held_out = {}
    for group in dict.fromkeys(one.groups):
        unseen = [c for c, g in zip(one.cells, one.groups, strict=True) if g == group]
        held_out[group] = relative_errors(Measured(unseen, card), efficiency_of(one, family, group))
    together = np.abs(np.concatenate(list(held_out.values())))
    rounded = Efficiency(**{name: float(f"{value:.4g}") for name, value in asdict(whole).items()})
    found = Calibration(
        one.name,
        one.gpu,
        one.engine,
        engine_version=one.engine_version,
        precision=one.precision,
        source=one.source,
        fit=FitError(len(seen), *(_share(x) for x in (*_mean_p90(np.abs(seen)), *_mean_p90(together)))),
        valid=_validity(one.cells),
        efficiency=rounded,
        evidence="served" if one.source == BENCH else "kernels",
        superseded=one.source == BENCH,
    )
    return Outcome(found, seen, held_out)


def kernel_entries() -> list[Calibration]:
    """Engines of today on GPUs whose kernels alone were measured: all else as on the next GPU of the generation."""
    found = []
    for measured, folder, version, cards in KERNELS:
        ready = kernels(gpu(measured), folder, version)
        fitted = fit_efficiency(ready, gpu(measured).efficiency)
        experts = bf16_constants(fitted) if measured == "h100-sxm" else {}
        errors = np.abs(relative_errors(ready, fitted))
        for card in map(gpu, cards):
            start = _of_today(card)
            # Nothing was measured over PCIe: neither these kernels nor those of the start say anything about it.
            same = card.link == gpu(measured).link
            linked = fitted if same else card.efficiency
            moved = {name: float(f"{getattr(fitted, name):.4g}") for name in KERNEL_CONSTANTS}
            moved |= {name: float(f"{getattr(linked, name):.4g}") for name in LINK_CONSTANTS}
            moved |= {name: float(f"{value:.4g}") for name, value in experts.items()}
            if not same:
                moved |= {"link_latency": card.efficiency.link_latency, "link": PCIE_LINK}
            entry = Calibration(
                f"{card.name}-vllm-{version}-bf16",
                card.name,
                "vllm",
                engine_version=version,
                precision="bf16",
                source=f"kernels of vLLM {version} alone on {measured} (aiconfigurator, Apache-2.0); what stands "
                f"between them as in {start.name}; errors are of kernels"
                + ("" if same else "; link as between pairs of A100 and H100 over PCIe"),
                fit=FitError(len(errors), *(_share(x) for x in _mean_p90(errors))),
                valid=Validity((1, 16384), (1, 8), (64, 16384)),
                efficiency=replace(start.efficiency, **moved),
                evidence="kernels",
            )
            found.append(h100.as_served(entry) if card.name == h100.CARD else entry)
    return found


def _of_today(card: Gpu) -> Calibration:
    """vLLM end to end on a GPU of the generation, where it was measured; else generic constants."""
    for known in known_calibrations():
        same = known.gpu in known_gpus() and gpu(known.gpu).generation == card.generation
        if same and known.source == ENDTOEND and (known.engine, known.precision) == ("vllm", "fp8"):
            return known
    return generic_calibration(card, "vllm", "bf16")


def write(found: Sequence[Calibration]) -> None:
    data = json.loads(CATALOGUE.read_text(encoding="utf-8"))
    names = {c.name for c in found}
    kept = [c for c in data["calibrations"] if c["name"] not in names]
    entries = [as_data(c) for c in found] + kept
    # What serves today comes first: it is what a plan takes.
    data["calibrations"] = sorted(entries, key=lambda c: (c["superseded"], c["engine"], c["name"]))
    CATALOGUE.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    known, apart = all_sets(), without_entry()
    sets = [*known, *apart]
    parser = argparse.ArgumentParser(description="writes calibrations anew")
    names = [ONLY_KERNELS, *(s.name for s in sets)]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}; default: all")
    asked = parser.parse_args(arguments).names
    if unknown := sorted(set(asked) - set(names)):
        parser.error(f"no entry {unknown[0]!r}: choose from {', '.join(names)}")
    found = kernel_entries()
    for entry in found:
        print(f"{entry.name}: {entry.fit.points} kernels, {entry.fit.mean_error:.1%}")
    chosen = [s for s in sets if not asked or s.name in asked]
    for one in chosen:
        result = outcome(one, [s for s in sets if s.family == one.family])
        fit = result.calibration.fit
        print(f"{one.name}: {fit.points} runs, fit {fit.mean_error:.1%} (p90 {fit.p90_error:.1%}), ", end="")
        print(f"unseen {fit.held_out_mean_error:.1%} (p90 {fit.held_out_p90_error:.1%})")
        for group, errors in result.held_out.items():
            print(
                f"    without {group}: {len(errors)}, mean {np.abs(errors).mean():.1%}, bias {errors.mean():+.1%}"
            )
        if one.odd:
            odd = relative_errors(Measured(one.odd, gpu(one.gpu)), result.calibration.efficiency)
            print(f"    never fitted: {len(odd)}, mean {np.abs(odd).mean():.1%}, bias {odd.mean():+.1%}")
        if one in known:
            found.append(result.calibration)
        sys.stdout.flush()
    write(found)
    return 0


def _kept(one: MeasuredSet, without: str | None) -> list[Cell]:
    return [replace(c, gpu=gpu(one.gpu)) for c, g in zip(one.cells, one.groups, strict=True) if g != without]


def _mean_p90(errors: Floats) -> tuple[float, float]:
    return float(errors.mean()), float(np.quantile(errors, 0.9))


def _share(value: float) -> float:
    return round(value, 4)


def _validity(cells: Sequence[Cell]) -> Validity:
    context = [c.context / c.sequences for c in cells if c.context and c.sequences]
    tokens, degrees = [c.tokens for c in cells], [c.tp for c in cells]
    batch, sizes = (
        [round(c.sequences) for c in cells if c.sequences],
        [c.architecture.parameters for c in cells],
    )
    return Validity(
        (int(min(tokens)), int(max(tokens))),
        (min(degrees), max(degrees)),
        (int(min(context)), int(max(context))),
        (min(batch), max(batch)),
        (min(sizes), max(sizes)),
    )


if __name__ == "__main__":
    sys.exit(main())
