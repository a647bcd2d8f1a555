"""Models as arguments: `FOLDER` or `NAME=FOLDER`, where `@layer-2` behind it stands for an exit of that model."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cascadia.domain.errors import BadInput
from cascadia.domain.names import LayerExit, point_of

if TYPE_CHECKING:
    from cascadia.onepass.runner import Exits, Runner


class Named(NamedTuple):
    """`called`: None where it is called as its folder says."""

    called: str | None
    folder: Path
    at: LayerExit | None


def named(model: str) -> Named:
    """A folder that is there is meant, whatever its name."""
    if _at(model).folder.is_dir():
        return _at(model)
    name, equals, folder = model.partition("=")
    if not equals:
        return _at(model)
    if not name:
        raise BadInput("MODEL", f"{model!r} has no name before =", "write e.g. small=models/intent-1")
    return _at(folder)._replace(called=name)


def _at(text: str) -> Named:
    if Path(text).is_dir():
        return Named(None, Path(text), None)
    folder, at = point_of(text)
    return Named(None, Path(folder), at)


def runners_of(
    models: Iterable[Named], threads: int, exits: "Callable[[Path], Exits | None]" = lambda _: None
) -> "list[Runner]":
    """A runner each; `exits` are of those that are no exit themselves. One folder's weights are read once, and once
    more for each layer behind which passes end. Raises `BadInput`.
    """
    from cascadia.onepass.layers import LayerPasses, behind
    from cascadia.onepass.runner import Runner

    whole: dict[Path, Runner] = {}
    cut: dict[tuple[Path, int], LayerPasses] = {}
    found = []
    for called, folder, at in models:
        runner = whole.get(folder) or whole.setdefault(folder, Runner.read(folder, threads))
        if at is None:
            runner = replace(runner, exits=exits(folder))
        else:
            passes = cut.get((folder, at.layer)) or behind(runner, folder, at.layer, threads)
            cut[folder, at.layer] = passes
            runner = replace(runner, exits=passes.at(at)).called(f"{runner.model.name}{at}")
        found.append(runner if called is None else runner.called(called))
    return found
