"""`helm lint --strict` finds nothing, and the chart fetches nothing."""

import subprocess

import pytest
import yaml

from tests.unit.deploy.chart import CHART, LONGEST_S, run_helm
from tests.unit.deploy.helm_binary import PACKAGES, binary
from tests.unit.deploy.matrix import MATRIX

LINTED = ("three stages", "embedding", "a judge elsewhere", "keda", "a router with all", "a controller")


@pytest.mark.long(in_ci=3)
@pytest.mark.parametrize("major", [3, 4])
@pytest.mark.parametrize("name", LINTED)
def test_strict_linting_finds_nothing(name: str, major: int) -> None:
    done = run_helm(major, "lint", "--strict", str(CHART), values=MATRIX[name].values)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 chart(s) linted, 0 chart(s) failed" in done.stdout


@pytest.mark.parametrize("major", [3, 4])
def test_the_pinned_versions_are_what_runs(major: int) -> None:
    asked = [str(binary(major)), "version", "--short"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=LONGEST_S, check=True)
    assert done.stdout.startswith(PACKAGES[major].helm)


def test_the_chart_has_no_dependencies() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert "dependencies" not in chart
    assert not (CHART / "charts").exists()
