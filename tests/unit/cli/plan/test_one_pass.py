"""`cascadia plan` of one-pass models: written, reported and replayed; what it cannot do is one line."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.commands import run
from tests.unit.planner.policies.one_pass_plans import SPEC, written


def test_a_spec_becomes_a_plan_a_report_and_processes_and_is_replayed(tmp_path: Path) -> None:
    done = run("plan", str(written(tmp_path)), "--rate", "200", "--out", str(tmp_path / "plan"), "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)["plan"]
    assert told["policies"][0]["group"] == "guard"
    assert told["predicted"]["rate_rps"] == pytest.approx(200, rel=0.1)
    assert sorted(path.name for path in (tmp_path / "plan").iterdir()) == [
        "plan.json", "processes.json", "report.html",
    ]  # fmt: skip
    report = (tmp_path / "plan" / "report.html").read_text()
    assert "Who sits where" in report
    assert "tiny, small, large" in report
    rows = "\n".join(f"{at / 100},5,1" for at in range(400))
    (tmp_path / "trace.csv").write_text(f"arrival_s,input_tokens,output_tokens\n{rows}\n")
    replayed = run("simulate", str(tmp_path / "plan"), "--trace", str(tmp_path / "trace.csv"), "--json")
    assert replayed.exit_code == 0, replayed.output
    assert json.loads(replayed.stdout)["outcome"]["late"] == 0
    seeded = run("simulate", str(tmp_path / "plan"), "--trace", str(tmp_path / "trace.csv"), "--seed", "1")
    assert seeded.exit_code == 2
    assert "--seed says nothing to models that answer in one pass" in seeded.output
    several = run("serve", str(tmp_path / "plan"), "--workers", "2")
    assert several.exit_code == 2
    assert "--workers 2: would give group guard a queue in each process" in several.output


@pytest.mark.parametrize(
    ("arguments", "old", "new", "says"),
    [
        (("--gears", "4"), "", "", "--gears: says nothing to models that answer in one pass"),
        (("--budget", "4"), "", "", "--budget: says nothing to models that answer in one pass"),
        (("--formulation", "paper"), "", "", "--formulation: means nothing to models that answer in one pass"),
        (("--time-limit", "9"), "", "", "--time-limit: means nothing to models that answer in one pass"),
        (("--plan-requests", "1000"), "", "", "--plan-requests: means nothing to models that answer in one pass"),
        ((), "{name: tiny, model: models/m-1, task: classify, engine: onnxruntime, group: guard}",
         "{name: tiny, model: m}", "stages[0]: writes its answers, and another stage gives them in one pass"),
        ((), "models/m-1", "others/m-1", "has no model.json"),
        ((), "m-1, task: classify", "m-1, task: rerank", "some stages classify and others rerank"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_one_line_and_exit_code_2(
    tmp_path: Path, arguments: tuple[str, ...], old: str, new: str, says: str
) -> None:
    done = run("plan", str(written(tmp_path, SPEC.replace(old, new) if old else SPEC)), *arguments)
    assert done.exit_code == 2
    assert says in done.output


def test_commands_for_cascades_say_what_to_use_instead(tmp_path: Path) -> None:
    done = run("compare", str(written(tmp_path)))
    assert done.exit_code == 2
    assert "guard.yaml: is of models that answer in one pass" in done.output
    assert "cascadia policy --compare" in done.output
