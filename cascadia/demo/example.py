"""Input of the demo's plan: a spec for two CPU cores, with what was measured on the models it starts.

The quality table holds the answers of both models to the training questions, graded by their checks, with the judge's
scores from folds that it was not trained on. The calibrations are measured here, on this machine.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from cascadia.demo import api
from cascadia.demo.stages import (
    CONTEXT,
    CORES,
    HEAD,
    KEY_ENV,
    LARGE,
    PREFIX_TOKENS,
    SLOTS,
    SMALL,
    STAGES,
    Stage,
)
from cascadia.domain.quality import QualityTable
from cascadia.domain.workload import Floats, Ints
from cascadia.files.text import write_whole
from cascadia.planner.problem.quality_file import read_quality
from cascadia_traces.formats.writing import write_trace
from cascadia_traces.trace import Trace

SPEC_NAME, TRACE_NAME, QUALITY_NAME = "cascade.yaml", "questions.parquet", "quality.parquet"
TIMES_NAME = "api.csv"
TRACE_REQUESTS = 600
TRACE_SEED = 60


@dataclass(frozen=True, slots=True)
class Api:
    """Address of the large model as somebody else's API, and what was measured of it."""

    url: str
    times: api.Times


def example_files(elsewhere: Api | None = None) -> tuple[str, ...]:
    measured = (calibration_name(stage.name) for stage in _ours(elsewhere))
    return (SPEC_NAME, TRACE_NAME, QUALITY_NAME, *measured, *([TIMES_NAME] if elsewhere else []))


def _ours(elsewhere: Api | None) -> tuple[Stage, ...]:
    return STAGES if elsewhere is None else (SMALL,)


def calibration_name(stage: str) -> str:
    return f"calibration-{stage}.json"


def write_example(
    folder: Path,
    calibrations: Mapping[str, Path],
    weights: Mapping[str, Path],
    rate_rps: float,
    elsewhere: Api | None = None,
) -> Path:
    """The files of `example_files`; returns the spec's path. `calibrations` by stage, `weights` by catalogue name."""
    (folder / QUALITY_NAME).write_bytes(_shipped(QUALITY_NAME))
    write_trace(_trace(folder / QUALITY_NAME), folder / TRACE_NAME)
    for stage in _ours(elsewhere):
        (folder / calibration_name(stage.name)).write_bytes(calibrations[stage.name].read_bytes())
    if elsewhere is not None:
        write_whole(folder / TIMES_NAME, api.times_csv(elsewhere.times))
    write_whole(folder / SPEC_NAME, _spec(rate_rps, weights, elsewhere))
    return folder / SPEC_NAME


def _shipped(name: str) -> bytes:
    return files("cascadia.demo").joinpath("data", name).read_bytes()


def _trace(quality: Path) -> Trace:
    """Poisson arrivals of questions of the table; the spec sets the rate."""
    table = read_quality(quality, tuple(stage.name for stage in STAGES))
    random = np.random.default_rng(TRACE_SEED)
    row = random.integers(len(table), size=TRACE_REQUESTS)
    return trace_of(table, row, np.cumsum(random.exponential(1.0, TRACE_REQUESTS)))


def trace_of(table: QualityTable, row: Ints, arrival_s: Floats) -> Trace:
    """Questions in rows [n] of the table, asked at `arrival_s` [n]."""
    return Trace(
        arrival_s=arrival_s,
        input_tokens=table.input_tokens[0, row].astype(np.int64),
        output_tokens=table.output_tokens[0, row].astype(np.int64),
        prompt_id=tuple(table.prompt_ids[each] for each in row),
        prefix_tokens=np.full(len(row), PREFIX_TOKENS, np.int64),
    )


def _spec(rate_rps: float, weights: Mapping[str, Path], elsewhere: Api | None) -> str:
    stages = "\n".join(
        f"  - {{name: {stage.name}, model: {stage.architecture}, engine: llama.cpp,\n"
        f"     quantization: {stage.quantization},\n"
        f"     weights: {json.dumps(str(stage.file(weights[stage.catalogue_name])))},\n"
        f"     max_num_seqs: {SLOTS}, max_model_len: {CONTEXT}, prefix_cache_hit_rate: 1.0,\n"
        f"     calibration: {calibration_name(stage.name)}}}"
        for stage in _ours(elsewhere)
    )
    cores, price = CORES, ""
    what, objective = f"two small models on {CORES} cores", _QUICK
    if elsewhere is not None:
        cores, price = 1, f", usd_per_gpu_hour: {api.USD_PER_CORE_HOUR:g}"
        what, objective = "a small model on a core of ours, and an API behind it", _CHEAP
        stages += _api_stage(elsewhere)
    return f"""\
# The example of `cascadia demo`: {what}. Change what you like here, then
#
#     cascadia plan cascade.yaml --out plan/
#
stages:
{stages}

# A "GPU" here is a core, which an engine of one thread has to itself.
cluster:
  pools: [{{gpu: cpu, nodes: 1, gpus_per_node: {cores}{price}}}]

# A MiniLM sentence encoder with a small head, on the router's machine.
judge: {{kind: embedding, model: {json.dumps(str(HEAD))}, latency_p50_s: 0.01, latency_p95_s: 0.03}}

# {TRACE_REQUESTS} arrivals of questions of the table; each stage begins all of its own with the same examples.
workload: {{trace: {TRACE_NAME}, rate_rps: {rate_rps:g}}}

# Both models' answers to questions of the demo's kinds, none of them among those asked.
quality: {{table: {QUALITY_NAME}, confidence: 0.95}}

{objective}
"""


def _api_stage(elsewhere: Api) -> str:
    return (
        f"\n  - {{name: {LARGE.name}, placement: external, model: {LARGE.name},\n"
        f"     base_url: {json.dumps(elsewhere.url)}, api_key_env: {KEY_ENV},\n"
        f"     usd_per_million_input_tokens: {api.USD_PER_MILLION_INPUT_TOKENS:g},"
        f" usd_per_million_output_tokens: {api.USD_PER_MILLION_OUTPUT_TOKENS:g},\n"
        f"     requests_per_minute: {api.REQUESTS_PER_MINUTE}, latency: {{table: {TIMES_NAME}}}}}"
    )


QUANTILE = 0.5
QUALITY_MIN = 88.0
"""Of 100: above what the small model reaches alone, below what the large one does."""

_QUICK = f"""\
# The median answer is to be as quick as can be, at this quality.
objective: {{minimize: latency, quantile: {QUANTILE:g}, quality_min: {QUALITY_MIN:g}}}"""
_CHEAP = f"""\
# As little as can be is to be paid, for the core and for tokens, at this quality.
objective: {{minimize: cost, quantile: {QUANTILE:g}, quality_min: {QUALITY_MIN:g}}}"""


def accuracy_alone() -> dict[str, float]:
    """Share of the table's questions, 0-1, that each stage answers rightly."""
    names = tuple(stage.name for stage in STAGES)
    with as_file(files("cascadia.demo").joinpath("data", QUALITY_NAME)) as path:
        table = read_quality(path, names)
    return {name: float(table.quality[row].mean()) / 100 for row, name in enumerate(names)}
