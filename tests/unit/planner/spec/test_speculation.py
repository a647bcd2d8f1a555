"""`stages[].speculation`: what is refused, and what a stage's engine is simulated with."""

import json
from pathlib import Path

import pytest

from cascadia.domain.errors import BadInput
from cascadia.planner.problem.models import build_stages
from cascadia.planner.spec.file import parse_spec
from cascadia_sim.iteration.speculation import Speculation

SPEC = """
stages: [{{name: only, model: {model}, {more}}}]
cluster: {{pools: [{{gpu: h100-sxm, nodes: 1}}]}}
judge: {{kind: certainty}}
workload: {{trace: t.csv}}
quality: {{table: q.csv}}
objective: {{minimize: latency}}
"""
BIG, SMALL = "meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.2-1B"


def speculation(more: str, model: str = BIG) -> Speculation | None:
    spec = parse_spec(SPEC.format(model=model, more=more), "cascade.yaml")
    (stage,) = build_stages(spec.stages, Path(), "cascade.yaml")
    assert stage.may_draft == stage.config.speculation
    return stage.config.speculation


def test_a_stage_is_simulated_with_what_its_spec_says() -> None:
    asked = f"speculation: {{method: draft_model, tokens: 4, acceptance: 0.7, model: {SMALL}}}"
    assert speculation(asked) == Speculation("draft_model", 4, 0.7, SMALL)
    assert speculation("speculation: {method: ngram, tokens: 3, acceptance: 0}") == Speculation(
        "ngram", 3, 0.0
    )


@pytest.mark.parametrize(
    ("more", "where", "told"),
    [
        ("speculation: {method: ngram, tokens: 0, acceptance: 0.5}", "tokens", "1"),
        ("speculation: {method: ngram, tokens: 17, acceptance: 0.5}", "tokens", "16"),
        ("speculation: {method: ngram, tokens: 4, acceptance: 1.0}", "acceptance", "less than 1"),
        ("speculation: {method: ngram, tokens: 4}", "acceptance", "missing"),
        ("speculation: {method: guess, tokens: 4, acceptance: 0.5}", "method", "ngram"),
        ("speculation: {method: eagle3, tokens: 4, acceptance: 0.5}", "speculation", "needs model"),
        (
            f"speculation: {{method: ngram, tokens: 4, acceptance: 0.5, model: {SMALL}}}",
            "speculation",
            "no effect",
        ),
        ("speculation: {method: ngram, tokens: 4, acceptance: 0.5, token: 4}", "token", "tokens"),
        (
            "engine: llama.cpp, quantization: q4_0, speculation: {method: ngram, tokens: 4, acceptance: 0.5}",
            "stages[0]",
            "use vllm or sglang",
        ),
        (
            "engine: sglang, attention_dp: 2, speculation: {method: ngram, tokens: 4, acceptance: 0.5}",
            "stages[0]",
            "does not start with attention_dp and speculation by ngram",
        ),
        (
            "speculation: {method: mtp, tokens: 1, acceptance: 0.8}",
            "stages[0].speculation.method",
            "write ngram, draft_model or eagle3",
        ),
        (
            f"speculation: {{method: draft_model, tokens: 4, acceptance: 0.5, model: {BIG}}}",
            "model",
            "smaller",
        ),
        (
            "speculation: {method: draft_model, tokens: 4, acceptance: 0.5, model: Qwen/Qwen2.5-0.5B-Instruct}",
            "speculation.model",
            "same family",
        ),
        (
            "speculation: {method: draft_model, tokens: 4, acceptance: 0.5, model: no/such}",
            "model",
            "no/such",
        ),
    ],
)
def test_bad_input_is_one_line_that_says_where_and_what_to_write(more: str, where: str, told: str) -> None:
    with pytest.raises(BadInput) as refused:
        speculation(more)
    line = str(refused.value)
    assert where in line
    assert told in line
    assert "\n" not in line


@pytest.mark.parametrize(
    "model", ["deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-R1-NVFP4", "Qwen/Qwen3-Next-80B-A3B-Instruct"]
)
def test_a_model_with_layers_of_its_own_may_draft_by_them(model: str) -> None:
    asked = "speculation: {method: mtp, tokens: 1, acceptance: 0.8}"
    assert speculation(asked, model) == Speculation("mtp", 1, 0.8)


@pytest.mark.parametrize(
    ("told", "may"),
    [({}, False), ({"num_nextn_predict_layers": 1}, True), ({"num_nextn_predict_layers": 0}, False)],
)
def test_a_config_says_how_many_such_layers_there_are(
    tmp_path: Path, told: dict[str, int], may: bool
) -> None:
    config = {
        "model_type": "qwen2",
        "num_hidden_layers": 4,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "intermediate_size": 128,
        "vocab_size": 1000,
        "max_position_embeddings": 4096,
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config | told))
    asked = "speculation: {method: mtp, tokens: 1, acceptance: 0.8}"
    if may:
        assert speculation(asked, str(path)) == Speculation("mtp", 1, 0.8)
    else:
        with pytest.raises(BadInput, match="no layers of its own that draft"):
            speculation(asked, str(path))
