"""The bundled example: a spec with its trace and quality table, all generated, so that no data need be shipped."""

from pathlib import Path

from cascadia.demo.plan_example_quality import example_quality
from cascadia.files.text import write_whole
from cascadia.planner.problem.quality_file import write_quality
from cascadia_traces.formats.writing import write_trace
from cascadia_traces.generate.samples import chat_trace

SPEC_NAME = "cascade.yaml"
TRACE_NAME = "chat.parquet"
QUALITY_NAME = "quality.parquet"
EXAMPLE_FILES = (SPEC_NAME, TRACE_NAME, QUALITY_NAME)


def write_example(folder: Path) -> None:
    """The files of `EXAMPLE_FILES` in `folder`, always the same."""
    write_trace(chat_trace(), folder / TRACE_NAME)
    write_quality(example_quality(), folder / QUALITY_NAME)
    write_whole(folder / SPEC_NAME, SPEC)


SPEC = """\
# The example of `cascadia demo --plan-only`. Change what you like here, then
#
#     cascadia plan cascade.yaml --out plan/
#
# Paths are relative to this file. `cascadia schema spec` prints all keys.

# The cascade, from small to large. An answer that the judge scores below the stage's threshold goes on to the
# next one; the planner chooses the thresholds, and which of the stages are worth deploying at all.
stages:
  - {name: small, model: meta-llama/Llama-3.1-8B-Instruct}
  - {name: medium, model: meta-llama/Llama-3.1-70B-Instruct}
  - {name: large, model: meta-llama/Llama-3.1-405B-Instruct, quantization: fp8}

# What there is to deploy on: 32 GPUs. The catalogue's price holds unless usd_per_gpu_hour says otherwise.
cluster:
  pools:
    - {gpu: h100-sxm, nodes: 4, gpus_per_node: 8}

# Who scores the answers. It takes GPUs too, and the plan says how many.
judge:
  kind: llm
  model: meta-llama/Llama-3.1-8B-Instruct
  placement: self-hosted

# When requests come and how long they are: 6,000 made-up requests of a bursty chat, here 24 a second.
workload:
  trace: chat.parquet
  rate_rps: 24

# What the answers are worth: 1,000 made-up prompts, each answered by every stage. `score` is what the judge says,
# `quality` what counts; they agree only roughly, as they do in life.
quality:
  table: quality.parquet
  confidence: 0.95      # quality_min holds with this probability, after all the searching for thresholds

# Or {maximize: quality, latency_max_s: 20}, or {minimize: cost, quality_min: 86, latency_max_s: 20}.
objective:
  minimize: latency
  quantile: 0.95
  quality_min: 86
"""
