"""`plan.json`: a plan written and read back. Reading trusts nothing."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from cascadia.domain.errors import BadInput
from cascadia.domain.plan import FORMAT_VERSION, Plan
from cascadia.files.field_errors import UNKNOWN_KEY, bad_input, shown
from cascadia.files.kinds import refuse_other
from cascadia.files.plan_file_checks import check_plan
from cascadia.files.strict_yaml import parse_yaml
from cascadia.files.text import read_text, write_whole
from cascadia_sim.hardware.own import BadGpu

MAX_BYTES = 100_000_000
MOST_YAML = 100_000
_NOT_A_PLAN = "name a plan.json that `cascadia plan` wrote"

_OR_NEWER = "where a newer cascadia wrote it, upgrade cascadia, or plan anew"


class _PlanFile(BaseModel):
    """Carries the strictness to the plain dataclasses within."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    plan: Plan


@cache
def _plans() -> TypeAdapter[Plan]:
    return TypeAdapter(Plan)


def plan_json(plan: Plan) -> str:
    """The content of `plan.json`."""
    return _plans().dump_json(plan, indent=2).decode() + "\n"


def plan_schema() -> dict[str, object]:
    """The JSON schema of `plan.json`."""
    return _plans().json_schema()


def write_plan(plan: Plan, path: str | Path) -> None:
    """All or nothing. Raises `ValueError` for a plan that could not be read back, e.g. with an infinity."""
    text = plan_json(plan)
    try:
        parse_plan(text, "plan")
    except BadInput as error:
        raise ValueError(f"this plan could not be read back: {error}") from error
    write_whole(path, text)


def read_plan(path: str | Path) -> Plan:
    """The plan in the file `path`, or in the folder `path` that `cascadia plan` wrote."""
    file = Path(path) / "plan.json" if Path(path).is_dir() else Path(path)
    text = read_text(file, MAX_BYTES)
    # Only of a file that somebody named: YAML takes long, and whoever puts a plan at a router sends JSON.
    if len(text) <= MOST_YAML and not text.lstrip().startswith("{"):
        refuse_other(_as_yaml(text, str(file)), "plan", str(file))
    return parse_plan(text, str(file))


def parse_plan(text: str, where: str) -> Plan:
    """The plan in `text`; errors name `where`."""
    text = _with_gears_of_today(text, _checked(text, where))
    try:
        plan = _PlanFile.model_validate_json(f'{{"plan": {text}}}').plan
    except ValidationError as error:
        found = bad_input(error, _PlanFile, where, within=1)
        if found.what == UNKNOWN_KEY:
            found = replace(found, instead=f"{found.instead}; {_OR_NEWER}")
        raise found from None
    except BadGpu as error:
        raise BadInput(f"{where}: own_gpu.{error.where}", error.what, error.instead) from None
    check_plan(plan, where)
    return plan


def _checked(text: str, where: str) -> dict[str, Any]:
    """The document, of a version that is known."""
    try:
        document = from_json(text)
    except ValueError as error:
        raise BadInput(where, f"is not JSON ({error})", _NOT_A_PLAN) from None
    refuse_other(document, "plan", where)
    version = document.get("version") if isinstance(document, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BadInput(where, "is not a plan: it has no version", _NOT_A_PLAN)
    if version > FORMAT_VERSION:
        raise BadInput(
            where,
            f"was made by a newer version of cascadia (format {shown(version)}, known: {FORMAT_VERSION})",
            "upgrade cascadia, or plan anew",
        )
    assert isinstance(document, dict)
    return document


def _as_yaml(text: str, where: str) -> object:
    """The document of another kind of file; None where it is no YAML either."""
    try:
        return parse_yaml(text, where)
    except BadInput:
        return None


def _with_gears_of_today(text: str, document: dict[str, Any]) -> str:
    """Gears by `entry_stage`, of older plans, are one gear: nothing ever switched between them."""
    gears, stages = document.get("gears"), document.get("stages")
    if not (isinstance(gears, list) and gears and isinstance(gears[0], dict) and "entry_stage" in gears[0]):
        return text
    first = dict(gears[0])
    entry = first.pop("entry_stage")
    deployed = [s.get("name") for s in stages or [] if isinstance(s, dict) and s.get("replicas")]
    first["stages"] = deployed[deployed.index(entry) :] if entry in deployed else [entry]
    return to_json(document | {"gears": [{"max_in_flight": None} | first]}).decode()
