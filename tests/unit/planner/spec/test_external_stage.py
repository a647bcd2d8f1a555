"""A stage that is somebody else's API, as a spec says it."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from pydantic import ValidationError

from cascadia.domain.errors import BadInput
from cascadia.domain.objective import GEARS
from cascadia.planner.problem.models import build_stages
from cascadia.planner.problem.read import read_problem
from cascadia.planner.spec.models import StageSpec
from cascadia.planner.tables.loads import cached_tokens
from cascadia_sim.prefix_cache.shared_blocks import of_sessions
from tests.unit.planner.specs import changed, write_inputs, write_spec

API = {
    "name": "frontier",
    "placement": "external",
    "model": "any-name",
    "usd_per_million_input_tokens": 2.5,
    "usd_per_million_output_tokens": 10.0,
    "latency": {"ttft_s": 0.6, "tpot_s": 0.012},
}


def spec(**told: Any) -> StageSpec:
    return StageSpec.model_validate({key: value for key, value in (API | told).items() if value is not None})


def test_its_times_are_medians_and_alike_where_no_more_is_said() -> None:
    stage = build_stages((spec(base_url="https://api.example.com/v1/"),), Path(), "cascade.yaml")[0]
    assert stage.external is not None
    assert stage.external.base_url == "https://api.example.com"
    assert (stage.external.tpot_p50_s, stage.external.tpot_p95_s) == (0.012, 0.012)
    assert stage.external.usd(1_000_000, 500_000) == 7.5


@pytest.mark.parametrize(
    "url",
    [
        "https://host.example/api?v=1",
        "api.example.com",
        "https://a b",
        "https://key@host",
        "ftp://host",
        "https://host:99999",
        "https://höst.example",
    ],
)
def test_an_address_that_a_router_would_refuse_is_refused_before_planning(url: str) -> None:
    with pytest.raises(ValidationError, match="no address that a router can ask"):
        spec(base_url=url)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_table_of_measured_answers_tells_both_quantiles(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read without pandas, which is an extra: a plain installation has none."""
    rows = [{"ttft_s": i / 100, "tpot_s": i / 1000} for i in range(1, 101)]
    path = tmp_path / f"api.{suffix}"
    if suffix == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif suffix == "jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        path.write_text("ttft_s,tpot_s\n" + "".join(f"{row['ttft_s']},{row['tpot_s']}\n" for row in rows))
    monkeypatch.setitem(sys.modules, "pandas", None)
    stage = build_stages((spec(latency={"table": path.name}),), tmp_path, "cascade.yaml")[0]
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


def test_a_name_like_a_path_names_no_file(tmp_path: Path) -> None:
    """What an API calls its model is not looked up."""
    write_inputs(tmp_path)
    document = changed("stages.2", {**API, "name": "large", "model": "../x/model.json"})
    assert read_problem(write_spec(tmp_path, document)).stages[2].model == "../x/model.json"


def test_a_plan_that_does_not_ask_it_is_replayed_where_sessions_share_prefixes(tmp_path: Path) -> None:
    """Such a plan knows neither an API nor an architecture of it."""
    write_inputs(tmp_path)
    document = changed("stages.2", {**API, "name": "large"})
    found = read_problem(write_spec(tmp_path, document))
    stages = (*found.stages[:2], replace(found.stages[2], external=None))
    w = found.workload
    shared = of_sessions(("a",) * len(w), w.input_tokens[0], w.output_tokens[0], None)
    workload = replace(w, blocks=shared)
    assert not cached_tokens(replace(found, stages=stages, workload=workload), 2).any()


def test_it_may_have_gears_beside_it(tmp_path: Path) -> None:
    """Asked for, they were once refused, and never planned by default."""
    write_inputs(tmp_path)
    document = changed("stages.2", {**API, "name": "large"})
    document["objective"] = {"minimize": "cost", "quality_min": 55, "latency_max_s": 20}
    assert read_problem(write_spec(tmp_path, document)).gears == GEARS
    document["gears"] = {"count": 3}
    assert read_problem(write_spec(tmp_path, document)).gears == 3
