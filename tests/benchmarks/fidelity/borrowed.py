"""How far off a plan's times are where its calibration is of another precision, another engine, kernels, or of nothing.

Real servers on H200 and B200 (`endtoend.py`), each predicted with every entry that the catalogue would fall back on if
the right one were not there. The means go into `cascadia_sim/calibration_standing.py`.

    CASCADIA_DATA=... python -m tests.benchmarks.fidelity.borrowed
"""

import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from statistics import mean, median

import numpy as np

from cascadia_sim.calibration.calibration import Calibration
from cascadia_sim.calibration.catalogue import generic_calibration, known_calibrations
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.build import calibration_of
from tests.benchmarks.fidelity.closed_loop import mean_ms
from tests.benchmarks.fidelity.endtoend import (
    engine_of,
    known_architecture,
    loop_of,
    timing_of,
    weights_of,
)
from tests.benchmarks.fidelity.endtoend_points import FILE, Point, read_points
from tests.benchmarks.fidelity.endtoend_usable import reasons
from tests.data import data_path

EACH = 4
"""Every fourth point of a cell is enough for a mean."""


def stand_ins(own: Calibration, card: str, engine: str, precision: str) -> Iterator[tuple[str, Calibration]]:
    """What could stand in the place of `own`, under how far it is."""
    yield "its own", own
    yield "generic", generic_calibration(gpu(card), engine, precision)
    for entry in known_calibrations():
        kernels = "kernels" in entry.source and entry.engine == "vllm"
        if kernels and entry.gpu == {"hopper": "h100-sxm"}.get(gpu(card).generation):
            yield "kernels", replace(entry, gpu=card)
        if entry.gpu != card or entry is own or "closed loops" not in entry.source:
            continue
        if entry.engine == engine:
            yield "another precision or version", entry
        else:
            yield f"another engine, {'this' if entry.precision == precision else 'another'} precision", entry


def errors(point: Point) -> Iterator[tuple[str, float, float]]:
    """(how far, TPOT error, TTFT error) with each entry that could stand in."""
    model = known_architecture(point)
    if model is None:
        return
    config = engine_of(point, model)
    own = calibration_of(model, gpu(point.system), config)
    precision = config.quantization or model.quantization or "bf16"
    for how, entry in stand_ins(own, point.system, point.engine, precision):
        timing = timing_of(model, point.system, point.gpus, replace(config, calibration=entry))
        ttft_ms, tpot_ms = mean_ms(weights_of(loop_of(point)), timing)
        e = entry.efficiency
        ttft_ms += e.first_token_s * 1e3 + (e.first_token_steps + point.held_steps) * tpot_ms
        yield how, tpot_ms / point.tpot_ms - 1, ttft_ms / point.ttft_ms - 1


def main() -> int:
    points = read_points(data_path(FILE))
    passed_over = reasons([p for p in points if known_architecture(p) is not None])
    usable = [p for p in points if p not in passed_over][::EACH]
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for point in usable:
        for how, tpot, ttft in errors(point):
            found[how].append((abs(tpot), abs(ttft)))
    rows = []
    for how, pairs in sorted(found.items(), key=lambda item: median(p[0] for p in item[1])):
        cells = []
        for side in zip(*pairs, strict=True):
            cells += [f"{of(side):.1%}" for of in (median, mean, lambda x: float(np.quantile(x, 0.9)))]
        rows.append((how, str(len(pairs)), *cells))
    head = ("calibration", "predictions", "TPOT median", "mean", "p90", "TTFT median", "mean", "p90")
    print("\n".join("| " + " | ".join(line) + " |" for line in (head, ("---",) * len(head), *rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
