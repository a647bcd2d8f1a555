"""Options of `cascadia controller` that change what controller.yaml says, made from its keys."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from cascadia.cli.shared.options import number
from cascadia.controller.settings.file import Setting, flagged, read_controller_file

_FILE = click.option(
    "--settings",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Path of a controller.yaml; it says how traffic is watched, planned for and followed. Flags "
    "go over its keys. Default: none, and each key has its own default.",
)


def setting_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds --settings and a flag a key; `command` gets all of them as its keyword argument `tuned`."""
    settings = list(flagged())

    @wraps(command)
    def wrapper(*args: Any, file: Path | None, **options: Any) -> None:
        given = {(s.section, s.key): options.pop(_name(s)) for s in settings}
        told = {key: value for key, value in given.items() if value is not None}
        command(*args, tuned=read_controller_file(file, told), **options)

    found: Callable[..., None] = wrapper
    for setting in reversed(settings):
        found = _option(setting)(found)
    return _FILE(found)


def _option(setting: Setting) -> Callable[[Callable[..., None]], Callable[..., None]]:
    whole = setting.field.annotation is int
    return click.option(
        *setting.flag.names,
        _name(setting),
        type=int if whole else number,
        metavar="S" if setting.key.endswith("_s") else "N" if whole else "X",
        hidden=not setting.flag.listed,
        help=f"{setting.field.description} Default: {setting.field.default:g} (`{setting.section}.{setting.key}`).",
    )


def _name(setting: Setting) -> str:
    return f"{setting.section}_{setting.key}"
