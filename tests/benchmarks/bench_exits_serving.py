"""What exits in force do to answer times and work, in passes of a real model: CPU time, in paired runs.

    python -m tests.benchmarks.bench_exits_serving [--pairs N]

The setting is the one that a certificate of risk 1 %, confidence 0.9 puts in force on texts that come before those
timed. Time to an answer is the CPU time of the pass up to its release. Each pair runs the whole model and its exits on
the same batches, one after the other.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from cascadia.exits.adjust import Budget
from cascadia.exits.certify import Promise
from cascadia.exits.controller import Controller
from cascadia.exits.readings import Floats, Ints
from cascadia.ramps.cuts import cuts
from cascadia.ramps.measure import measured
from cascadia.ramps.passes import Passes
from cascadia.ramps.texts import typical
from cascadia.ramps.train import fit, look, readings
from cascadia_judge.encoder.encoder import Encoder
from tests.benchmarks.exits_rig import FOR_HEAD, FOR_PATH, FOR_RAMPS, batches, classifier, descriptions
from tests.benchmarks.exits_ways import RISK, Setup, planned
from tests.benchmarks.judge_vectors import encoder_folder
from tests.benchmarks.report_table import markdown

if TYPE_CHECKING:
    from onnx import ModelProto

CERTIFIED_ON, TIMED = 3000, 256
SIZES = (1, 4, 16)
BUDGET = 0.02


def int8(model: "ModelProto") -> "ModelProto":
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with TemporaryDirectory() as folder:
        before, after = Path(folder) / "a.onnx", Path(folder) / "b.onnx"
        onnx.save(model, before)
        quantize_dynamic(
            before, after, weight_type=QuantType.QInt8, per_channel=True, op_types_to_quantize=["MatMul"]
        )
        return onnx.load(after)


def in_force(model: "ModelProto", encoder: Encoder, texts: Sequence[str]) -> tuple[Passes, Floats, str]:
    """Passes at the active ramps, and thresholds of the setting that was certified."""
    places = cuts(model)
    ramps = fit(places, look(model, places, batches(encoder, texts[:FOR_RAMPS])))
    known = readings(ramps, look(model, places, batches(encoder, texts[FOR_RAMPS:])))
    sizes = [next(batches(encoder, typical(texts, size), size)) for size in SIZES]
    timings = measured(model, ramps, sizes)
    setup = Setup(timings[0], Budget(timings, BUDGET), known.take(slice(FOR_PATH)))
    active, path = planned(setup)
    controller, seen = Controller(Promise(RISK), path), known.take(slice(FOR_PATH, None)).at(active)
    for i in range(len(seen)):
        controller.feed(seen.labels[i], seen.doubts[i], int(seen.final[i]))
    told = f"{len(places)} places, ramps behind {', '.join(f'{places[at].share:.0%}' for at in active)}"
    chosen = [ramps[at] for at in active]
    return Passes.of(model, chosen), controller.thresholds, told


def timed(passes: Passes, thresholds: Floats, given: Sequence[Any], shadow: float) -> tuple[Floats, float]:
    """Seconds to each answer, and of the whole work."""
    answers: list[float] = []
    rng, start_all = np.random.default_rng(1), time.thread_time()
    for batch in given:
        start = time.thread_time()

        def release(rows: Ints, _: Any, __: int, start: float = start) -> None:
            answers.extend([time.thread_time() - start] * len(rows))

        n = len(next(iter(batch.values())))
        passes.run(batch, thresholds, rng.random(n) < shadow, release)
    return np.array(answers), time.thread_time() - start_all


def whole(passes: Passes, given: Sequence[Any]) -> tuple[Floats, float]:
    answers: list[float] = []
    start_all = time.thread_time()
    for batch in given:
        start = time.thread_time()
        found = passes.run_whole(batch)
        answers.extend([time.thread_time() - start] * len(found))
    return np.array(answers), time.thread_time() - start_all


def rows_of(
    name: str, model: "ModelProto", encoder: Encoder, texts: Sequence[str], pairs: int
) -> list[list[str]]:
    before = FOR_RAMPS + FOR_PATH + CERTIFIED_ON
    passes, thresholds, told = in_force(model, encoder, texts[:before])
    print(f"{name}: {told}")
    some = texts[before : before + TIMED]
    rows = []
    for size in SIZES:
        given = list(batches(encoder, some, size))
        off = np.zeros_like(thresholds)
        same = all(
            np.array_equal(passes.run(b, off, np.full(len(b["ids"]), drawn)).chances, passes.run_whole(b))
            for b in given
            for drawn in (False, True)
        )
        found = []
        for _ in range(pairs):
            (base, work), (all_fed, _), (_, tenth) = (
                whole(passes, given),
                timed(passes, thresholds, given, 1.0),
                timed(passes, thresholds, given, 0.1),
            )
            half, late = (np.quantile(all_fed, q) / np.quantile(base, q) - 1 for q in (0.5, 0.95))
            found.append((half, late, all_fed.mean() / base.mean() - 1, tenth / work - 1))
        middle = np.median(np.array(found), axis=0)
        rows.append([name, str(size), *(f"{value:+.1%}" for value in middle), "yes" if same else "no"])
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20, help="paired runs at each batch size")
    options = parser.parse_args()
    folder = encoder_folder(None)
    encoder, known = Encoder.read(folder), descriptions()
    model = classifier(folder, encoder, known.texts[:FOR_HEAD], known.truth[:FOR_HEAD])
    rows = []
    for name, one in (("fp32", model), ("int8", int8(model))):
        rows += rows_of(name, one, encoder, known.texts[FOR_HEAD:], options.pairs)
    columns = (
        "precision",
        "batch",
        "median answer",
        "p95 answer",
        "mean answer",
        "work, a tenth fed back",
        "bit-identical off",
    )
    print("\n" + markdown(columns, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
