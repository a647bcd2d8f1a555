"""Predicted beside measured mean TTFT and time per output token of real servers on H200 and B200.

Each measured point is a closed loop at fixed concurrency (`closed_loop.py`); the prediction is what the simulator
says of the same requests, with the calibration that `plan` would take, as its clients see it. Every
cell is told, also the bad ones; the totals are told with and without the points that cannot be compared
(`endtoend_usable.py`).

    CASCADIA_DATA=... python -m tests.benchmarks.fidelity.endtoend [--check]

`--check` also runs the replica simulator itself on the arrivals of every fiftieth point; it has to give the same
times to the picosecond.
"""

import argparse
import sys
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from statistics import median

import numpy as np

from cascadia_sim.calibration.calibration import Calibration
from cascadia_sim.calibration.catalogue import known_calibrations
from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.build import replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.timing import ReplicaTiming
from cascadia_sim.models.architecture import Architecture
from cascadia_sim.models.catalogue import UnknownModel, architecture
from tests.benchmarks.fidelity.closed_loop import Loop, Weights, run, seen_ms
from tests.benchmarks.fidelity.endtoend_points import FILE, Point, read_points
from tests.benchmarks.fidelity.endtoend_usable import reasons, told
from tests.data import data_path

ROOMY_BYTES = 10**13
MOST_SEQUENCES = 1024
BUDGET_TOKENS = {"vllm": 8192, "sglang": 16384}
# A mixture's own four-bit formats leave attention in BF16; those of dense models don't.
FOUR_BIT = {("fp4", True): "nvfp4-experts", ("fp4", False): "nvfp4", ("int4", True): "int4-experts"}
CHECKED_EACH = 50


@dataclass(frozen=True, slots=True)
class Prediction:
    point: Point
    dense: bool
    ttft_ms: float
    tpot_ms: float

    @property
    def ttft_error(self) -> float:
        return self.ttft_ms / self.point.ttft_ms - 1

    @property
    def tpot_error(self) -> float:
        return self.tpot_ms / self.point.tpot_ms - 1


def known_architecture(point: Point) -> Architecture | None:
    """None for a model that the catalogue lacks."""
    try:
        return architecture(point.model)
    except UnknownModel:
        return None


def loop_of(point: Point) -> Loop:
    """TRT-LLM is sized for one prompt beside the batch, on each of attention's data-parallel ranks."""
    concurrency, ranks = point.concurrency, point.attention_dp
    budget = ranks * BUDGET_TOKENS.get(point.engine, point.input_tokens + concurrency // ranks + 64)
    return Loop(
        point.input_tokens,
        point.output_tokens,
        concurrency,
        point.varied,
        budget,
        chunked=point.engine != "sglang",
    )


@cache
def weights_of(loop: Loop) -> Weights:
    return run(loop).weights


def kv_in_fp8(point: Point) -> bool:
    """The file does not say; contexts on these are read at more than the HBM's bandwidth if they are BF16."""
    return point.engine == "trtllm" or point.system.startswith("b200") or "gpt-oss" in point.model


@cache
def _of_stack(stack: tuple[str, str, str], precision: str) -> Calibration | None:
    """The catalogue's entry of an old version, which it would not choose by itself."""
    own = [c for c in known_calibrations() if (c.gpu, c.engine, c.engine_version) == stack]
    return next((c for c in own if c.precision == precision), None)


def engine_of(point: Point, model: Architecture) -> EngineConfig:
    own = "mxfp4" if model.quantization == "mxfp4" else None
    quantization = own or FOUR_BIT.get((point.precision, model.moe is not None), point.precision)
    return EngineConfig(
        engine=point.engine,
        calibration=_of_stack(point.stack, quantization),
        kv_cache_dtype="fp8" if kv_in_fp8(point) else "auto",
        quantization=quantization,
        max_num_seqs=MOST_SEQUENCES,
        attention_dp=point.attention_dp,
        enable_expert_parallel=point.expert_parallel,
        max_num_batched_tokens=loop_of(point).budget_tokens // point.attention_dp,
        enable_chunked_prefill=loop_of(point).chunked,
    )


@cache
def timing_of(model: Architecture, system: str, gpus: int, config: EngineConfig) -> ReplicaTiming:
    """Without the memory limit: the measured engines had their own, and the points that queued are left out."""
    roomy = replace(gpu(system), memory_bytes=ROOMY_BYTES)
    return replica_timing(model, roomy, tp=gpus, pp=1, config=config)


def predict(points: Iterable[Point]) -> list[Prediction]:
    """Of all points whose model is in the catalogue."""
    predictions = []
    for point in points:
        model = known_architecture(point)
        if model is None:
            continue
        config = engine_of(point, model)
        timing = timing_of(model, point.system, point.gpus, config)
        ttft_ms, tpot_ms = seen_ms(weights_of(loop_of(point)), timing, point.held_steps)
        predictions.append(Prediction(point, model.moe is None, ttft_ms, tpot_ms))
    return predictions


def same_as_simulator(point: Point, model: Architecture) -> bool:
    """Whether the simulator, given the loop's arrivals, has each first and last token at the same picosecond."""
    timing = timing_of(model, point.system, point.gpus, engine_of(point, model))
    timing = replace(timing, client_ps=0, client_steps=0.0)
    ran = run(loop_of(point), timing)
    simulated = simulate_replica(
        timing, ran.arrival_ps, ran.input_tokens, ran.output_tokens, np.zeros_like(ran.input_tokens)
    )
    return bool(
        (simulated.first_token_ps == ran.first_token_ps).all()
        and (simulated.finish_ps == ran.finish_ps).all()
    )


def rows(predictions: list[Prediction], key: Callable[[Prediction], Hashable]) -> list[tuple[str, ...]]:
    """One for each value of `key`: its name, points, median |error| and median ratio of TPOT, then of TTFT."""
    groups: dict[Hashable, list[Prediction]] = {}
    for p in predictions:
        groups.setdefault(key(p), []).append(p)
    return [
        (
            " ".join(map(str, name)) if isinstance(name, tuple) else str(name),
            str(len(group)),
            *(
                text
                for errors in ([p.tpot_error for p in group], [p.ttft_error for p in group])
                for text in (f"{median(map(abs, errors)):.1%}", f"{1 + median(errors):.2f}")
            ),
        )
        for name, group in sorted(groups.items(), key=str)
    ]


def table(title: str, body: list[tuple[str, ...]]) -> str:
    head = (title, "points", "TPOT median error", "TPOT ratio", "TTFT median error", "TTFT ratio")
    lines = [head, ("---",) * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _kind(p: Prediction) -> str:
    return "dense" if p.dense else "mixtures"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    points = read_points(data_path(FILE))
    predictions = predict(points)
    left_out = sorted({p.model for p in points} - {p.point.model for p in predictions})
    print(
        f"{len(predictions)} of {len(points)} points; not in the catalogue: {', '.join(left_out) or 'none'}\n"
    )
    print(table("system, engine, model, precision, GPUs", rows(predictions, lambda p: p.point.cell)), "\n")
    print(table("system, engine, precision", rows(predictions, lambda p: p.point.group)), "\n")
    print(table("all points", rows(predictions, _kind)), "\n")
    passed_over = reasons([p.point for p in predictions])
    comparable = [p for p in predictions if p.point not in passed_over]
    print(table("comparable points", rows(comparable, _kind)), "\n")
    print(f"Not comparable: {told(passed_over)}.")
    if not arguments.check:
        return 0
    checked = [(p.point, known_architecture(p.point)) for p in predictions[::CHECKED_EACH]]
    same = [same_as_simulator(point, model) for point, model in checked if model is not None]
    print(f"\nThe simulator on the same arrivals: {sum(same)} of {len(same)} points equal to the picosecond.")
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
