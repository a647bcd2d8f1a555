"""Reading `cascade.yaml`. Whatever is wrong with it comes out as one `BadInput`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from cascadia.domain.errors import BadInput
from cascadia.files.field_errors import bad_input, shown
from cascadia.files.kinds import refuse_other
from cascadia.files.strict_yaml import MAX_BYTES, parse_yaml
from cascadia.files.text import read_text
from cascadia.planner.spec.model import Spec
from cascadia.planner.spec.policy import PolicySpec

Read = TypeVar("Read", bound=BaseModel)


def read_spec(path: str | Path) -> Spec:
    """The spec in the file `path`. Errors name the file as given, not its folder."""
    file = Path(path).name or str(path)
    return parse_spec(_text(path), file)


def _text(path: str | Path) -> str:
    if Path(path).is_fifo():
        raise BadInput(
            str(path), "is a stream, and a spec is read more than once", "write it to a file first"
        )
    return read_text(path, MAX_BYTES)


def parse_spec(text: str, file: str) -> Spec:
    """The spec in `text`; errors name `file`."""
    return check_spec(parse_yaml(text, file), file)


def read_policy_spec(path: str | Path) -> PolicySpec:
    """The spec of one-pass models in the file `path`."""
    file = Path(path).name or str(path)
    document = parse_yaml(_text(path), file)
    if isinstance(document, Mapping) and "cluster" in document:
        raise BadInput(file, "is of models that write their answers", "use `cascadia plan`")
    return _checked(PolicySpec, document, file)


def answers_in_one_pass(path: str | Path) -> bool:
    """Tells whether the spec in the file `path` is of models that answer in one pass. Raises `BadInput` where only some
    of its stages are."""
    file = Path(path).name or str(path)
    one_pass = _in_one_pass(parse_yaml(_text(path), file))
    if any(one_pass) and not all(one_pass):
        at = one_pass.index(False)
        raise BadInput(
            f"{file}: stages[{at}]",
            "writes its answers, and another stage gives them in one pass",
            "write two specs, and run a router for each: a guard and what it guards are asked one after the other",
        )
    return any(one_pass)


def _in_one_pass(document: object) -> list[bool]:
    """Tells of each stage whether it is answered in one pass: whether it has another task than writing."""
    stages = document.get("stages") if isinstance(document, Mapping) else None
    found = [stage for stage in stages if isinstance(stage, Mapping)] if isinstance(stages, list) else []
    # What is no task of ours is told by the spec of one-pass models, which says what there is.
    return [stage.get("task", "generate") != "generate" for stage in found]


def check_spec(document: object, file: str) -> Spec:
    """The spec made of plain values."""
    if (one_pass := _in_one_pass(document)) and all(one_pass):
        raise BadInput(
            file,
            "is of models that answer in one pass, which this command does not take",
            "use `cascadia plan`, `simulate` and `up`, or `cascadia policy --compare` beside what others do; a plan's "
            "policies are for all loads of its traffic",
        )
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
    refuse_other(document, "spec", file)
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise bad_input(error, model, file) from None
