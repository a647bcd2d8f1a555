"""One H100 under vLLM 0.24.0, measured in closed loops: what the product predicts, and constants fitted to it.

`docs/benchmarks/data/fidelity-h100.csv` has means of four models, as `ask_server.py` measured them. Dense models from
8B in BF16 are fitted; the others, which the fit does not see, are predicted with the same constants.

    python -m tests.benchmarks.fidelity.h100 [--out FILE]

`--out` writes the fitted calibration, which a stage of a spec may name.
"""

import argparse
import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cascadia_sim.calibration.calibration import Calibration, FitError, Validity
from cascadia_sim.calibration.catalogue import find_calibration
from cascadia_sim.calibration.file import write_calibration
from cascadia_sim.fit.calibration_fit import fit_efficiency
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.hardware.gpu import Efficiency
from cascadia_sim.iteration.build import replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.roofline import Floats
from cascadia_sim.models.catalogue import architecture
from tests.benchmarks.fidelity.closed_loop import Loop, seen_ms
from tests.benchmarks.fidelity.endtoend import BUDGET_TOKENS, MOST_SEQUENCES, weights_of
from tests.benchmarks.fidelity.product import Miss
from tests.benchmarks.report_table import markdown
from tests.data import ROOT

FILE = ROOT / "docs/benchmarks/data/fidelity-h100.csv"
CARD = "h100-sxm"
LEARNED = ("meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-14B")
"""Models that keep the GPU busy: a smaller one waits for the host, which no constant of FREE tells."""
FREE = ("iteration_s", "kernel_s", "sequence_s", "gemm_compute", "first_token_s", "first_token_steps")
"""What stands between kernels, and what a sustained load takes from the peak."""
NOISE = 0.05


@dataclass(frozen=True, slots=True)
class Measured:
    model: str
    precision: str
    loop: Loop
    ttft_ms: float
    tpot_ms: float

    @property
    def learned(self) -> bool:
        return self.model in LEARNED and self.precision == "bf16"

    @property
    def served(self) -> tuple[str, str]:
        return self.model, self.precision


def read_measured(path: Path = FILE) -> list[Measured]:
    with path.open(encoding="utf-8", newline="") as file:
        return [_measured(row) for row in csv.DictReader(file)]


def _measured(row: dict[str, str]) -> Measured:
    loop = Loop(
        input_tokens=int(row["input_tokens"]),
        output_tokens=int(row["output_tokens"]),
        concurrency=int(row["concurrency"]),
        varied=False,
        budget_tokens=BUDGET_TOKENS["vllm"],
        chunked=True,
        rounds=float(row["rounds"]),
    )
    return Measured(row["model"], row["precision"], loop, float(row["ttft_ms"]), float(row["tpot_ms"]))


def predicted_ms(point: Measured, calibration: Calibration | None) -> tuple[float, float]:
    """Mean TTFT, as clients see it, and mean TPOT; by the catalogue without a `calibration`."""
    config = EngineConfig(
        engine="vllm",
        calibration=calibration,
        quantization=None if point.precision == "bf16" else point.precision,
        max_num_seqs=MOST_SEQUENCES,
        max_num_batched_tokens=point.loop.budget_tokens,
    )
    timing = replica_timing(architecture(point.model), gpu(CARD), tp=1, pp=1, config=config)
    return seen_ms(weights_of(point.loop), timing)


def misses(points: Sequence[Measured], calibration: Calibration | None = None) -> list[Miss]:
    found = [predicted_ms(p, calibration) for p in points]
    return [
        Miss(tpot / p.tpot_ms - 1, ttft / p.ttft_ms - 1)
        for p, (ttft, tpot) in zip(points, found, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Loops:
    """Measured means in the form that `fit_efficiency` reads: TTFT and TPOT of each point."""

    points: Sequence[Measured]
    start: Calibration

    @property
    def seconds(self) -> Floats:
        return np.array([[p.ttft_ms, p.tpot_ms] for p in self.points]).ravel() / 1e3

    @property
    def noise(self) -> Floats:
        return np.full(2 * len(self.points), NOISE)

    def predicted(self, efficiency: Efficiency) -> Floats:
        own = replace(self.start, efficiency=efficiency)
        return np.array([predicted_ms(p, own) for p in self.points]).ravel() / 1e3


def fitted(learned: Sequence[Measured], unseen: Sequence[Measured]) -> Calibration:
    """Kernels' own entry with the constants of `FREE` moved to `learned`; its held-out errors are of `unseen`."""
    start = find_calibration(gpu(CARD), "vllm", "bf16")
    found = fit_efficiency(Loops(learned, start), start.efficiency, FREE)
    own = replace(start, efficiency=replace(found, **{n: float(f"{getattr(found, n):.4g}") for n in FREE}))
    seen, others = misses(learned, own), misses(unseen, own)
    loops = [p.loop for p in learned]
    context = (
        min(each.input_tokens for each in loops),
        max(each.input_tokens + each.output_tokens for each in loops),
    )
    weights = [architecture(name).parameters for name in LEARNED]
    return replace(
        own,
        name="h100-sxm-vllm-0.24.0-bf16-dense",
        source="Llama-3.1-8B and Qwen3-14B in BF16 on one H100 under vLLM 0.24.0, closed loops; held out: both in FP8",
        evidence="served",
        fit=_error([m.tpot for m in seen], [m.tpot for m in others]),
        error_ttft=_error([m.ttft for m in seen], [m.ttft for m in others]),
        valid=Validity(
            tokens=(1, BUDGET_TOKENS["vllm"]),
            tp=(1, 1),
            context=context,
            batch=(1, max(each.concurrency for each in loops)),
            parameters=(min(weights), max(weights)),
        ),
    )


def as_served(entry: Calibration) -> Calibration:
    """`entry`, of kernels, with the error to the first token that the server showed at its precision."""
    points = [p for p in read_measured() if p.precision == entry.precision]
    sizes = np.abs([m.ttft for m in misses(points, entry)])
    error = FitError(len(sizes), round(float(sizes.mean()), 4), round(_p90(sizes), 4))
    models = len({p.model for p in points})
    told = f"{entry.source}, to the first token of {models} models as served"
    return replace(entry, source=told, error_ttft=error)


def _error(seen: Sequence[float], unseen: Sequence[float]) -> FitError:
    mean, p90, apart_mean, apart_p90 = (
        round(float(f(np.abs(errors))), 4) for errors in (seen, unseen) for f in (np.mean, _p90)
    )
    return FitError(len(seen), mean, p90, apart_mean, apart_p90)


def _p90(errors: Floats) -> float:
    return float(np.quantile(errors, 0.9))


def mean_errors(points: Sequence[Measured], own: Calibration) -> Iterator[str]:
    """Mean sizes of the errors in %: of TPOT by the catalogue and by `own`, then of TTFT."""
    pairs = [*zip(*misses(points), strict=True)], [*zip(*misses(points, own), strict=True)]
    return (f"{100 * np.abs(pairs[which][of]).mean():.1f}" for of in (0, 1) for which in (0, 1))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="File to write the calibration to. Default: none."
    )
    args = parser.parse_args()
    points = read_measured()
    learned = [p for p in points if p.learned]
    own = fitted(learned, [p for p in points if p.model in LEARNED and not p.learned])
    rows = []
    for p, kept, fresh in zip(points, misses(points), misses(points, own), strict=True):
        lengths = f"{' '.join(p.served)}, {p.loop.input_tokens} in, {p.loop.output_tokens} out"
        lengths += f", {p.loop.concurrency} at once"
        errors = (f"{100 * e:+.1f}" for e in (kept.tpot, fresh.tpot, kept.ttft, fresh.ttft))
        rows.append((lengths, f"{p.tpot_ms:.2f}", f"{p.ttft_ms:.0f}", *errors))
    for served in dict.fromkeys(p.served for p in points):
        some = [p for p in points if p.served == served]
        rows.append((f"mean of {' '.join(served)}", "", "", *mean_errors(some, own)))
    head = ("served", "TPOT ms", "TTFT ms", "TPOT off %", "fitted", "TTFT off %", "fitted")
    print(markdown(head, rows))
    if args.out is not None:
        write_calibration(own, args.out)


if __name__ == "__main__":
    main()
