"""Traces, quality tables and replays as DataFrames: what planning reads, no more and no less."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cascadia
from cascadia.domain.errors import BadInput
from cascadia.domain.plan import Plan
from cascadia.files.plan_file import write_plan
from cascadia.planner.policies.replayed import run_policies
from cascadia.planner.problem.quality_file import write_quality
from cascadia_traces.formats.writing import write_trace
from cascadia_traces.trace import Trace
from tests.unit.planner.policies.one_pass_plans import planned
from tests.unit.planner.problems import rising_table, traffic

TRACE = Trace(
    np.array([0.0, 0.5, 0.5]),
    np.array([3, 5, 8]),
    np.array([1, 2, 1]),
    prompt_id=("007", "", "b"),
    prefix_tokens=np.array([0, 4, 0]),
)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".csv.gz"])
def test_a_trace_is_a_frame_of_the_columns_that_it_has(tmp_path: Path, suffix: str) -> None:
    write_trace(TRACE, tmp_path / f"t{suffix}")
    frame = cascadia.read_trace(tmp_path / f"t{suffix}")
    assert list(frame.columns) == ["arrival_s", "input_tokens", "output_tokens", "prompt_id", "prefix_tokens"]
    assert frame["input_tokens"].dtype == np.int64
    assert frame.to_dict("list") == {
        "arrival_s": [0.0, 0.5, 0.5],
        "input_tokens": [3, 5, 8],
        "output_tokens": [1, 2, 1],
        "prompt_id": ["007", "", "b"],
        "prefix_tokens": [0, 4, 0],
    }


def test_a_faulty_trace_is_refused_by_its_row(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("arrival_s,input_tokens,output_tokens\n0,1,1\n1,0.5,1\n")
    with pytest.raises(cascadia.BadInput, match=r"t\.csv, row 2"):
        cascadia.read_trace(tmp_path / "t.csv")


def test_a_frame_is_replayed_as_its_file_is_and_rows_may_be_left_out(made: Plan, tmp_path: Path) -> None:
    write_plan(made, tmp_path / "plan.json")
    write_trace(traffic(100), tmp_path / "t.parquet")
    frame = cascadia.read_trace(tmp_path / "t.parquet")
    whole = cascadia.simulate(tmp_path, tmp_path / "t.parquet", rate_rps=1.0)
    assert cascadia.simulate(tmp_path, frame, rate_rps=1.0).equals(whole)
    later = frame[frame.arrival_s > frame.arrival_s.median()]
    assert set(cascadia.simulate(tmp_path, later)["input_tokens"]) == set(later["input_tokens"])


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("arrival_s", float("nan"), "trace, request 4: the arrival time is NaN or missing"),
        ("arrival_s", -1.0, "trace, request 4: the arrival time -1 s is negative"),
        ("input_tokens", 0, "trace, request 4: input_tokens is 0"),
        ("output_tokens", 1.5, "trace, request 4: output_tokens is 1.5"),
        ("output_tokens", 10**400, "trace, column output_tokens: int too large"),
        ("output_tokens", "many", "trace, request 4: output_tokens is NaN or missing"),
    ],
)
def test_a_frame_that_is_no_trace_is_refused_by_its_request(
    made: Plan, tmp_path: Path, column: str, value: object, told: str
) -> None:
    write_plan(made, tmp_path / "plan.json")
    write_trace(traffic(10), tmp_path / "t.parquet")
    frame = cascadia.read_trace(tmp_path / "t.parquet").astype({column: object})
    frame.loc[3, column] = value
    with pytest.raises(cascadia.BadInput, match=told):
        cascadia.simulate(tmp_path, frame)
    with pytest.raises(cascadia.BadInput, match=f"the frame has no column {column}"):
        cascadia.simulate(tmp_path, frame.drop(columns=column))
    with pytest.raises(cascadia.BadInput, match="it holds no requests"):
        cascadia.simulate(tmp_path, frame[:0])
    with pytest.raises(cascadia.BadInput, match=f"the frame has two columns {column}"):
        cascadia.simulate(tmp_path, pd.concat([frame, frame[[column]]], axis=1))


@pytest.mark.parametrize(
    "wrong",
    [
        *({"rate_rps": rate} for rate in (0, float("nan"), "10", 10**400, (1, 2))),
        *({"seed": seed} for seed in (-1, 1.5, "2", True)),
        {"foresight": "heads.json"},
        *({"format": format} for format in ("azurre", 3, ["azure"])),
    ],
)
def test_a_wrong_number_is_refused_by_its_argument(
    made: Plan, tmp_path: Path, wrong: dict[str, object]
) -> None:
    write_plan(made, tmp_path / "plan.json")
    write_trace(traffic(10), tmp_path / "t.parquet")
    (name,) = wrong
    with pytest.raises(cascadia.BadInput, match=name):
        cascadia.simulate(tmp_path, tmp_path / "t.parquet", **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("gpus", ["4", 2.5, True, {"cpu": "4"}])
def test_gpus_are_whole_numbers(gpus: object) -> None:
    with pytest.raises(cascadia.BadInput, match="is no whole number"):
        cascadia.plan("cascade.yaml", gpus=gpus)  # type: ignore[arg-type]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_quality_table_is_a_frame_with_a_row_a_prompt_and_stage(tmp_path: Path, suffix: str) -> None:
    table = rising_table(2, prompts=7)
    write_quality(table, tmp_path / f"q{suffix}")
    frame = cascadia.read_quality(tmp_path / f"q{suffix}", scale=100)
    assert list(frame["stage"].cat.categories) == list(table.stages)
    means = frame.groupby("stage", observed=True)["score"].mean()
    assert means.tolist() == pytest.approx(table.score.mean(axis=1).tolist())
    assert frame["prompt_id"].tolist() == list(table.prompt_ids) * len(table.stages)


def test_an_incomplete_quality_table_is_refused(tmp_path: Path) -> None:
    rows = (
        "prompt_id,stage,score,input_tokens,output_tokens\n1,small,90,5,5\n1,large,90,5,5\n2,small,90,5,5\n"
    )
    (tmp_path / "q.csv").write_text(rows)
    with pytest.raises(BadInput, match="prompt '2' has no row for stage 'large'"):
        cascadia.read_quality(tmp_path / "q.csv", scale=100)


def test_a_replay_is_a_frame_with_a_row_a_request(made: Plan, tmp_path: Path) -> None:
    table, trace = rising_table(2), traffic(300)
    write_plan(made, tmp_path / "plan.json")
    write_trace(trace, tmp_path / "t.parquet")
    write_quality(table, tmp_path / "q.parquet")
    frame = cascadia.simulate(tmp_path, tmp_path / "t.parquet", quality_table=tmp_path / "q.parquet")
    assert frame["input_tokens"].tolist() == trace.input_tokens.tolist()
    assert frame["arrival_s"].to_numpy() == pytest.approx(trace.arrival_s)
    assert (frame["ttft_s"] <= frame["e2e_s"]).all()
    assert frame["e2e_s"].mean() == pytest.approx(made.predicted.e2e.mean_s)
    shares = frame["stage"].value_counts(normalize=True)
    assert [shares[s.name] for s in made.stages] == pytest.approx([s.accepted for s in made.predicted.stages])


def test_a_replay_on_gears_says_each_requests(made: Plan, tmp_path: Path) -> None:
    table, trace = rising_table(2), traffic(300)
    light = replace(made.gears[-1], stages=(made.stages[0].name,))
    heavy = replace(made.gears[-1], max_in_flight=2.0)
    write_plan(replace(made, gears=(heavy, light), mixture=None), tmp_path / "plan.json")
    write_trace(trace, tmp_path / "t.parquet")
    write_quality(table, tmp_path / "q.parquet")
    frame = cascadia.simulate(tmp_path, tmp_path / "t.parquet", quality_table=tmp_path / "q.parquet")
    assert set(frame["gear"]) == {0, 1}
    assert (frame.loc[frame["gear"] == 1, "stage"] == made.stages[0].name).all()


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_what_is_read_for_a_plan_is_read_without_pandas(tmp_path: Path, suffix: str) -> None:
    write_trace(traffic(30), tmp_path / f"t.{suffix}")
    write_quality(rising_table(2, prompts=7), tmp_path / f"q.{suffix}")
    script = f"""
import sys
import cascadia
from cascadia.planner.problem.quality_file import read_quality
from cascadia_traces.formats.reading import read_trace
read_trace({str(tmp_path / "t.")!r} + {suffix!r})
read_quality({str(tmp_path / "q.")!r} + {suffix!r}, ("s0", "s1"), scale=100)
print("pandas" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == "False\n"


def test_without_pandas_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("inputs", "results", "plans", "comparisons"):
        monkeypatch.delitem(sys.modules, f"cascadia.frames.{name}", raising=False)
        monkeypatch.delattr(f"cascadia.frames.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install 'pandas[<>=,.0-9]+'"):
        cascadia.read_trace("t.csv")


def test_there_is_no_other_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'read_tracs'"):
        cascadia.read_tracs  # noqa: B018


@pytest.mark.long
def test_of_models_that_answer_in_one_pass_the_policies_decide(tmp_path: Path) -> None:
    plan = planned().plan
    write_plan(plan, tmp_path / "plan.json")
    write_trace(traffic(400), tmp_path / "t.parquet")
    frame = cascadia.simulate(tmp_path, tmp_path / "t.parquet", rate_rps=200.0)
    _, models, run = run_policies(plan, frame["arrival_s"].to_numpy())
    assert frame["e2e_s"].tolist() == run.latency_s.tolist()
    assert frame["stage"].tolist() == [models[at].name for at in run.model]
    for said in ({"seed": 1}, {"quality_table": "q.csv"}):
        with pytest.raises(cascadia.BadInput, match="says nothing to models that answer in one pass"):
            cascadia.simulate(tmp_path, frame.assign(output_tokens=1), **said)  # type: ignore[arg-type]


def test_who_is_refused_has_no_stage(tmp_path: Path) -> None:
    plan = planned().plan
    (policies,) = plan.policies
    refuses = replace(plan, policies=(replace(policies, late="drop", slo_s=0.02),))
    write_plan(refuses, tmp_path / "plan.json")
    write_trace(traffic(400), tmp_path / "t.parquet")
    frame = cascadia.simulate(tmp_path, tmp_path / "t.parquet", rate_rps=3000.0)
    refused = np.isinf(frame["e2e_s"])
    assert refused.any()
    assert frame["stage"].isna().equals(refused)
