"""What a plan says of real servers on H200 and B200, on (model, GPUs) halves that its calibrations have not seen.

Each measured point goes the way that a plan goes: a calibration is chosen (`calibrations_catalogue.choose`), the cost
tables of a replica are made of it (`build.replica_timing`), a closed loop at the point's concurrency is simulated, and
clients see it (`engine/client.py`). Beside the catalogue's own entries, which have seen all points, stand those of two
fits, each to one half of the (model, GPUs) pairs, that predict the other half.

    CASCADIA_DATA=... python -m tests.benchmarks.fidelity.product [--check]

One row for each engine, model and precision; a target that is missed is marked. `--check` also runs the replica
simulator on every fiftieth point's own arrivals, and fails where it prints another mean.
"""

import argparse
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

import numpy as np

from cascadia_sim.calibration.calibration import Calibration
from cascadia_sim.calibration.catalogue import choose, known_calibrations
from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.build import calibration_of
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.models.architecture import Architecture
from tests.benchmarks.fidelity.closed_loop import run, seen_ms
from tests.benchmarks.fidelity.crossed import Crossed
from tests.benchmarks.fidelity.endtoend import (
    CHECKED_EACH,
    engine_of,
    known_architecture,
    loop_of,
    timing_of,
    weights_of,
)
from tests.benchmarks.fidelity.endtoend_counts import format_of, model_of
from tests.benchmarks.fidelity.endtoend_fit import SOURCE, calibration, half
from tests.benchmarks.fidelity.endtoend_points import FILE, Point, read_points
from tests.benchmarks.fidelity.endtoend_usable import reasons, told
from tests.data import data_path

TPOT_TARGET = {"dense": 0.08, "mixture": 0.15}
TTFT_TARGET = 0.15


class Miss(NamedTuple):
    """Predicted over measured - 1."""

    tpot: float
    ttft: float


def printed_ms(point: Point, model: Architecture, config: EngineConfig) -> tuple[float, float]:
    """Mean TTFT and TPOT that a plan would print; with what the measured recipe held back."""
    timing = timing_of(model, point.system, point.gpus, config)
    return seen_ms(weights_of(loop_of(point)), timing, point.held_steps)


def simulated_ms(point: Point, model: Architecture, config: EngineConfig) -> tuple[float, float]:
    """The same means from the replica simulator itself, on the loop's own arrivals."""
    timing = timing_of(model, point.system, point.gpus, config)
    ran = run(loop_of(point), replace(timing, client_ps=0, client_steps=0.0))
    counted = slice(0 if point.varied else point.concurrency, None)
    done = simulate_replica(
        timing, ran.arrival_ps, ran.input_tokens, ran.output_tokens, np.zeros_like(ran.input_tokens)
    )
    ttft = (done.first_token_ps - ran.arrival_ps)[counted].mean() / 1e9
    tpot = ((done.finish_ps - done.first_token_ps) / (ran.output_tokens - 1))[counted].mean() / 1e9
    return float(ttft + point.held_steps * tpot), float(tpot)


def miss(point: Point, config: EngineConfig) -> Miss:
    ttft_ms, tpot_ms = printed_ms(point, model_of(point), config)
    return Miss(tpot_ms / point.tpot_ms - 1, ttft_ms / point.ttft_ms - 1)


def seen(points: Sequence[Point]) -> dict[Point, Miss]:
    """By the catalogue as it is."""
    return {p: miss(p, engine_of(p, model_of(p))) for p in points}


def unseen(points: Sequence[Point]) -> dict[Point, Miss]:
    """By entries fitted to the half of the pairs that a point is not in, in the place of the catalogue's."""
    others = tuple(c for c in known_calibrations() if c.source != SOURCE)
    found: dict[Point, Miss] = {}
    for which in (0, 1):
        learned = [p for p in points if _half(p) != which]
        entries = _entries(learned)
        today = (*(e for e in entries if not e.superseded), *others)
        for p in (p for p in points if _half(p) == which):
            config = engine_of(p, model_of(p))
            old = [e for e in entries if e.superseded and p.stack[2] == e.engine_version]
            right = [e for e in old if e.precision == config.quantization]
            entry = (
                right[0]
                if right
                else choose(today, gpu(p.system), p.engine, config.quantization or "bf16").calibration
            )
            found[p] = miss(p, replace(config, calibration=replace(entry, gpu=p.system)))
    return found


def _entries(points: Sequence[Point]) -> list[Calibration]:
    fitted, none = Crossed(points), np.zeros((0, 2))
    return [
        calibration(f, [p for p in points if (p.stack, format_of(p)) == (s, f)], fitted.constants(s, f), none)
        for s, f in sorted(fitted.entries)
    ]


def _half(p: Point) -> int:
    return half((p.model, p.gpus, format_of(p)))


def kind(p: Point) -> str:
    return "dense" if model_of(p).moe is None else "mixture"


def rows(
    points: Sequence[Point],
    sets: Sequence[dict[Point, Miss]],
    key: Callable[[Point], Hashable],
) -> list[tuple[str, ...]]:
    """Median |error| of TPOT and TTFT in each of `sets`; the last set is held to the targets."""
    found = []
    for name in sorted({key(p) for p in points}, key=str):
        own = [p for p in points if key(p) == name]
        cells = [" ".join(name) if isinstance(name, tuple) else str(name), str(len(own))]
        for misses in sets:
            for which, target in ((0, TPOT_TARGET[kind(own[0])]), (1, TTFT_TARGET)):
                value = median(abs(misses[p][which]) for p in own)
                late = misses is sets[-1] and value > target
                cells.append(f"{value:.1%}{' (missed)' if late else ''}")
        found.append(tuple(cells))
    return found


def check(points: Sequence[Point]) -> bool:
    """Whether the simulator says what is printed, to a millionth."""
    good = 0
    chosen = points[::CHECKED_EACH]
    for p in chosen:
        config = engine_of(p, model_of(p))
        both = printed_ms(p, model_of(p), config), simulated_ms(p, model_of(p), config)
        good += bool(np.allclose(*both, rtol=1e-6))
    print(f"\nThe simulator on the same arrivals: {good} of {len(chosen)} points print the same means.")
    return good == len(chosen)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    points = [p for p in read_points(data_path(FILE)) if known_architecture(p) is not None]
    passed_over = reasons(points)
    usable = [p for p in points if p not in passed_over]
    assert all(calibration_of(model_of(p), gpu(p.system), engine_of(p, model_of(p))).gpu for p in usable)
    sets = (seen(usable), unseen(usable))
    head = (
        "engine, model, precision, GPU",
        "points",
        *(f"{what} {which}" for which in ("seen", "unseen half") for what in ("TPOT", "TTFT")),
    )
    body = rows(usable, sets, lambda p: (p.engine, p.model.split("/")[-1], format_of(p), p.system))
    totals = rows(usable, sets, lambda p: (kind(p), p.engine)) + rows(usable, sets, kind)
    for line in (head, ("---",) * len(head), *body, *totals):
        print("| " + " | ".join(line) + " |")
    print(f"\n{len(usable)} of {len(points)} points. Not compared: {told(passed_over)}.")
    return 0 if not arguments.check or check(usable) else 1


if __name__ == "__main__":
    sys.exit(main())
