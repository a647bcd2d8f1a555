"""Fits H200's and B200's calibrations to the end-to-end points, and says how they do on what they have not seen.

One entry for each GPU, engine and weight format. Constants are tied to those of all formats of the same engine and
GPU together, and these to generic ones, so that an entry with few points stays near its relatives. Left out in turn: a
model; and half of the (model, GPUs) pairs.

    CASCADIA_DATA=... python -m tests.benchmarks.fidelity.endtoend_fit [--write]

`--write` puts the entries into sim/cascadia_sim/data/calibrations.json in place of those of the same name.
"""

import argparse
import json
import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from statistics import median

import numpy as np
from scipy.optimize import least_squares

from cascadia_sim.calibration.calibration import Calibration, FitError, Validity
from cascadia_sim.calibration.file import as_data
from cascadia_sim.fit.calibration_fit import SHARES
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.hardware.gpu import Efficiency
from cascadia_sim.iteration.roofline import Floats
from tests.benchmarks.fidelity.endtoend import known_architecture, loop_of
from tests.benchmarks.fidelity.endtoend_counts import Fitted, format_of, model_of
from tests.benchmarks.fidelity.endtoend_points import FILE, Point, read_points
from tests.benchmarks.fidelity.endtoend_usable import reasons, told
from tests.data import data_path

SOURCE = (
    "aiconfigurator_endtoend_h200_b200 (ai-dynamo/aiconfigurator, Apache-2.0), closed loops of real servers"
)
# Relative error at which a measured time weighs as much as one spread of a constant: TTFT, TPOT.
NOISE = (0.12, 0.05)
HUBER = 2.0
# Constants that the points decide, where they start if a GPU's own are 0, and their spread in the logarithm.
STARTS = {
    "gemm_compute": 0.0,
    "gemm_low_precision": 0.0,
    "gemm_hbm": 0.0,
    "attention_compute": 0.0,
    "kv_hbm": 0.0,
    "link": 0.0,
    "kernel_s": 0.0,
    "iteration_s": 0.0,
    "sequence_s": 5e-6,
    "attention_sequence_s": 1e-7,
    "link_latency": 1.0,
    "link_tp2": 1.0,
    "link_tp8": 1.0,
    "head": 1.0,
    "expert_compute": 0.0,
    "expert_read": 1.0,
    "expert_rows": 2.0,
    "expert_layer_s": 1e-5,
    "latent_layer_s": 1e-5,
    "latent_attention": 1.0,
    "first_token_s": 1e-2,
    "first_token_steps": 3.0,
}
SPREADS = {
    "gemm_compute": 0.05,
    "link_tp2": 0.15,
    "link_tp8": 0.15,
    "iteration_s": 0.7,
    "sequence_s": 0.5,
    "attention_sequence_s": 1.0,
    "kernel_s": 0.5,
    "head": 0.3,
    "latent_attention": 0.5,
}
SPREADS |= {"expert_rows": 0.5, "expert_layer_s": 1.0, "latent_layer_s": 1.0}
SPREADS |= {"first_token_s": 1.0, "first_token_steps": 1.0}
SPREAD = 0.35
TIGHTER = 0.45  # an entry's spread about its engine's
FEW = 3
STEPS = 14
STEPS_FROM_NEAR = 7


def fit(
    points: Sequence[Point], prior: Efficiency, tighter: float = 1.0, near: Efficiency | None = None
) -> Efficiency:
    """Least squares on relative errors with Huber's bend, and on the distance from `prior` in logarithms.

    `near`: where to start, in place of `prior`; it saves steps.
    """
    ready = Fitted(points)
    names = list(STARTS)
    values = asdict(prior)
    centre = np.array([values[n] for n in names])
    spread = tighter * np.array([SPREADS.get(n, SPREAD) for n in names])

    def constants(moves: Floats) -> Efficiency:
        moved = dict(zip(names, (centre * np.exp(moves)).tolist(), strict=True))
        return replace(prior, **{n: min(1.0, v) if n in SHARES else v for n, v in moved.items()})

    def residuals(moves: Floats) -> Floats:
        misses = (np.log(ready.predicted(constants(moves)) / ready.measured) / NOISE).ravel()
        size = np.abs(misses)
        bent = np.sqrt(np.where(size > HUBER, 2 * HUBER * size - HUBER**2, size**2))
        return np.concatenate([bent * np.sign(misses), moves / spread])

    start = np.zeros(len(names))
    if near is not None:
        there = asdict(near)
        start = np.log(np.array([there[n] for n in names]) / centre)
    steps = STEPS if near is None else STEPS_FROM_NEAR
    return constants(least_squares(residuals, start, max_nfev=steps, ftol=1e-3).x)


def errors(points: Sequence[Point], e: Efficiency) -> Floats:
    """Predicted / measured - 1, [points, 2]: TTFT, TPOT."""
    ready = Fitted(points)
    return np.asarray(ready.predicted(e) / ready.measured - 1.0)


def generic(system: str) -> Efficiency:
    own = gpu(system).efficiency
    values = asdict(own)
    return replace(own, **{n: start or values[n] for n, start in STARTS.items()})


def entries_of(points: Sequence[Point], near: dict[str, Efficiency] | None = None) -> dict[str, Efficiency]:
    """Of one GPU and engine, by weight format; under "" that of all together. `near`: as in `fit`, of each."""
    near = near or {}
    parent = fit(points, generic(points[0].system), near=near.get(""))
    formats = dict.fromkeys(format_of(p) for p in points)
    own = {
        f: fit([p for p in points if format_of(p) == f], parent, TIGHTER, near=near.get(f)) for f in formats
    }
    return {"": parent} | own


def left_out(
    points: Sequence[Point], key: Callable[[Point], Hashable], near: dict[str, Efficiency]
) -> dict[Point, Floats]:
    """Errors of each point by entries that have not seen its `key`; points of one GPU and engine."""
    found: dict[Point, Floats] = {}
    for group in dict.fromkeys(key(p) for p in points):
        seen, unseen = ([p for p in points if (key(p) == group) is same] for same in (False, True))
        if len(seen) < FEW:
            continue
        entries = entries_of(seen, near)
        for f in dict.fromkeys(format_of(p) for p in unseen):
            of_format = [p for p in unseen if format_of(p) == f]
            found |= dict(zip(of_format, errors(of_format, entries.get(f, entries[""])), strict=True))
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
    parser.add_argument("--engine", default="", help="only this one")
    arguments = parser.parse_args()
    points = [p for p in read_points(data_path(FILE)) if known_architecture(p) is not None]
    passed_over = reasons(points)
    usable = [p for p in points if p not in passed_over and p.engine.startswith(arguments.engine)]
    print(f"{len(usable)} of {len(points)} points are learned from. Not: {told(passed_over)}.\n")
    seen: dict[Point, Floats] = {}
    by_model: dict[Point, Floats] = {}
    by_half: dict[Point, Floats] = {}
    entries = []
    for stack in sorted({p.stack for p in usable}):
        group = [p for p in usable if p.stack == stack]
        found = entries_of(group)
        models = left_out(group, lambda p: p.model, found)
        halves = left_out(group, lambda p: half((p.model, p.gpus, format_of(p))), found)
        by_model |= models
        by_half |= halves
        for form in [f for f in found if f]:
            own = [p for p in group if format_of(p) == form]
            seen |= dict(zip(own, errors(own, found[form]), strict=True))
            unseen = np.array([halves[p] for p in own if p in halves]).reshape(-1, 2)
            entries.append(calibration(form, own, found[form], unseen))
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
        write(entries)
    return 0


if __name__ == "__main__":
    sys.exit(main())
