"""`controller.yaml`, with flags over it, as what the loop is made with. Bad input is told by its key, or its flag."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from cascadia.controller.decide.decide import MovePolicy
from cascadia.controller.decide.settings import Settings
from cascadia.controller.detect.detect import Detection
from cascadia.controller.settings.model import ControllerFile, Flag
from cascadia.domain.errors import BadInput
from cascadia.files.field_errors import bad_input
from cascadia.files.kinds import refuse_other
from cascadia.files.strict_yaml import parse_yaml
from cascadia.files.text import read_text

MAX_BYTES = 1_000_000
Given = Mapping[tuple[str, str], float]
"""Values of flags, by section and key."""


class Setting(NamedTuple):
    """A key of the file that has a flag."""

    section: str
    key: str
    flag: Flag
    field: FieldInfo


def flagged() -> Iterator[Setting]:
    """Settings that flags may change, in the order of the file."""
    for section, entry in ControllerFile.model_fields.items():
        for key, field in entry.annotation.model_fields.items():  # type: ignore[union-attr]
            for mark in field.metadata:
                if isinstance(mark, Flag):
                    yield Setting(section, key, mark, field)


def controller_schema() -> dict[str, Any]:
    """The JSON schema of `controller.yaml`."""
    return ControllerFile.model_json_schema()


def read_controller_file(path: Path | None, given: Given) -> ControllerFile:
    """Reads the file, if any, and lays the flags in `given` over it. Raises `BadInput`, naming the key or the flag."""
    document: object = {} if path is None else parse_yaml(read_text(path, MAX_BYTES), str(path))
    refuse_other(document, "controller", str(path))
    try:
        found = ControllerFile.model_validate({} if document is None else document)
    except ValidationError as error:
        raise bad_input(error, ControllerFile, str(path)) from None
    values = found.model_dump()
    for (section, key), value in given.items():
        values[section][key] = value
    try:
        return ControllerFile.model_validate(values)
    except ValidationError as error:
        keys = error.errors()[0]["loc"]
        (names,) = [s.flag.names for s in flagged() if (s.section, s.key) == keys]
        found_wrong = bad_input(error, ControllerFile, "")
        raise BadInput(names[0], found_wrong.what, found_wrong.instead) from None


def settings_of(file: ControllerFile, *, folder: Path, spec: Path, dry_run: bool) -> Settings:
    """Settings of the loop: each dataclass gets the keys that it has fields for."""
    values = {key: value for section in file.model_dump().values() for key, value in section.items()}
    return Settings(
        folder,
        spec,
        Detection(**_for(Detection, values)),
        MovePolicy(**_for(MovePolicy, values)),
        dry_run=dry_run,
        **_for(Settings, values),
    )


def _for(wanted: type, values: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: values[field.name] for field in fields(wanted) if field.name in values}
