"""Thresholds put into a router.yaml, everything else in it left as it stands, comments too."""

from collections.abc import Mapping
from pathlib import Path

import yaml

from cascadia.domain.errors import BadInput
from cascadia.files.text import read_text, write_whole
from cascadia.router.settings.file import read_settings

MAX_BYTES = 1_000_000


def set_thresholds(path: Path, thresholds: Mapping[str, float]) -> None:
    """Writes `thresholds`, by stage, into the file `path`. It is read as a router would before it takes its place.
    Raises `BadInput` where a stage is not there or has no `threshold` to change."""
    text = read_text(path, MAX_BYTES)
    places = _places(text, str(path))
    missing = [name for name in thresholds if name not in places]
    if missing:
        raise BadInput(str(path), f"no threshold of {', '.join(missing)}", "write `threshold: 0` into each")
    # From the end, so that the places before stay right.
    for name in sorted(thresholds, key=lambda name: places[name], reverse=True):
        start, stop = places[name]
        text = f"{text[:start]}{thresholds[name]:g}{text[stop:]}"
    beside = path.with_name(f".{path.name}.proposed")
    try:
        write_whole(beside, text)
        read_settings(beside)
    finally:
        beside.unlink(missing_ok=True)
    write_whole(path, text, path.stat().st_mode & 0o777)


def _places(text: str, where: str) -> dict[str, tuple[int, int]]:
    """The place where each stage's threshold stands."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise BadInput(where, f"is not YAML ({str(error).splitlines()[0]})", "mend it") from None
    stages = _member(node, "stages")
    found: dict[str, tuple[int, int]] = {}
    for stage in stages.value if isinstance(stages, yaml.SequenceNode) else ():
        name, level = _member(stage, "name"), _member(stage, "threshold")
        if isinstance(name, yaml.ScalarNode) and isinstance(level, yaml.ScalarNode):
            found[name.value] = (level.start_mark.index, level.end_mark.index)
    return found


def _member(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in node.value if name.value == key), None)
