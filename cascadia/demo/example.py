"""Input of the demo's plan: a spec for two CPU cores, with what was measured on the models it starts.

The quality table holds the answers of both models to the training questions, graded by their checks, with the judge's
scores from folds that it was not trained on. The calibrations are measured here, on this machine.
"""

import json
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from cascadia.demo.stages import CONTEXT, CORES, HEAD, PREFIX_TOKENS, SLOTS, STAGES
from cascadia.files.text import write_whole
from cascadia.planner.problem.quality_file import read_quality
from cascadia_traces.formats.writing import write_trace
from cascadia_traces.trace import Trace

SPEC_NAME, TRACE_NAME, QUALITY_NAME = "cascade.yaml", "questions.parquet", "quality.parquet"
TRACE_REQUESTS = 600
TRACE_SEED = 60


def example_files() -> tuple[str, ...]:
    return (SPEC_NAME, TRACE_NAME, QUALITY_NAME, *(calibration_name(stage.name) for stage in STAGES))


def calibration_name(stage: str) -> str:
    return f"calibration-{stage}.json"


def write_example(
    folder: Path, calibrations: Mapping[str, Path], weights: Mapping[str, Path], rate_rps: float
) -> Path:
    """The files of `example_files`; returns the spec's path. `calibrations` by stage, `weights` by catalogue name."""
    (folder / QUALITY_NAME).write_bytes(_shipped(QUALITY_NAME))
    write_trace(_trace(folder / QUALITY_NAME), folder / TRACE_NAME)
    for stage in STAGES:
        (folder / calibration_name(stage.name)).write_bytes(calibrations[stage.name].read_bytes())
    write_whole(folder / SPEC_NAME, _spec(rate_rps, weights))
    return folder / SPEC_NAME


def _shipped(name: str) -> bytes:
    return files("cascadia.demo").joinpath("data", name).read_bytes()


def _trace(quality: Path) -> Trace:
    """Poisson arrivals of questions of the table; the spec sets the rate."""
    table = read_quality(quality, tuple(stage.name for stage in STAGES))
    random = np.random.default_rng(TRACE_SEED)
    row = random.integers(len(table), size=TRACE_REQUESTS)
    return Trace(
        arrival_s=np.cumsum(random.exponential(1.0, TRACE_REQUESTS)),
        input_tokens=table.input_tokens[0, row].astype(np.int64),
        output_tokens=table.output_tokens[0, row].astype(np.int64),
        prompt_id=tuple(table.prompt_ids[each] for each in row),
        prefix_tokens=np.full(TRACE_REQUESTS, PREFIX_TOKENS, np.int64),
    )


def _spec(rate_rps: float, weights: Mapping[str, Path]) -> str:
    stages = "\n".join(
        f"  - {{name: {stage.name}, model: {stage.architecture}, engine: llama.cpp,\n"
        f"     quantization: {stage.quantization},\n"
        f"     weights: {json.dumps(str(stage.file(weights[stage.catalogue_name])))},\n"
        f"     max_num_seqs: {SLOTS}, max_model_len: {CONTEXT}, prefix_cache_hit_rate: 1.0,\n"
        f"     calibration: {calibration_name(stage.name)}}}"
        for stage in STAGES
    )
    return f"""\
# The example of `cascadia demo`: two small models on {CORES} cores. Change what you like here, then
#
#     cascadia plan cascade.yaml --out plan/
#
stages:
{stages}

# A "GPU" here is a core, which an engine of one thread has to itself.
cluster:
  pools: [{{gpu: cpu, nodes: 1, gpus_per_node: {CORES}}}]

# A MiniLM sentence encoder with a small head, on the router's machine.
judge: {{kind: embedding, model: {json.dumps(str(HEAD))}, latency_p50_s: 0.01, latency_p95_s: 0.03}}

# {TRACE_REQUESTS} arrivals of questions of the table; each stage begins all of its own with the same examples.
workload: {{trace: {TRACE_NAME}, rate_rps: {rate_rps:g}}}

# Both models' answers to questions of the demo's kinds, none of them among those asked.
quality: {{table: {QUALITY_NAME}, confidence: 0.95}}

# The median answer is to be as quick as can be, at this quality.
objective: {{minimize: latency, quantile: {QUANTILE:g}, quality_min: {QUALITY_MIN:g}}}
"""


QUANTILE = 0.5
QUALITY_MIN = 88.0
"""Of 100: above what the small model reaches alone, below what the large one does."""


def accuracy_alone() -> dict[str, float]:
    """Share of the table's questions, 0-1, that each stage answers rightly."""
    names = tuple(stage.name for stage in STAGES)
    with as_file(files("cascadia.demo").joinpath("data", QUALITY_NAME)) as path:
        table = read_quality(path, names)
    return {name: float(table.quality[row].mean()) / 100 for row, name in enumerate(names)}
