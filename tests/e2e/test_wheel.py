"""The wheel as a package index would have it: its name, its chart, and what newcomers do with nothing else."""

import os
import subprocess
import sys
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from cascadia.files.extras import DISTRIBUTION
from tests.data import ROOT
from tests.unit.deploy.helm_binary import binary


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


def test_the_wheel_carries_every_file_of_the_packages_and_the_chart(wheel: zipfile.ZipFile) -> None:
    """Links are followed: a folder that two of them lead to is packed once only."""
    ours = {
        str(Path(folder, name).relative_to(root)): Path(folder, name).read_bytes()
        for root in (ROOT, *(ROOT / part for part in ("sim", "judge", "traces")))
        for package in root.glob("cascadia*/")
        for folder, _, names in os.walk(package, followlinks=True)
        for name in names
        if "__pycache__" not in folder
    }
    assert any(name.startswith("cascadia/render/chart/templates/") for name in ours)
    there = {name: wheel.read(name) for name in wheel.namelist() if "dist-info" not in name}
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


def test_newcomers_walks_go_as_shown_where_nothing_but_the_wheel_is_installed(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    pinned = ["--constraint", str(ROOT / "constraints.txt")]
    install = [python, "-m", "pip", "install", "--quiet", *pinned, str(wheel.filename)]
    subprocess.run(install, check=True, timeout=600, cwd=tmp_path)
    walk = [python, ROOT / "docs" / "transcripts.py", "--check", "docs/tutorial/walks.md"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PATH"] = f"{binary(4).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(walk, capture_output=True, text=True, timeout=1200, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
