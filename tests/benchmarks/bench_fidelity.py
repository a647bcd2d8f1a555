"""How far iteration times are off, by source: cells, mean and p90 of |error|, on unseen data too, and the target.

    CASCADIA_DATA=... python -m tests.benchmarks.bench_fidelity [--plots]

Errors on unseen data are those that `fidelity.fit` wrote beside the constants (each group left out in turn; that takes
minutes, this seconds). All else is predicted here, from the catalogue. `--plots` draws docs/images/fidelity-*.svg.
Exits with 1 where an entry no longer meets its measurements as well as it says, or the order of configurations or the
paper's table misses its target; a missed target on unseen data is told in its row.
"""

import argparse
import sys

import numpy as np

from cascadia.reproduce import simulator_table
from cascadia_sim.calibration.calibration import Calibration
from cascadia_sim.calibration.catalogue import known_calibrations
from cascadia_sim.fit.calibration_cells import Measured
from cascadia_sim.fit.calibration_fit import relative_errors
from cascadia_sim.hardware.catalogue import gpu
from tests.benchmarks.fidelity import parallel_order, plots
from tests.benchmarks.fidelity.sets import MeasuredSet, all_sets

TARGETS = {"ampere": (0.05, 0.10), "hopper": (0.05, 0.10)}
"""Mean and p90 on models that the fit has not seen."""
ORDER_TARGET, PAPER_TARGET, DRIFT = 0.9, 0.08, 0.005


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plots", action="store_true")
    arguments = parser.parse_args()
    known = {c.name: c for c in known_calibrations()}
    sets = [s for s in all_sets() if s.name in known]
    print("| set | runs | mean | p90 | unseen mean | unseen p90 | target | met |")
    print("|---|---|---|---|---|---|---|---|")
    for one in sets:
        print(_row(one, known[one.name]))
    print("\n| set | model | TP x PP | runs | mean | bias |\n|---|---|---|---|---|---|")
    for one in sets:
        for line in _cells(one, known[one.name]):
            print(line)
    held = all([_as_told(sets, known), _order(), _paper()])
    if arguments.plots:
        for path in plots.draw(sets, known):
            print(path)
    return 0 if held else 1


def _row(one: MeasuredSet, known: Calibration) -> str:
    errors = np.abs(relative_errors(Measured(one.cells, gpu(one.gpu)), known.efficiency))
    fit, target = known.fit, TARGETS.get(gpu(one.gpu).generation)
    unseen = (fit.held_out_mean_error, fit.held_out_p90_error)
    told, met = "", ""
    if target and None not in unseen:
        told = f"{target[0]:.0%}, {target[1]:.0%}"
        met = "yes" if all(u is not None and u <= t for u, t in zip(unseen, target, strict=True)) else "no"
    figures = (errors.mean(), np.quantile(errors, 0.9), *(u if u is not None else np.nan for u in unseen))
    return (
        f"| {one.name} | {len(errors)} | " + " | ".join(f"{f:.1%}" for f in figures) + f" | {told} | {met} |"
    )


def _cells(one: MeasuredSet, known: Calibration) -> list[str]:
    """Of each model and shape, what was never fitted included."""
    lines = []
    for part, cells in (("", one.cells), (" (never fitted)", one.odd)):
        groups: dict[tuple[str, int, int], list[int]] = {}
        if not cells:
            continue
        errors = relative_errors(Measured(cells, gpu(one.gpu)), known.efficiency)
        seen: dict[object, int] = {}
        for i, c in enumerate(cells):
            run = c.run if c.run is not None else i
            if run not in seen:
                seen[run] = len(seen)
                groups.setdefault((c.architecture.name, c.tp, c.pp), []).append(seen[run])
        for (model, tp, pp), rows in groups.items():
            e = errors[rows]
            lines.append(
                f"| {one.name}{part} | {model} | {tp} x {pp} | {len(e)} | {np.abs(e).mean():.1%} | {e.mean():+.1%} |"
            )
    return lines


def _as_told(sets: list[MeasuredSet], known: dict[str, Calibration]) -> bool:
    """Whether each entry's error on what it was fitted to is what it says."""
    off = [
        abs(
            float(np.abs(relative_errors(Measured(s.cells, gpu(s.gpu)), known[s.name].efficiency)).mean())
            - known[s.name].fit.mean_error
        )
        for s in sets
    ]
    return max(off) < DRIFT


def _order() -> bool:
    pairs = parallel_order.compared()
    count, share = parallel_order.share_right(pairs)
    several = parallel_order.share_right(pairs, lambda p: p.slow.pp > 1 or p.fast.pp > 1)
    print(f"\nOrder of parallel configurations (figure 5): {share:.1%} of {count} pairs right (target 90 %);")
    print(f"with pipelines, which no fit has seen: {several[1]:.1%} of {several[0]}.")
    return share >= ORDER_TARGET


def _paper() -> bool:
    scale, found = simulator_table.table()
    print(
        "\n| (DP, TP, PP) | paper, req/s | predicted, scaled | error | paper's simulator |\n|---|---|---|---|---|"
    )
    for row, theirs in zip(found, simulator_table.PAPER_ERROR, strict=True):
        print(
            f"| {row.shape} | {row.measured_rps:.2f} | {row.predicted_rps:.3f} | {row.error:+.1%} | {theirs:.1%} |"
        )
    best = max(found, key=lambda row: row.predicted_rps)
    print(
        f"\nScale {scale:.3f}, mean error {simulator_table.mean_error(found):.1%} (target 8 %), winner {best.shape}."
    )
    others = [
        f"{n}: {simulator_table.mean_error(simulator_table.table(requests=n)[1]):.1%}"
        for n in (4, 12, 16, 32)
    ]
    print(f"With other numbers of requests at a time than {simulator_table.REQUESTS}: {', '.join(others)}.")
    return simulator_table.mean_error(found) <= PAPER_TARGET and best.shape == (2, 2, 2)


if __name__ == "__main__":
    sys.exit(main())
