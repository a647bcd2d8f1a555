"""Reading `cascade.yaml`. Whatever is wrong with it comes out as one `BadInput`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from cascadia.domain.errors import BadInput
from cascadia.files.field_errors import bad_input, shown
from cascadia.files.strict_yaml import MAX_BYTES, parse_yaml
from cascadia.files.text import read_text
from cascadia.planner.spec.model import Spec
from cascadia.planner.spec.policy import PolicySpec

Read = TypeVar("Read", bound=BaseModel)


def read_spec(path: str | Path) -> Spec:
    """The spec in the file `path`. Errors name the file as given, not its folder."""
    file = Path(path).name or str(path)
    return parse_spec(read_text(path, MAX_BYTES), file)


def parse_spec(text: str, file: str) -> Spec:
    """The spec in `text`; errors name `file`."""
    return check_spec(parse_yaml(text, file), file)


def read_policy_spec(path: str | Path) -> PolicySpec:
    """The spec of one-pass models in the file `path`."""
    file = Path(path).name or str(path)
    return _checked(PolicySpec, parse_yaml(read_text(path, MAX_BYTES), file), file)


def check_spec(document: object, file: str) -> Spec:
    """The spec made of plain values."""
    return _checked(Spec, document, file)


def _checked(model: type[Read], document: object, file: str) -> Read:
    if document is None:
        raise BadInput(file, "is empty", "write a spec, or let `cascadia init` write one")
    if not isinstance(document, Mapping):
        raise BadInput(
            file,
            f"must be a mapping, is {shown(document)}",
            f"begin with the keys {', '.join(model.model_fields)}",
        )
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise bad_input(error, model, file) from None
