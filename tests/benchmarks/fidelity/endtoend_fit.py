"""Fits H200's and B200's calibrations to the end-to-end points, and says how they do on what they have not seen.

One entry for each GPU, engine and weight format, all fitted together (`crossed.py`). Left out in turn: a model; and
half of the (model, GPUs) pairs.

    CASCADIA_DATA=... python -m tests.benchmarks.fidelity.endtoend_fit [--write [--gpu b200-sxm]]

`--write` puts the entries into sim/cascadia_sim/data/calibrations.json in place of those of the same name.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from pathlib import Path
from statistics import median

import numpy as np

from cascadia_sim.calibration.calibration import Calibration, FitError, Validity
from cascadia_sim.calibration.file import as_data
from cascadia_sim.hardware.gpu import Efficiency
from cascadia_sim.iteration.roofline import Floats
from tests.benchmarks.fidelity.crossed import Crossed, errors
from tests.benchmarks.fidelity.endtoend import known_architecture, loop_of
from tests.benchmarks.fidelity.endtoend_counts import format_of, model_of
from tests.benchmarks.fidelity.endtoend_points import FILE, Point, read_points
from tests.benchmarks.fidelity.endtoend_usable import reasons, told
from tests.data import data_path

SOURCE = (
    "aiconfigurator_endtoend_h200_b200 (ai-dynamo/aiconfigurator, Apache-2.0), closed loops of real servers"
)
FEW = 3


def left_out(points: Sequence[Point], key: Callable[[Point], Hashable]) -> dict[Point, Floats]:
    """Errors of each point by a fit that has not seen its `key`; none where that leaves its stack too few."""
    found: dict[Point, Floats] = {}
    for group in dict.fromkeys(key(p) for p in points):
        seen, unseen = ([p for p in points if (key(p) == group) is same] for same in (False, True))
        fitted = Crossed(seen)
        stacks = Counter(p.stack for p in seen)
        for stack, form in dict.fromkeys((p.stack, format_of(p)) for p in unseen if stacks[p.stack] >= FEW):
            own = [p for p in unseen if (p.stack, format_of(p)) == (stack, form)]
            found |= dict(zip(own, errors(own, fitted.constants(stack, form)), strict=True))
    return found


@cache
def half(pair: tuple[str, int, str]) -> int:
    """Which half of the (model, GPUs) pairs this one is in: neighbours in GPUs fall into different ones."""
    model, gpus, form = pair
    return (int(np.log2(gpus)) + len(model) + len(form)) % 2


def summary(name: str, sets: Sequence[dict[Point, Floats]], points: Iterable[Point]) -> tuple[str, ...]:
    """Median |error| of TPOT then TTFT in each of `sets`, over the points that all of it has."""
    chosen = list(points)
    cells = [name, str(len(chosen))]
    for errors_of in sets:
        known = [errors_of[p] for p in chosen if p in errors_of]
        cells += [f"{median(abs(e[i]) for e in known):.1%}" if known else "–" for i in (1, 0)]
    return tuple(cells)


def calibration(form: str, points: Sequence[Point], e: Efficiency, unseen: Floats) -> Calibration:
    """`unseen` [n, 2]: errors of TTFT and TPOT of points that the fit had not seen."""
    system, engine, version = points[0].stack
    seen = errors(points, e)
    rounded = {n: float(f"{v:.4g}") for n, v in asdict(e).items()}
    versions = sorted({p.version for p in points if p.version}) or ["not told"]
    sizes = [a.parameters for a in map(known_architecture, points) if a is not None]
    return Calibration(
        name="-".join(part for part in (system, engine, form, version) if part),
        gpu=system,
        engine=engine,
        engine_version=", ".join(versions),
        precision=form,
        source=SOURCE,
        fit=_told(seen[:, 1], unseen[:, 1]),
        valid=Validity(
            tokens=(min(p.concurrency for p in points), max(loop_of(p).budget_tokens for p in points)),
            tp=(min(p.gpus for p in points), max(p.gpus for p in points)),
            context=(
                min(p.input_tokens for p in points),
                max(p.input_tokens + p.output_tokens for p in points),
            ),
            batch=(min(p.concurrency for p in points), max(p.concurrency for p in points)),
            parameters=(min(sizes), max(sizes)),
        ),
        efficiency=Efficiency(**rounded),
        error_ttft=_told(seen[:, 0], unseen[:, 0]),
        superseded=bool(version),
    )


def _told(seen: Floats, unseen: Floats) -> FitError:
    figures = [f(np.abs(x)) if len(x) else None for x in (seen, unseen) for f in (np.mean, _p90)]
    mean, p90, *held_out = (None if x is None else round(float(x), 4) for x in figures)
    assert mean is not None
    assert p90 is not None
    return FitError(len(seen), mean, p90, *held_out)


def _p90(errors: Floats) -> float:
    return float(np.quantile(errors, 0.9))


def write(entries: Sequence[Calibration]) -> None:
    """In place of those of the same name; others stay as they are."""
    names = {c.name for c in entries}
    path = Path(str(files("cascadia_sim") / "data" / "calibrations.json"))
    data = json.loads(path.read_text(encoding="utf-8"))
    kept = [c for c in data["calibrations"] if c["name"] not in names] + [as_data(c) for c in entries]
    data["calibrations"] = sorted(kept, key=lambda c: (c["superseded"], c["engine"], c["name"]))
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--gpu", default="", help="write only this one's")
    arguments = parser.parse_args()
    points = [p for p in read_points(data_path(FILE)) if known_architecture(p) is not None]
    passed_over = reasons(points)
    usable = [p for p in points if p not in passed_over]
    print(f"{len(usable)} of {len(points)} points are learned from. Not: {told(passed_over)}.\n")
    fitted = Crossed(usable)
    by_model = left_out(usable, lambda p: p.model)
    by_half = left_out(usable, lambda p: half((p.model, p.gpus, format_of(p))))
    seen: dict[Point, Floats] = {}
    entries = []
    for stack, form in sorted(fitted.entries):
        own = [p for p in usable if (p.stack, format_of(p)) == (stack, form)]
        e = fitted.constants(stack, form)
        seen |= dict(zip(own, errors(own, e), strict=True))
        unseen = np.array([by_half[p] for p in own if p in by_half]).reshape(-1, 2)
        entries.append(calibration(form, own, e, unseen))
    head = (
        "",
        "points",
        *(f"{what} {which}" for what in ("fit", "model unseen", "half unseen") for which in ("TPOT", "TTFT")),
    )
    sets = (seen, by_model, by_half)
    keys = sorted({(*p.stack, format_of(p)) for p in usable})
    body = [
        summary(
            " ".join(part for part in k if part), sets, (p for p in usable if (*p.stack, format_of(p)) == k)
        )
        for k in keys
    ]
    body.append(summary("dense", sets, (p for p in usable if model_of(p).moe is None)))
    body.append(summary("mixtures", sets, (p for p in usable if model_of(p).moe is not None)))
    for line in (head, ("---",) * len(head), *body):
        print("| " + " | ".join(line) + " |")
    if arguments.write:
        write([c for c in entries if c.gpu.startswith(arguments.gpu)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
