"""What a plan says of a trace, `cascadia simulate` says of the same trace, by whatever rules it became requests."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from cascadia.domain.plan import Plan, Predicted
from cascadia.files.plan_file import read_plan, write_plan
from cascadia.planner.plan import plan
from cascadia.planner.problem.points import read_as_planned
from cascadia.planner.problem.read import read_problem
from cascadia.planner.problem.trace_file import read_trace_for
from cascadia.planner.refinement.state import Effort
from cascadia.planner.replay.replay import Replay, replay
from cascadia_judge.foresight import KEY, Foreseen, written
from tests.unit.planner.problems import SMALL

pytestmark = pytest.mark.slow

LITTLE = Effort(routings=2, combinations=100, window_requests=300, simulated_requests=1, fewest_simulations=8)
SPEC: dict[str, Any] = {
    "stages": [
        {"name": "small", "model": "Qwen/Qwen2.5-1.5B-Instruct"},
        {"name": "large", "model": "Qwen/Qwen2.5-14B-Instruct"},
    ],
    "cluster": {"pools": [{"gpu": "h100-sxm", "nodes": 1, "gpus_per_node": 4}]},
    "judge": {"kind": "embedding", "latency_p50_s": 0.01, "latency_p95_s": 0.02},
    "workload": {"trace": "trace.csv"},
    "quality": {"table": "table.csv"},
    "objective": {"minimize": "latency", "quality_min": 55},
}
RULES = {
    "as it is": {},
    "as fast as the spec says": {"rate_rps": 90.0},
    "so short that it takes rounds": {"rate_rps": 300.0, "max_requests": 40},
    "as long as the table says": {"lengths": "table"},
    "cut": {"max_requests": 60, "max_input_tokens": 150},
}


@pytest.fixture(autouse=True)
def _inputs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrival_s = np.cumsum(rng.exponential(0.05, 120))
    lengths = zip(rng.integers(20, 900, 120), rng.integers(5, 300, 120), strict=True)
    rows = [f"{at:.6f},{read},{wrote}" for at, (read, wrote) in zip(arrival_s, lengths, strict=True)]
    (tmp_path / "trace.csv").write_text("\n".join(["arrival_s,input_tokens,output_tokens", *rows]))
    hard = rng.normal(size=100)
    table = ["prompt_id,stage,score,quality,input_tokens,output_tokens"]
    for stage, ability, wrote in (("small", 0.2, 80), ("large", 1.2, 160)):
        quality = np.clip(55 + 22 * (ability - hard), 0, 100).round(1)
        table += [f"p{i},{stage},{q},{q},{300 + i},{wrote + i}" for i, q in enumerate(quality)]
    (tmp_path / "table.csv").write_text("\n".join(table))


def planned(folder: Path, workload: dict[str, Any], **others: Any) -> Plan:
    spec = SPEC | others | {"workload": SPEC["workload"] | workload}
    (folder / "cascade.yaml").write_text(yaml.safe_dump(spec))
    made = plan(read_problem(folder / "cascade.yaml"), effort=LITTLE).plan
    write_plan(made, folder / "plan.json")
    return read_plan(folder / "plan.json")


def simulated(folder: Path, made: Plan, rate_rps: float | None = None, trace: str = "trace.csv") -> Replay:
    requests, _ = read_trace_for(folder / trace, None, rate_rps, made.seed, made)
    return replay(made, requests, folder=folder, table=read_as_planned(made, folder / "table.csv", None))


def told(predicted: Predicted) -> dict[str, object]:
    """Quality is of the table in a plan, and of the requests in a replay."""
    return {f.name: getattr(predicted, f.name) for f in fields(predicted) if f.name != "quality"}


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("rules", RULES)
def test_a_replay_of_its_own_trace_says_what_the_plan_says(rules: str, tmp_path: Path) -> None:
    made = planned(tmp_path, RULES[rules])
    shown = simulated(tmp_path, made)
    assert told(shown.predicted) == told(made.predicted)
    assert made.stability is not None
    assert shown.certificate.stability.rounds == made.stability.rounds
    assert made.stability.rounds > 1 or rules != "so short that it takes rounds"


@pytest.mark.long
def test_so_does_one_of_a_plan_with_gears(tmp_path: Path) -> None:
    objective = {"minimize": "cost", "quality_min": 50, "latency_max_s": 1.2}
    made = planned(tmp_path, {"rate_rps": 200.0}, objective=objective)
    assert told(simulated(tmp_path, made).predicted) == told(made.predicted)


@pytest.mark.long
@pytest.mark.parametrize("by_question", [False, True])
def test_so_does_one_by_the_foresight_that_the_plan_was_made_with(by_question: bool, tmp_path: Path) -> None:
    """A stage that is skipped, or a budget of thinking that is chosen, by what a file foresees of each question."""
    rows = [line.split(",") for line in (tmp_path / "table.csv").read_text().splitlines()[1:]]
    foreseen = {(row[1], row[0]): float(row[3]) for row in rows}
    if by_question:
        # Little thinking does for easy questions, and all of it takes long, as the large model does.
        short = {row[0]: float(row[3]) - 30.0 * (float(row[3]) < 60) for row in rows if row[1] == "small"}
        foreseen |= {("small@16", prompt): max(value, 0.0) for prompt, value in short.items()}
        long = [[*row[:5], "600" if row[1] == "small" else "2500"] for row in rows]
        short_rows = [
            [p, "small@16", f"{max(q, 0.0)}", f"{max(q, 0.0)}", "300", "30"] for p, q in short.items()
        ]
        lines = [",".join(row) for row in (*long, *short_rows)]
        head = "prompt_id,stage,score,quality,input_tokens,output_tokens"
        (tmp_path / "table.csv").write_text("\n".join([head, *lines]))
    names, prompts = sorted({name for name, _ in foreseen}), sorted({prompt for _, prompt in foreseen})
    values = np.array([[foreseen[name, prompt] for prompt in prompts] for name in names])
    file = tmp_path / "foresight.json"
    file.write_text(json.dumps({KEY: written(Foreseen(tuple(prompts), tuple(names), values))}))
    stages = [
        SPEC["stages"][0] | {"exits": [{"thinking_tokens": 16}], "exits_by": "question"},
        SPEC["stages"][1],
    ]
    quality = {"table": "table.csv", "foresight": "foresight.json"}
    others = {"stages": stages} if by_question else {}
    objective = {"minimize": "latency", "quantile": 0.5, "quality_min": 62}
    judge = {"kind": "llm", "model": SMALL}
    made = planned(tmp_path, {}, quality=quality, judge=judge, objective=objective, **others)
    assert made.foresight is not None
    assert any(stage.exits for stage in made.stages) if by_question else any(made.skip_below)
    requests, _ = read_trace_for(tmp_path / "trace.csv", None, None, made.seed, made)
    notes: list[str] = []
    table = read_as_planned(made, tmp_path / "table.csv", None, notes.append, file)
    shown = replay(made, requests, folder=tmp_path, table=table)
    assert told(shown.predicted) == told(made.predicted)
    assert not notes
    file.write_text(file.read_text() + " ")
    read_as_planned(made, tmp_path / "table.csv", None, notes.append, file)
    assert notes == ["foresight.json is not the foresight that the plan was made with"]


@pytest.mark.long
def test_a_rate_that_is_given_counts_and_so_does_another_traces_own(tmp_path: Path) -> None:
    made = planned(tmp_path, {"rate_rps": 90.0, "max_requests": 60})
    assert simulated(tmp_path, made, rate_rps=30.0).predicted.rate_rps == pytest.approx(30.0)
    text = (tmp_path / "trace.csv").read_text()
    (tmp_path / "other.csv").write_text(text + "\n")
    other = simulated(tmp_path, made, trace="other.csv").predicted
    assert other.rate_rps == pytest.approx(20.0, rel=0.2)


def test_the_rules_stand_in_the_plan(tmp_path: Path) -> None:
    made = planned(tmp_path, RULES["cut"])
    rules = json.loads((tmp_path / "plan.json").read_text())["workload"]
    assert (rules["max_requests"], rules["max_input_tokens"], rules["overlong"]) == (60, 150, "truncate")
    assert made.workload is not None
    assert len(made.workload.trace_digest) == 64
