import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from cascadia.cli.render import render
from cascadia.domain.errors import BadInput
from cascadia.files.plan_file import write_plan
from cascadia.testing.plans import three_stages


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    write_plan(three_stages(), tmp_path / "plan.json")
    return tmp_path / "plan.json"


def run(*args: object) -> Result:
    return CliRunner().invoke(render, [str(a) for a in args], catch_exceptions=False)


def test_standard_output_is_the_manifest(plan_file: Path) -> None:
    result = run(plan_file, "--target", "kubernetes")
    kinds = {o["kind"] for o in yaml.safe_load_all(result.stdout)}
    assert {"ConfigMap", "Service", "PodDisruptionBudget", "Deployment", "LeaderWorkerSet"} < kinds


def test_values_go_over_the_plans(plan_file: Path) -> None:
    values = plan_file.parent / "mine.yaml"
    values.write_text("router: {autoscaling: {enabled: false}, replicas: 5}\n")
    result = run(plan_file, "--target", "kubernetes", "--values", values, "--namespace", "team")
    found = {(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(result.stdout)}
    assert found["Deployment", "cascadia-router"]["spec"]["replicas"] == 5
    assert {o["metadata"]["namespace"] for o in found.values()} == {"team"}


def test_values_are_of_kubernetes_only(plan_file: Path) -> None:
    with pytest.raises(BadInput, match="says nothing to target compose"):
        run(plan_file, "--target", "compose", "--values", plan_file)


def test_values_that_are_no_map_are_refused(plan_file: Path) -> None:
    values = plan_file.parent / "mine.yaml"
    values.write_text("- 1\n")
    with pytest.raises(BadInput, match="is no map of values"):
        run(plan_file, "--target", "kubernetes", "--values", values)


def test_a_folder_gets_a_file_of_the_targets_name(plan_file: Path) -> None:
    result = run(plan_file.parent, "--target", "local", "--out", plan_file.parent)
    assert result.stdout == ""
    assert len(json.loads((plan_file.parent / "processes.json").read_text())) == 13
    assert {p.name for p in plan_file.parent.iterdir()} == {"plan.json", "processes.json"}


def test_json_is_one_document_with_what_was_rendered(plan_file: Path) -> None:
    out = plan_file.parent / "compose.yaml"
    document = json.loads(run(plan_file, "--target", "compose", "--out", out, "--json").stdout)
    assert document["out"] == str(out)
    assert document["documents"] == [yaml.safe_load(out.read_text())]


def test_a_file_that_cannot_be_written_is_bad_input(plan_file: Path) -> None:
    with pytest.raises(BadInput, match="cannot be written"):
        run(plan_file, "--target", "local", "--out", plan_file.parent / "none" / "x.json")
