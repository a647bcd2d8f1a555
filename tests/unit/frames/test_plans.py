"""A plan in Python is the command's plan, as tables; its public names are those that the reference tells."""

import inspect
from pathlib import Path

import click
import pytest

import cascadia
from cascadia.cli.main import main
from cascadia.domain import plan as domain
from cascadia.files.plan_file import write_plan
from cascadia.frames.plans import Plan
from cascadia.planner.problem.quality_file import write_quality
from cascadia_traces.formats.writing import write_trace
from tests.data import ROOT
from tests.unit.planner.problems import rising_table, traffic

SPEC = """
stages:
  - {name: small, model: HuggingFaceTB/SmolLM2-135M, engine: llama.cpp, quantization: q8_0, max_num_seqs: 2}
  - {name: large, model: Qwen/Qwen2.5-0.5B-Instruct, engine: llama.cpp, quantization: q8_0, max_num_seqs: 2}
cluster: {pools: [{gpu: cpu, nodes: 1, gpus_per_node: 2, usd_per_gpu_hour: 0.04}]}
judge: {kind: embedding, latency_p50_s: 0.01, latency_p95_s: 0.03}
workload: {trace: t.parquet, rate_rps: 0.05, lengths: table}
quality: {table: q.parquet}
objective: {minimize: latency, quantile: 0.5, quality_min: 30}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    write_trace(traffic(60), tmp_path / "t.parquet")
    table = rising_table(2, prompts=200)
    write_quality(table, tmp_path / "q.parquet")
    names = dict(zip(table.stages, ("small", "large"), strict=True))
    text = SPEC
    for theirs, ours in names.items():
        text = text.replace(f"name: {ours}", f"name: {theirs}")
    (tmp_path / "cascade.yaml").write_text(text)
    return tmp_path / "cascade.yaml"


def test_a_spec_becomes_a_plan_with_what_stands_in_for_its_values(spec: Path) -> None:
    heard: list[str] = []
    plan = cascadia.plan(spec, gpus=1, quality_min=20, gears=1, progress=heard.append)
    assert plan.plan.cluster.gpus == 1
    assert plan.plan.objective.quality_min == 20
    assert plan.quality >= 20
    assert plan.gpus == 1
    assert heard
    hurried = cascadia.plan(spec, gpus=1, quality_min=20, gears=1, time_limit_s=1e-9)
    assert hurried.notes[-1].startswith("the time limit left out: ")
    assert cascadia.plan(spec, gpus=1, quality_min=20, gears=1, time_limit_s=float("inf")).notes == plan.notes
    with pytest.raises(cascadia.BadInput, match="time_limit_s: 0 is no number above 0"):
        cascadia.plan(spec, time_limit_s=0)
    with pytest.raises(cascadia.Infeasible) as none:
        cascadia.plan(spec, quality_min=100)
    assert none.value.nearest


def test_a_written_plan_reads_back_and_has_no_spec_to_compare_on(made: domain.Plan, tmp_path: Path) -> None:
    write_plan(made, tmp_path / "plan.json")
    write_trace(traffic(300), tmp_path / "t.parquet")
    plan = cascadia.read_plan(tmp_path)
    assert plan.plan == made
    frame = plan.to_frame()
    assert frame["gpus"].sum() == plan.gpus
    assert frame["accepted"].sum() == pytest.approx(1)
    assert plan.thresholds == {made.stages[0].name: made.thresholds[0]}
    whole = cascadia.simulate(tmp_path, tmp_path / "t.parquet")
    assert plan.simulate(tmp_path / "t.parquet").equals(whole)
    plan.write(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "plan.json").read_text()
    with pytest.raises(cascadia.BadInput, match=r"no spec to compare on"):
        plan.compare()


def test_the_reference_tells_every_public_name_argument_and_column(made: domain.Plan, tmp_path: Path) -> None:
    from cascadia.frames.comparisons import COLUMNS

    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    for name in set(cascadia.__all__) - {"__version__"}:
        assert name in page, name
        thing = getattr(cascadia, name)
        if inspect.isfunction(thing):
            arguments = inspect.signature(thing).parameters
            assert all(argument in page for argument in arguments), name
    for name in (*vars(Plan), *Plan.__dataclass_fields__, *COLUMNS):
        assert name.startswith("_") or name in page, name
    write_plan(made, tmp_path / "plan.json")
    assert all(f"`{column}`" in page for column in cascadia.read_plan(tmp_path).to_frame())


ONLY_COMMANDS = {
    "out",
    "force",
    "no_report",
    "output",
    "slo_s",
    "plots",
    "explain",
    "decoding",
    "context_tokens",
}
"""Options that write or show a result, or stop before there is one."""
AS = {"trace_file": "trace", "trace_format": "format"}


@pytest.mark.parametrize("name", ["plan", "simulate"])
def test_what_a_command_can_be_told_its_function_can_be_told(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    told = {AS.get(str(option.name), option.name) for option in command.params}
    told -= {*ONLY_COMMANDS, "prefill_tokens", "as_json", "quiet", "json"}
    assert told <= set(inspect.signature(getattr(cascadia, name)).parameters)
    if name == "simulate":
        assert told - {"plan"} <= set(inspect.signature(Plan.simulate).parameters)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"gpus": {"l4": 1}}, "arguments: gpus: no pool is called 'l4'"),
        ({"quality_min": 101.0}, "arguments: objective.quality_min: must be at most 100"),
        ({"levels": [{"metric": "ttft"}]}, "levels: .* is no level"),
        ({"levels": [{"metric": "ttft", "quantile": 0.5, "max_s": -1.0}]}, "max_s: must be greater than 0"),
        *(({"levels": levels}, "levels: .* is no l") for levels in (None, 3, "ttft", (1, 2), [None])),
        *(
            ({"time_limit_s": limit}, "time_limit_s: .* no number above 0")
            for limit in ("x", None, True, 10**400)
        ),
        ({"formulation": "mine"}, "formulation: 'mine' is none; write one of columns"),
        ({"plan_requests": 10}, "plan_requests: 10 is no whole number from 1000 on"),
        ({"budget_usd_per_hour": -1.0}, "budget_usd_per_hour: must be at least 0"),
    ],
)
def test_a_wrong_argument_is_refused_by_its_name(spec: Path, wrong: dict[str, object], told: str) -> None:
    with pytest.raises(cascadia.BadInput, match=told):
        cascadia.plan(spec, **wrong)  # type: ignore[arg-type]


def test_a_plan_is_made_by_its_own_levels_budget_and_formulation(spec: Path) -> None:
    level = {"metric": "e2e", "quantile": 0.5, "max_s": 500.0}
    plan = cascadia.plan(spec, levels=[level], budget_usd_per_hour=0.08, formulation="columns", gears=1)
    assert [each.max_s for each in plan.plan.objective.levels] == [500.0]
    assert plan.plan.cluster.budget_usd_per_hour == 0.08
    assert cascadia.plan(spec, formulation="paper", gears=1).plan.proof.formulation == "paper"
