"""The wheel as a package index would have it: its name, its chart, a description whose links lead somewhere."""

import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from cascadia.files.extras import DISTRIBUTION
from tests.data import ROOT

CHART = ROOT / "deploy" / "helm" / "cascadia"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(ROOT),
    ]
    if subprocess.run(command, capture_output=True, timeout=300, check=False).returncode:
        pytest.skip("pip cannot fetch the build backend")
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)


def test_the_wheel_carries_the_chart(wheel: zipfile.ZipFile) -> None:
    ours = {str(file.relative_to(CHART)): file.read_bytes() for file in CHART.rglob("*") if file.is_file()}
    inside = "cascadia/render/chart/"
    there = {
        name.removeprefix(inside): wheel.read(name) for name in wheel.namelist() if name.startswith(inside)
    }
    assert there == ours


def test_its_metadata_name_it_and_describe_it(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = Parser().parsestr(wheel.read(name).decode())
    assert metadata["Name"] == DISTRIBUTION
    assert "docs/" not in str(metadata.get_payload())
    assert {path.partition("/")[0] for path in wheel.namelist() if "dist-info" not in path} == {
        "cascadia",
        "cascadia_sim",
        "cascadia_judge",
        "cascadia_traces",
    }
    assert Path(name).parent.name.startswith("cascadia_llm-")
