"""A spec and the files it names become one problem; every fault is told where the user can mend it."""

import json
from pathlib import Path
from typing import Any

import pytest

from cascadia.domain.errors import BadInput
from cascadia.domain.plan import ExitPromise
from cascadia.domain.quality import ScoredBy
from cascadia.planner.problem.read import read_problem
from tests.data import data_path
from tests.unit.planner.specs import STAGES, changed, valid_spec, write_inputs, write_spec


def told(folder: Path, document: dict[str, Any]) -> str:
    with pytest.raises(BadInput) as caught:
        read_problem(write_spec(folder, document))
    return str(caught.value).replace(str(folder), "FOLDER")


def test_a_problem_holds_all_that_the_spec_names(folder: Path) -> None:
    problem = read_problem(write_spec(folder, valid_spec()))
    assert [stage.name for stage in problem.stages] == list(STAGES)
    assert problem.stages[1].architecture.layers == 80
    assert problem.cluster.gpus == 32
    assert problem.cluster.pools[0].usd_per_gpu_hour == 2.67
    assert problem.workload.rate_rps == pytest.approx(6.0)
    assert problem.workload.output_tokens[2, 0] == 30  # 20 tokens by a stage that writes 1.5 times the mean
    assert (problem.objective.goal, problem.objective.quality_min) == ("latency", 60)
    assert problem.judge.config is not None
    assert problem.notes == ()


@pytest.mark.parametrize(
    ("written", "share"), [("3%", 0.03), (" 2.5 % ", 0.025), (0.1, 0.1), ("0.1", 0.1), (0, 0.0)]
)
def test_a_tolerance_is_a_percentage_or_a_number(written: object, share: float, folder: Path) -> None:
    problem = read_problem(write_spec(folder, changed("objective.within", written)))
    assert problem.objective.within == pytest.approx(share)


def test_without_a_word_the_tolerance_is_three_percent(folder: Path) -> None:
    assert read_problem(write_spec(folder, valid_spec())).objective.within == 0.03


def test_prices_and_names_of_pools_come_from_the_catalogue(folder: Path) -> None:
    pools = [
        {"gpu": "h100", "nodes": 1},
        {"gpu": "h100", "nodes": 2},
        {"gpu": "l4", "nodes": 1, "name": "tiny"},
    ]
    cluster = read_problem(write_spec(folder, changed("cluster.pools", pools))).cluster
    assert [pool.name for pool in cluster.pools] == ["h100-sxm", "h100-sxm-2", "tiny"]
    assert all(pool.usd_per_gpu_hour > 0 for pool in cluster.pools)


def test_a_model_can_be_the_path_of_its_config(folder: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "vocab_size": 1000,
        "max_position_embeddings": 4096,
    }
    (folder / "config.json").write_text(json.dumps(config))
    spec = changed("stages.0.model", "./config.json")
    problem = read_problem(write_spec(folder, spec))
    assert problem.stages[0].architecture.hidden == 256
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 5}))
    assert read_problem(write_spec(folder, spec)).digest != problem.digest


def test_the_digest_follows_contents_and_not_places(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    digest = read_problem(write_spec(folder, valid_spec())).digest
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for name in ("trace.csv", "quality.csv"):
        (elsewhere / name).write_text((folder / name).read_text())
    assert read_problem(write_spec(elsewhere, valid_spec())).digest == digest
    with (elsewhere / "trace.csv").open("a") as trace:
        trace.write("\n99,1,1")
    assert read_problem(write_spec(elsewhere, valid_spec())).digest != digest
    assert read_problem(write_spec(folder, changed("objective.quality_min", 61))).digest != digest


def test_what_a_spec_does_not_say_changes_no_digest(folder: Path) -> None:
    """As it was on 2026-11-28: a plan is known by it to be of its spec, also where specs can say more by now."""
    digest = "a52681e19509c4c4ce41c12e345f6aee11bfcfb934ddd67eed36551ce3cad771"
    assert read_problem(write_spec(folder, valid_spec())).digest == digest


def test_what_is_assumed_of_an_external_judge_is_said(folder: Path) -> None:
    problem = read_problem(write_spec(folder, changed("judge", {"kind": "external"})))
    assert (problem.judge.kind, problem.judge.placement) == ("llm", "external")
    assert problem.judge.latency_p95_s == 1.5
    assert len(problem.notes) == 2


def test_a_judge_on_the_router_reads_no_prompt_of_its_own(folder: Path) -> None:
    judge = read_problem(write_spec(folder, changed("judge", {"kind": "embedding"}))).judge
    assert (judge.placement, judge.architecture, judge.prompt_tokens) == ("router", None, 0)


CASES = {
    "an unknown model": (
        changed("stages.0.model", "meta-llama/Llama-3.1-8B-Instrct"),
        "cascade.yaml: stages[0].model: unknown model 'meta-llama/Llama-3.1-8B-Instrct'; "
        "did you mean meta-llama/Llama-3.1-8B-Instruct",
    ),
    "an unknown judge": (
        changed("judge.model", "nobody/nothing"),
        "cascade.yaml: judge.model: unknown model 'nobody/nothing'; ",
    ),
    "an unknown GPU": (
        changed("cluster.pools.0.gpu", "h100-smx"),
        "cascade.yaml: cluster.pools[0].gpu: unknown GPU 'h100-smx'; did you mean h100-sxm",
    ),
    "a config that is not there": (
        changed("stages.0.model", "./no.json"),
        "cascade.yaml: stages[0].model: FOLDER/no.json: cannot be read (No such file or directory); ",
    ),
    "a context beyond the model's": (
        changed("stages.0.max_model_len", 10**6),
        "cascade.yaml: stages[0].max_model_len: 1000000 is beyond the model's own context of 131072 tokens",
    ),
    "no trace": (changed("workload.trace", "no.csv"), "FOLDER/no.csv: "),
    "no table": (changed("quality.table", "no.csv"), "FOLDER/no.csv: "),
    "an unknown format": (
        changed("workload.format", "xml"),
        "cascade.yaml: workload.format: unknown format 'xml'; ",
    ),
}


@pytest.mark.parametrize(("document", "line"), CASES.values(), ids=CASES.keys())
def test_a_fault_is_told_where_it_can_be_mended(folder: Path, document: dict[str, Any], line: str) -> None:
    assert told(folder, document).startswith(line)


def test_a_table_that_lacks_a_stage_is_told(folder: Path) -> None:
    lines = (folder / "quality.csv").read_text().splitlines()
    (folder / "quality.csv").write_text("\n".join(line for line in lines if ",large," not in line))
    assert "large" in told(folder, valid_spec())


@pytest.mark.data
def test_a_real_trace_fits_models_of_short_context(folder: Path) -> None:
    spec = changed("workload", {"trace": str(data_path("traces/azure_2023_conv.csv"))})
    spec["stages"][0]["model"] = "google/gemma-2b-it"
    problem = read_problem(write_spec(folder, spec))
    assert len(problem.workload) == 19_366
    totals = problem.workload.input_tokens[0] + problem.workload.output_tokens[0]
    assert totals.max() == 8192
    (note,) = problem.notes
    assert note.endswith("exceed the context of stage 'small' (8,192 tokens): their inputs are cut to fit it")


def test_scores_of_ten_are_planned_as_of_a_hundred_where_the_scale_is_named_and_else_refused(
    folder: Path,
) -> None:
    whole = read_problem(write_spec(folder, valid_spec())).quality
    table = folder / "quality.csv"
    head, *rows = table.read_text().splitlines()
    cells = [row.split(",") for row in rows]
    tenths = [[p, stage, str(float(s) / 10), q, *rest] for p, stage, s, q, *rest in cells]
    table.write_text("\n".join([head, *map(",".join, tenths)]))
    assert "column 'score' never exceeds 10, and no scale is named" in told(folder, valid_spec())
    problem = read_problem(write_spec(folder, changed("quality.scale", 10)))
    assert problem.quality.score == pytest.approx(whole.score)
    assert problem.quality.quality == pytest.approx(whole.quality)
    assert problem.quality.scored_by == ScoredBy(scale=10)


def test_the_budget_of_ramps_stands_in_a_spec_and_is_for_whoever_trains_them(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    table = ["prompt_id,stage,score,input_tokens,output_tokens"]
    for name in ("small", "small@9", *STAGES[1:]):
        table += [f"p{i},{name},{50 + i},100,60" for i in range(20)]
    (tmp_path / "quality.csv").write_text("\n".join(table))
    document = valid_spec()
    document["stages"][0]["exits"] = [{"thinking_tokens": 9}]
    document["exits"] = {"risk": "1%", "confidence": 0.9, "ramp_budget": "2%", "shadow": "10%"}
    problem = read_problem(write_spec(tmp_path, document))
    assert problem.exits == ExitPromise(0.01, 0.9, 0.1)
    (told,) = (note for note in problem.notes if "ramp_budget" in note)
    assert "`--ramp-budget 0.02` of `cascadia exits train`" in told
    document["exits"]["ramp_budget"] = "200%"
    with pytest.raises(BadInput, match=r"exits\.ramp_budget: must be at most 1"):
        read_problem(write_spec(tmp_path, document))
