"""`policies.json`: the policies of one group of models, written and read back."""

from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import to_json

from cascadia.domain.policy import Policies
from cascadia.files.field_errors import bad_input
from cascadia.files.text import read_text, write_whole

MAX_BYTES = 100_000_000


class _PoliciesFile(BaseModel):
    """Carries the strictness to the plain dataclasses within."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    policies: Policies


@cache
def _adapter() -> TypeAdapter[Policies]:
    return TypeAdapter(Policies)


def policies_json(policies: Policies) -> str:
    """The content of `policies.json`."""
    return _adapter().dump_json(policies).decode() + "\n"


def policies_document(policies: Policies) -> dict[str, object]:
    """The same as plain values, e.g. for a router's file."""
    found: dict[str, object] = _adapter().dump_python(policies, mode="json")
    return found


def policies_of(document: object, where: str) -> Policies:
    """Policies made of plain values. Raises `BadInput`, naming the key."""
    # As JSON: to a strict reader plain lists are no tuples.
    return _parsed(to_json(document).decode(), where)


def write_policies(policies: Policies, path: str | Path) -> None:
    """All or nothing."""
    write_whole(path, policies_json(policies))


def read_policies(path: str | Path) -> Policies:
    """The policies in the file `path`, or in the folder `path` that `cascadia policy` wrote."""
    file = Path(path) / "policies.json" if Path(path).is_dir() else Path(path)
    return _parsed(read_text(file, MAX_BYTES), str(file))


def _parsed(text: str, where: str) -> Policies:
    try:
        return _PoliciesFile.model_validate_json(f'{{"policies": {text}}}').policies
    except ValidationError as error:
        raise bad_input(error, _PoliciesFile, where, within=1) from None
