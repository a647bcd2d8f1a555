"""From public traces and quality data to plans, replays, comparisons and manifests: what a user's whole day is."""

import json
import re
import signal
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest
import yaml

from cascadia.reproduce.grid import CASCADES, Cell
from tests.e2e.commands import Cascadia

CELLS = [
    Cell(cascade, trace, load, cascade.bars[1])
    for cascade, trace, load in zip(
        (CASCADES[0], CASCADES[1], CASCADES[2]),
        ("mooncake", "azure conv", "azure conv"),
        ("low", "medium", "medium"),
        strict=True,
    )
]
MANIFESTS = {"compose.yaml", "helm-values.yaml", "kubernetes.yaml", "processes.json"}
ANOTHER_HOST = re.compile(
    r"""(?:src|href|action|data|poster)\s*=\s*["']?(?:https?:)?//|@import|url\((?!["']?[#)])"""
)


@dataclass(frozen=True)
class Planned:
    cascadia: Cascadia
    cell: Cell
    spec: Path
    document: dict[str, object]

    @property
    def folder(self) -> Path:
        return self.cascadia.folder / "plan"


@pytest.fixture(scope="module", params=CELLS, ids=[cell.cascade.name for cell in CELLS])
def planned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Planned:
    cell: Cell = request.param
    cascadia = Cascadia(tmp_path_factory.mktemp("day"), cache)
    spec = cell.case(cascadia.folder / "spec").path
    done = cascadia("plan", spec, "--out", "plan", "--json")
    return Planned(cascadia, cell, spec, done.document)


def test_plan_writes_its_whole_folder(planned: Planned) -> None:
    assert {path.name for path in planned.folder.iterdir()} == {"plan.json", "report.html", *MANIFESTS}
    assert {path.name for path in planned.cascadia.folder.iterdir()} == {"spec", "plan"}


def test_what_it_prints_is_what_it_writes_and_keeps_its_schema(planned: Planned) -> None:
    written = json.loads((planned.folder / "plan.json").read_text())
    assert planned.document["plan"] == written
    jsonschema.validate(written, planned.cascadia("schema", "plan", "--json").document)


def test_the_plan_keeps_the_bar_and_the_gpus(planned: Planned) -> None:
    written = json.loads((planned.folder / "plan.json").read_text())
    assert written["predicted"]["quality"]["lower"] >= planned.cell.bar
    groups = [group for part in (*written["stages"], written["judge"]) for group in part["replicas"]]
    assert 0 < sum(group["tp"] * group["pp"] * group["count"] for group in groups) <= 32
    assert written["predicted"]["rate_rps"] == pytest.approx(planned.cell.rate_rps, rel=0.01)


def test_the_report_asks_no_other_host_for_anything(planned: Planned) -> None:
    report = (planned.folder / "report.html").read_text()
    assert "<svg" in report
    assert ANOTHER_HOST.search(report) is None
    assert "<script src" not in report


def test_manifests_are_documents(planned: Planned) -> None:
    for name in MANIFESTS - {"processes.json"}:
        documents = list(yaml.safe_load_all((planned.folder / name).read_text()))
        assert documents
        assert all(documents)
    processes = json.loads((planned.folder / "processes.json").read_text())
    assert all(process["argv"] for process in processes)


def test_render_writes_what_plan_wrote(planned: Planned) -> None:
    for target, name in (
        ("kubernetes", "kubernetes.yaml"),
        ("compose", "compose.yaml"),
        ("local", "processes.json"),
    ):
        done = planned.cascadia("render", "plan", "--target", target)
        assert done.stdout.strip() == (planned.folder / name).read_text().strip()


def test_planning_again_gives_the_same_plan(planned: Planned) -> None:
    again = planned.cascadia("plan", planned.spec, "--json", "--quiet").document["plan"]
    written = json.loads((planned.folder / "plan.json").read_text())
    for plan in (again, written):
        del plan["wall_s"]
    assert again == written


def test_a_replay_on_the_whole_trace_is_near_the_prediction(planned: Planned) -> None:
    """Near, not equal: the plan was made on the trace's first part, and other requests get other prompts."""
    workload = yaml.safe_load(planned.spec.read_text())["workload"]
    traffic = ("--trace", workload["trace"], "--rate", str(workload["rate_rps"]))
    table = ("--quality-table", planned.spec.parent / "quality.parquet")
    replayed = planned.cascadia("simulate", "plan", *traffic, *table, "--json").document["predicted"]
    predicted = json.loads((planned.folder / "plan.json").read_text())["predicted"]
    assert replayed["e2e"]["p95_s"] == pytest.approx(predicted["e2e"]["p95_s"], rel=0.15)
    for ours, theirs in zip(replayed["stages"], predicted["stages"], strict=True):
        assert ours["reached"] == pytest.approx(theirs["reached"], abs=0.02)


def test_more_quality_than_there_is_is_refused_with_the_nearest(planned: Planned) -> None:
    done = planned.cascadia.attempt("plan", planned.spec, "--quality-min", "100", "--out", "never", "--json")
    assert done.code == 3
    error = done.document["error"]
    assert error["kind"] == "infeasible"
    nearest = float(re.findall(r"\d+(?:\.\d+)?", error["nearest"])[0])
    assert planned.cell.bar <= nearest < 100
    assert done.stderr.count("\n") == 1
    assert not (planned.cascadia.folder / "never").exists()


def test_the_nearest_feasible_quality_is_feasible(planned: Planned) -> None:
    error = planned.cascadia.attempt("plan", planned.spec, "--quality-min", "100", "--json").document["error"]
    nearest = re.findall(r"\d+(?:\.\d+)?", error["nearest"])[0]
    done = planned.cascadia.attempt("plan", planned.spec, "--quality-min", nearest, "--rate", "0.5", "--json")
    assert done.code == 0, done.stderr


def test_quality_data_of_another_cascade_does_not_fit(planned: Planned) -> None:
    spec = yaml.safe_load(planned.spec.read_text())
    spec["stages"][0]["name"] = "tiny"
    wrong = planned.spec.with_name("wrong.yaml")
    wrong.write_text(yaml.safe_dump(spec))
    done = planned.cascadia.attempt("plan", wrong, "--out", "never")
    assert (done.code, done.stdout) == (2, "")
    assert "no row for stage 'tiny'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_compare_sets_every_system_beside_the_plan(cascadia: Cascadia) -> None:
    cell = CELLS[1]
    spec = cell.case(cascadia.folder / "spec").path
    document = cascadia("compare", spec, "--json", "--plots", "plots.html").document
    names = [system["name"] for system in document["systems"]]
    assert names[0] == "cascadia"
    assert {"cascadeserve", "pre-router", "uniform parallelism", "no guarantee"} < set(names)
    assert ANOTHER_HOST.search((cascadia.folder / "plots.html").read_text()) is None


def test_an_interrupted_plan_leaves_nothing(cascadia: Cascadia) -> None:
    spec = CELLS[2].case(cascadia.folder / "spec").path
    process = cascadia.start("plan", spec, "--out", "plan")
    while process.poll() is None and not list(cascadia.folder.glob(".cascadia-*")):
        pass
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert stderr.strip().endswith("interrupted")
    assert [path.name for path in cascadia.folder.iterdir()] == ["spec"]
