"""`cascadia demo --plan-only` plans its bundled example as a user would, and leaves files that one can go on with."""

import shlex
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

from cascadia.cli.main import main
from cascadia.cli.plan.outputs import PLAN_FILES
from cascadia.demo.plan_example import EXAMPLE_FILES, SPEC
from cascadia.demo.plan_example_quality import STAGES, example_quality
from cascadia.files.plan_file import read_plan
from cascadia.planner.problem.read import read_problem
from tests.unit.planner.brief import brief_searches


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["demo", "--plan-only", *args])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def shown(place: Path) -> Result:
    """A demo in a folder where another was left unfinished, its spec edited."""
    with pytest.MonkeyPatch.context() as patch, brief_searches():
        patch.chdir(place)
        Path("demo-plan/example").mkdir(parents=True)
        Path("demo-plan/example/cascade.yaml").write_text("mine: true\n")
        result = run()
    assert result.exit_code == 0, result.output
    return result


def test_it_writes_what_plan_writes_and_its_own_inputs(place: Path, shown: Result) -> None:
    there = {path.name for path in (place / "demo-plan").iterdir()}
    assert there == {*PLAN_FILES, "example"}
    inputs = {path.name for path in (place / "demo-plan" / "example").iterdir()}
    assert inputs == {*EXAMPLE_FILES, "cascade.edited.yaml"}
    assert not [path for path in place.iterdir() if path.name != "demo-plan"]


def test_an_edited_spec_is_kept(place: Path, shown: Result) -> None:
    example = place / "demo-plan" / "example"
    assert (example / "cascade.yaml").read_text() == SPEC
    assert (example / "cascade.edited.yaml").read_text() == "mine: true\n"
    assert "was edited: kept as cascade.edited.yaml" in shown.stderr


def test_all_three_stages_and_the_judge_are_worth_their_gpus(place: Path, shown: Result) -> None:
    plan = read_plan(place / "demo-plan")
    assert [bool(stage.replicas) for stage in plan.stages] == [True, True, True]
    assert plan.judge.replicas
    assert plan.gpus <= 32
    assert plan.predicted.quality.lower >= 86


def test_what_it_suggests_is_understood(shown: Result) -> None:
    """Commands are parsed, so a renamed option breaks this."""
    lines = [line.strip() for line in shown.stdout.splitlines() if line.startswith("  ")]
    suggested = [shlex.split(line)[1:] for line in lines if "demo-plan/" in line]
    assert [args[0] for args in suggested] == ["plan", "compare", "simulate"]
    for name, *args in suggested:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        command.make_context(name, args)


def test_the_report_tells_the_plain_command(place: Path, shown: Result) -> None:
    report = (place / "demo-plan" / "report.html").read_text()
    assert "cascadia plan demo-plan/example/cascade.yaml --out demo-plan<" in report


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("thesis").mkdir()
    Path("thesis/chapter.tex").write_text("")
    result = run("--out", "thesis")
    assert result.exit_code == 2
    assert result.stderr == ("error: thesis: has files in it but no plan.json; name another with --out\n")
    assert [path.name for path in Path("thesis").iterdir()] == ["chapter.tex"]


def test_a_file_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("thesis.tex").write_text("")
    result = run("--out", "thesis.tex")
    assert result.exit_code == 2
    assert result.stderr == "error: thesis.tex: is a file, not a folder; name another with --out\n"


def test_the_example_is_always_the_same() -> None:
    one, other = example_quality(50), example_quality(50)
    assert np.array_equal(one.score, other.score)
    assert np.array_equal(one.output_tokens, other.output_tokens)


def test_in_the_example_larger_is_better_and_scores_are_not_quality() -> None:
    table = example_quality()
    assert np.all(np.diff(table.quality.mean(axis=1)) > 5)
    for stage in range(len(STAGES)):
        assert 0.4 < np.corrcoef(table.score[stage], table.quality[stage])[0, 1] < 0.95


def test_the_example_is_read_without_a_remark(place: Path, shown: Result) -> None:
    problem = read_problem(place / "demo-plan" / "example" / "cascade.yaml")
    assert problem.notes == ()
