"""A folder of results that is either wholly there or not there at all."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from cascadia.cli.interrupts import held
from cascadia.domain.errors import BadInput
from cascadia.files.atomic import unfinished

_ELSEWHERE = "name another with --out"


class Written(click.Path):
    """File that a command writes, which is none of those that it reads or writes besides."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)


def keep_others(given: click.Context) -> None:
    """Raises `BadInput` where a path to write is a file that another argument names, which writing it would destroy."""
    paths = [
        (param, one)
        for param in given.command.params
        if isinstance(param.type, click.Path) and (named := given.params.get(param.name or "")) is not None
        for one in (named if isinstance(named, tuple) else (named,))
    ]
    for written, target in paths:
        for other, path in paths:
            if other is not written and isinstance(written.type, Written) and _same(target, path):
                what = "is written twice" if isinstance(other.type, Written) else "is what is read"
                raise BadInput(str(target), what, "name another file to write")


def _same(target: Path, other: Path) -> bool:
    """Whether they are one file; the folder of a plan stands for the plan."""
    if target == other and not target.is_dir():
        return True
    other = other / "plan.json" if other.is_dir() else other
    return target.is_file() and other.exists() and target.samefile(other)


@contextmanager
def output_dir(path: str | Path, owned: Sequence[str], *, force: bool = False) -> Iterator[Path]:
    """A folder to write in, which becomes `path` when the block ends well and vanishes when it does not.

    It is made at once, so that an unwritable `path` is refused before any work. `owned` are the files that
    the command may write, by their paths inside; `owned[0]` marks a folder as its own. A folder that exists keeps
    all other files; where it has files but not the mark, it is refused unless `force`.
    """
    target = Path(os.path.abspath(path))
    _refuse_strangers(target, str(path), owned, force)
    anchor = target
    while not anchor.is_dir() and anchor != anchor.parent:
        anchor = anchor.parent
    with unfinished(anchor, ".cascadia-") as staging:
        try:
            staging.mkdir(mode=0o700)
        except OSError as error:
            raise _unwritable(str(path), error) from None
        try:
            yield staging
        except BadInput as error:
            # Whoever wrote knows the file by a name that the user never gave, and that is gone by now.
            if not error.where.startswith(str(staging)):
                raise
            raise BadInput(f"{path}{error.where[len(str(staging)) :]}", error.what, _ELSEWHERE) from None
        try:
            with held():
                _move(staging, target, owned)
        except OSError as error:
            raise _unwritable(str(path), error) from None


def _refuse_strangers(target: Path, shown: str, owned: Sequence[str], force: bool) -> None:
    try:
        if not target.exists():
            blocked = next((parent for parent in target.parents if parent.exists()), target)
            if not blocked.is_dir():
                raise BadInput(shown, f"{blocked.name} is a file, not a folder", _ELSEWHERE)
            return
        if not target.is_dir():
            raise BadInput(shown, "is a file, not a folder", _ELSEWHERE)
        for name in owned:
            if (target / name).is_dir():
                raise BadInput(f"{shown}/{name}", "is a folder where a file is written", _ELSEWHERE)
        if force or (target / owned[0]).exists() or not any(target.iterdir()):
            return
    except (OSError, ValueError) as error:
        raise _unwritable(shown, error) from None
    raise BadInput(shown, f"has files in it but no {owned[0]}", f"{_ELSEWHERE}, or add --force")


def _move(staging: Path, target: Path, owned: Sequence[str]) -> None:
    """A new folder appears in one step; in an old one the mark goes first and comes last. Raises `OSError`, with all
    that was there before in its place."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        umask = os.umask(0)
        os.umask(umask)
        staging.chmod(0o777 & ~umask)
        staging.rename(target)
        return
    with unfinished(target, ".cascadia-") as aside:
        aside.mkdir(mode=0o700)
        done: list[tuple[Path, Path]] = []
        try:
            for number, name in enumerate(owned):
                if os.path.lexists(target / name):
                    _rename(target / name, aside / str(number), done)
            for name in reversed(owned):
                if (staging / name).exists():
                    (target / name).parent.mkdir(parents=True, exist_ok=True)
                    _rename(staging / name, target / name, done)
        except OSError:
            for was, now in reversed(done):
                now.replace(was)
            raise


def _rename(old: Path, new: Path, done: list[tuple[Path, Path]]) -> None:
    old.replace(new)
    done.append((old, new))


def _unwritable(shown: str, error: OSError | ValueError) -> BadInput:
    reason = getattr(error, "strerror", None) or str(error)
    return BadInput(shown, f"cannot be written to ({reason})", _ELSEWHERE)
