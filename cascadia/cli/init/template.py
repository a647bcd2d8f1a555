"""The text of a new spec, with a comment beside whatever a first reader may wonder about."""

import json
import re
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

_PLAIN = re.compile(r"[A-Za-z.][A-Za-z0-9._/-]*")
_NOT_TEXT = {"null", "true", "false", ".nan", ".inf"}


class Model(NamedTuple):
    """A stage's name and its model, a Hugging Face id or the path of a config.json."""

    name: str
    model: str


class Api(NamedTuple):
    """A stage that is somebody else's API: dollars a million tokens read and written, median seconds to the first
    token and for each further one; `per_minute` None: no limit."""

    name: str
    model: str
    usd_in: float
    usd_out: float
    ttft_s: float
    tpot_s: float
    per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers to what `cascadia init` asks. `models` go from small to large. `preset` None: no service levels."""

    models: tuple[Model | Api, ...]
    gpu: str
    nodes: int
    _: KW_ONLY
    gpus_per_node: int
    judge: str
    trace: str
    quality_table: str
    quality_min: float | None
    rate_rps: float | None = None
    goal: str = "latency"
    preset: str | None = None


def spec_text(answers: Answers) -> str:
    """A spec that `read_spec` accepts."""
    stages = "\n".join(_stage(model) for model in answers.models)
    return f"""\
# What to plan: `cascadia plan THIS_FILE --out plan/`. All keys: `cascadia schema spec`.
# Paths are relative to this file.

# The cascade, from small to large. An answer that the judge scores too low goes on to the next stage.
# model: a Hugging Face id, or the path of a config.json. Also: engine (vllm, sglang, trtllm or llama.cpp),
# quantization (fp8, awq-int4, gptq-int4, int8, mxfp4; q8_0, q4_k_m and others for llama.cpp), weights,
# max_model_len, max_num_seqs, gpu_memory_utilization, ...
stages:
{stages}

# What there is to deploy on; the planner may leave GPUs free.
cluster:
  pools:
    - gpu: {_text(answers.gpu)}
      nodes: {answers.nodes}
      gpus_per_node: {answers.gpus_per_node}
      # usd_per_gpu_hour: 2.5   # the catalogue's price where absent

{_judge(answers.judge)}

# When requests come and how long they are: Parquet, CSV or JSONL with arrival_s, input_tokens and
# output_tokens, or a public format (Azure, Mooncake, BurstGPT, OpenAI logs). `cascadia trace generate`
# makes one up.
workload:
  trace: {_text(answers.trace)}
  {_rate(answers.rate_rps)}

# How good each stage's answers are: one row per prompt and stage with prompt_id, stage, score (0-100, what
# the judge says), optionally quality (0-100, what counts), input_tokens and output_tokens.
quality:
  table: {_text(answers.quality_table)}
  confidence: 0.95   # quality_min holds with this probability for prompts like those in the table

# Or {{maximize: quality, latency_max_s: 20}}, or {{minimize: cost, quality_min: 85, latency_max_s: 20}}.
objective:
{_objective(answers)}
"""


def _objective(answers: Answers) -> str:
    lines = ["maximize: quality" if answers.goal == "quality" else f"minimize: {answers.goal}"]
    lines += ["quantile: 0.95"] if answers.goal == "latency" else []
    lines += [] if answers.quality_min is None else [f"quality_min: {answers.quality_min:g}"]
    if answers.preset is not None:
        lines.append(f"preset: {answers.preset}   # service levels; `levels` says your own")
    return "\n".join(f"  {line}" for line in lines)


def _stage(model: Model | Api) -> str:
    if isinstance(model, Api):
        limit = "" if model.per_minute is None else f"\n    requests_per_minute: {model.per_minute}"
        return (
            f"  - name: {_text(model.name)}\n    placement: external\n    model: {_text(model.model)}\n"
            f"    usd_per_million_input_tokens: {model.usd_in:g}\n"
            f"    usd_per_million_output_tokens: {model.usd_out:g}{limit}\n"
            f"    latency: {{ttft_s: {model.ttft_s:g}, tpot_s: {model.tpot_s:g}}}\n"
            "    # base_url: https://HOST, and api_key_env: the variable that holds the key, are for the router"
        )
    return f"  - name: {_text(model.name)}\n    model: {_text(model.model)}"


def _judge(judge: str) -> str:
    if judge in ("embedding", "certainty"):
        how = f"# Who scores answers. {judge} runs on the router's CPU and takes no GPU."
        return f"{how}\njudge:\n  kind: {judge}"
    how = "# Who scores answers. Self-hosted, it takes GPUs of the plan. Or kind: embedding, certainty."
    return f"{how}\njudge:\n  kind: llm\n  model: {_text(judge)}\n  placement: self-hosted"


def _rate(rate_rps: float | None) -> str:
    return (
        "# rate_rps: 6   # the trace's own rate where absent"
        if rate_rps is None
        else f"rate_rps: {rate_rps:g}"
    )


def _text(value: str) -> str:
    """`value` as YAML text, quoted where it could be taken for something else."""
    if _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    return json.dumps(value, ensure_ascii=False)
