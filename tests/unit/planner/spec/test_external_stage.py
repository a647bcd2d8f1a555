"""A stage that is somebody else's API, as a spec says it."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from cascadia.domain.errors import BadInput
from cascadia.planner.problem.models import build_stages
from cascadia.planner.spec.models import StageSpec

API = {
    "name": "frontier",
    "placement": "external",
    "model": "any-name",
    "usd_per_million_input_tokens": 2.5,
    "usd_per_million_output_tokens": 10.0,
    "latency": {"ttft_s": 0.6, "tpot_s": 0.012},
}


def spec(**changed: Any) -> StageSpec:
    return StageSpec.model_validate(
        {key: value for key, value in (API | changed).items() if value is not None}
    )


def test_its_times_are_medians_and_alike_where_no_more_is_said() -> None:
    stage = build_stages((spec(base_url="https://api.example.com/v1/"),), Path(), "cascade.yaml")[0]
    assert stage.external is not None
    assert stage.external.base_url == "https://api.example.com"
    assert (stage.external.tpot_p50_s, stage.external.tpot_p95_s) == (0.012, 0.012)
    assert stage.external.usd(1_000_000, 500_000) == 7.5


def test_a_table_of_measured_answers_tells_both_quantiles(tmp_path: Path) -> None:
    rows = "\n".join(f"{i / 100},{i / 1000}" for i in range(1, 101))
    (tmp_path / "api.csv").write_text(f"ttft_s,tpot_s\n{rows}\n")
    stage = build_stages((spec(latency={"table": "api.csv"}),), tmp_path, "cascade.yaml")[0]
    assert stage.external is not None
    assert (stage.external.ttft_p50_s, stage.external.ttft_p95_s) == (0.5, 0.95)
    assert (stage.external.tpot_p50_s, stage.external.tpot_p95_s) == (0.05, 0.095)


@pytest.mark.parametrize("text", ["ttft_s\n1\n", "ttft_s,tpot_s\n1,fast\n", None])
def test_a_table_that_tells_no_times_is_named(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "api.csv").write_text(text)
    with pytest.raises(BadInput, match=r"stages\[0\]\.latency\.table"):
        build_stages((spec(latency={"table": "api.csv"}),), tmp_path, "cascade.yaml")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"latency": None}, "needs latency"),
        ({"usd_per_million_output_tokens": None}, "needs usd_per_million_output_tokens"),
        ({"engine": "vllm"}, "engine has no effect on a stage that is external"),
        ({"placement": "self-hosted"}, "write placement: external"),
        ({"latency": {"ttft_s": 1.0}}, "needs ttft_s and tpot_s, or a table"),
        ({"latency": {"ttft_s": 1.0, "tpot_s": 0.1, "table": "t.csv"}}, "keep one of them"),
        ({"latency": {"ttft_s": 1.0, "tpot_s": 0.1, "ttft_p95_s": 0.5}}, "swap them"),
        ({"api_key_env": "sk-not-a-name"}, "api_key_env"),
    ],
)
def test_what_makes_no_sense_is_refused(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        spec(**changed)
