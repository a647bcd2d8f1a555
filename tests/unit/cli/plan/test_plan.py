"""`cascadia plan` reads, plans, tells and writes; with the real planner once, else with one that answers at once."""

import html
import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner, Result

from cascadia.cli.main import main
from cascadia.cli.plan.outputs import PLAN_FILES
from cascadia.domain.deadline import Deadline
from cascadia.domain.errors import Infeasible
from cascadia.domain.plan import Plan
from cascadia.domain.problem import Problem
from cascadia.files.plan_file import read_plan
from cascadia.report.data import ReportData
from tests.unit.planner.plans import a_plan
from tests.unit.planner.specs import valid_spec, write_inputs, write_spec


@dataclass(frozen=True)
class Planned:
    plan: Plan
    notes: tuple[str, ...] = ("the trace is short",)


class FakePlanner:
    """Answers with a fixed plan, or an error, and keeps what it was asked."""

    def __init__(self) -> None:
        self.problem: Problem | None = None
        self.options: dict[str, object] = {}
        self.error: Exception | None = None

    def plan(self, problem: Problem, *, progress: Callable[[str], None], **options: object) -> Planned:
        self.problem, self.options = problem, options
        progress("round 1")
        if self.error is not None:
            raise self.error
        return Planned(a_plan())


def a_report(result: Planned, *, around: None, **where: str) -> ReportData:
    """The fake planner has no search to draw from: only the plan is shown."""
    return ReportData(plan=result.plan, notes=result.notes, **where)


@pytest.fixture
def planner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePlanner:
    fake, module = FakePlanner(), ModuleType("cascadia.planner.plan")
    module.plan = fake.plan  # type: ignore[attr-defined]
    module.PlanResult = Planned  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cascadia.planner.plan", module)
    # What latency costs is read from a search, too.
    knee = ModuleType("cascadia.planner.sensitivity.knee")
    knee.knee = lambda result: ()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cascadia.planner.sensitivity.knee", knee)
    report = ModuleType("cascadia.cli.plan.report")
    report.report_data = a_report  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cascadia.cli.plan.report", report)
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)
    write_spec(tmp_path, valid_spec())
    return fake


def plan(*args: str) -> Result:
    return CliRunner().invoke(main, ["plan", "cascade.yaml", *args])


def test_a_plan_is_told_and_written(planner: FakePlanner) -> None:
    result = plan("--out", "plan")
    assert result.exit_code == 0
    assert result.stderr == "note: the trace is short\n"
    assert "H100" in result.stdout
    assert result.stdout.endswith("written to plan\n")
    assert {path.name for path in Path("plan").iterdir()} == set(PLAN_FILES)
    assert read_plan("plan") == a_plan()


def test_the_real_planner_plans_and_reports_from_files(planned: Path) -> None:
    found = read_plan(planned / "plan")
    assert 0 < found.gpus <= found.cluster.gpus
    assert found.predicted.quality.lower >= (found.objective.quality_min or 0)
    page = (planned / "plan" / "report.html").read_text()
    for heading in ("Where requests are answered", "Against the baselines", "Under load"):
        assert heading in page


def test_manifests_are_the_same_made_beside_the_report_or_without_one(planner: FakePlanner) -> None:
    assert plan("--out", "beside").exit_code == plan("--out", "alone", "--no-report").exit_code == 0
    names = set(PLAN_FILES) - {"report.html"}
    for name in names:
        assert Path("beside", name).read_bytes() == Path("alone", name).read_bytes()
    assert {at.name for at in Path("alone").iterdir()} == names


def test_without_a_folder_it_is_only_told(planner: FakePlanner) -> None:
    before = sorted(path.name for path in Path().iterdir())
    assert plan().exit_code == 0
    assert sorted(path.name for path in Path().iterdir()) == before


def test_json_is_the_plan_as_it_is_written(planner: FakePlanner) -> None:
    result = plan("--out", "plan", "--json", "--no-report")
    document = json.loads(result.stdout)
    assert document["plan"] == json.loads(Path("plan/plan.json").read_text())
    assert (document["notes"], document["out"]) == (["the trace is short"], "plan")
    assert not Path("plan/report.html").exists()


def test_quiet_leaves_only_the_files(planner: FakePlanner) -> None:
    result = plan("--out", "plan", "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    assert Path("plan/plan.json").exists()


def test_flags_reach_the_planner(planner: FakePlanner) -> None:
    flags = ["--gpus", "16", "--rate", "3", "--quality-min", "70", "--seed", "9", "--confidence", "0.9"]
    assert plan(*flags, "--formulation", "paper", "--time-limit", "2.5").exit_code == 0
    problem = planner.problem
    assert problem is not None
    assert (problem.cluster.gpus, problem.seed, problem.confidence) == (16, 9, 0.9)
    assert problem.workload.rate_rps == pytest.approx(3.0)
    assert problem.objective.quality_min == 70
    until = planner.options.pop("deadline")
    assert isinstance(until, Deadline)
    assert 0 < until.left_s <= 2.5
    assert planner.options == {"formulation": "paper", "processes": False}


def test_the_report_tells_how_to_make_the_plan_again(planner: FakePlanner) -> None:
    plan("--out", "my plan", "--gpus", "h100-sxm=16", "--rate", "3")
    page = Path("my plan/report.html").read_text()
    assert "cascadia plan cascade.yaml" in page
    assert "--gpus h100-sxm=16 --rate 3" in page


def test_an_infeasible_problem_leaves_nothing_and_keeps_an_old_plan(planner: FakePlanner) -> None:
    plan("--out", "plan")
    planner.error = Infeasible("quality 93 needs >= 40 GPUs", "with 32 the best is 91.2")
    before = sorted(path.name for path in Path().iterdir())
    for out in ("plan", "new"):
        result = plan("--out", out)
        assert result.exit_code == 3
        assert result.stderr == "infeasible: quality 93 needs >= 40 GPUs; with 32 the best is 91.2\n"
    assert sorted(path.name for path in Path().iterdir()) == before
    assert read_plan("plan") == a_plan()


def test_a_bug_in_the_planner_is_not_called_infeasible(planner: FakePlanner) -> None:
    planner.error = IndexError("list index out of range")
    result = plan("--out", "plan")
    assert result.exit_code == 1
    assert result.stderr.startswith("internal error: IndexError: list index out of range; ")
    assert not Path("plan").exists()


@pytest.mark.parametrize("gpus", ["x", "-1", "a=", "=", "1.5", "9" * 10])
def test_a_number_of_gpus_is_a_number(planner: FakePlanner, gpus: str) -> None:
    result = plan(f"--gpus={gpus}")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: --gpus: {gpus!r} is not [POOL=]N; write e.g. --gpus 32")


def test_the_report_s_command_is_the_one_that_was_given(planner: FakePlanner) -> None:
    asked = [
        *("--rate", "0.123456789", "--within", "3%", "--gears", "off", "-q"),
        "--goodput",
        "ttft:500 tpot:50@p50",
    ]
    result = CliRunner().invoke(main, ["plan", "cascade.yaml", "--out", "plan", *asked], prog_name="cascadia")
    assert result.exit_code == 0, result.output
    page = html.unescape(Path("plan/report.html").read_text())
    assert f"<code>{shlex.join(['cascadia', 'plan', 'cascade.yaml', '--out', 'plan', *asked])}</code>" in page
    assert planner.problem is not None
