"""Pydantic's findings as one `BadInput`: the most helpful one, in the user's words."""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from cascadia.domain.errors import BadInput
from cascadia.domain.names import NAME, NAME_RULE, STAGE

NAMED, DESCRIBED = "gpu by name", "gpu by figures"
"""Tags of the two ways to say what a pool's GPU is; no key of a spec is called so."""

_RIGHT_FILE = "is this the right file?"
UNKNOWN_KEY = "unknown key"
"""What is said of one."""
_UNKNOWN_KEYS = ("extra_forbidden", "unexpected_keyword_argument")
_BOUNDS = {
    "greater_than": ("gt", "greater than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}
_TYPES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "model_type": "a mapping",
    "dataclass_type": "a mapping",
    "model_attributes_type": "a mapping",
}


def bad_input(error: ValidationError, root: type[BaseModel], file: str, within: int = 0) -> BadInput:
    """The first finding, unknown keys before others: a mistyped key also leaves its right name missing.

    The first `within` keys of its path belong to `root`'s own wrapping and are not shown.
    """
    findings = error.errors(include_url=False)
    finding = min(findings, key=lambda found: found["type"] not in _UNKNOWN_KEYS)
    keys = tuple(key for key in finding["loc"] if key not in (NAMED, DESCRIBED))
    model = _model_at(root, keys[:-1])
    path = dotted(keys[within:])
    what, instead = _what_and_instead(finding, model)
    return BadInput(f"{file}: {path}" if path else file, what, instead or ("" if path else _RIGHT_FILE))


def dotted(keys: Sequence[int | str]) -> str:
    """('stages', 1, 'model') as `stages[1].model`."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return text.removeprefix(".")


def shown(value: object) -> str:
    """`value` as it may stand in one line of an error."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word that the user probably meant."""
    folded = {name.lower(): name for name in reversed(known)}
    matches = get_close_matches(word.lower()[:100], list(folded), n=1, cutoff=0.6)
    return folded[matches[0]] if matches else None


def _what_and_instead(finding: ErrorDetails, model: type | None) -> tuple[str, str]:
    kind, value, context = finding["type"], finding["input"], finding.get("ctx", {})
    known = list(_fields(model)) if model else []
    key = finding["loc"][-1] if finding["loc"] else ""
    if kind in _UNKNOWN_KEYS:
        meant = nearest(str(key), known)
        return UNKNOWN_KEY, f"did you mean {meant!r}?" if meant else f"known keys: {', '.join(known)}"
    if kind == "missing":
        description = _description(model, str(key))
        return "is missing", f"add it: {description}".rstrip(".") if description else "add it"
    if kind == "literal_error":
        allowed = [value.strip("'") for value in context["expected"].replace(" or ", ", ").split(", ")]
        meant = nearest(str(value), allowed)
        did_you_mean = f"did you mean {meant!r}?" if meant else f"write {context['expected']}"
        return f"is {shown(value)}, which is not known", did_you_mean
    if kind in _BOUNDS:
        bound, words = _BOUNDS[kind]
        return f"must be {words} {_plain(context[bound])}, is {shown(value)}", _percent_hint(context, value)
    if kind in _TYPES:
        return f"must be {_TYPES[kind]}, is {shown(value)}", _quote_hint(kind, value)
    if kind == "too_short":
        return "is empty", "give at least one entry"
    if kind == "too_long":
        return f"has more than {context['max_length']} entries", "leave some out"
    if kind == "value_error":
        what, _, instead = str(context["error"]).partition("; ")
        return what, instead
    if kind == "string_pattern_mismatch" and context["pattern"] in (NAME, STAGE):
        return f"is {shown(value)}, which is no name", NAME_RULE
    if kind == "json_invalid":
        return f"is not JSON ({context['error']})", _RIGHT_FILE
    if kind == "string_too_long":
        return f"has more than {context['max_length']} characters", "write fewer"
    message = finding["msg"]
    return message[:1].lower() + message[1:], ""


def _quote_hint(kind: str, value: object) -> str:
    if kind == "string_type" and isinstance(value, bool | int | float):
        return "put it in quotes"
    return "remove the quotes" if isinstance(value, str) and kind != "tuple_type" and _numeric(value) else ""


def _percent_hint(context: dict[str, Any], value: object) -> str:
    """Hint where a share of 1 was asked for, and a number of percent was given."""
    most = context.get("lt", context.get("le"))
    if most == 1 and isinstance(value, int | float) and 1 < value <= 100:
        return f"did you mean {value / 100:g}?"
    return ""


def _numeric(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal() or text in ("true", "false")


def _model_at(root: type[BaseModel], keys: Sequence[int | str]) -> type | None:
    """The model or dataclass whose keys stand at the path `keys` of `root`."""
    model: type | None = root
    for key in keys:
        if isinstance(key, str) and model is not None:
            model = _model_in(_fields(model).get(key))
    return model


def _description(model: type | None, key: str) -> str | None:
    if model is None or not issubclass(model, BaseModel):
        return None
    return model.model_fields[key].description


def _fields(model: Any) -> dict[str, Any]:
    """Names and annotations."""
    if issubclass(model, BaseModel):
        return {name: field.annotation for name, field in model.model_fields.items()}
    return {field.name: field.type for field in fields(model)}


def _model_in(annotation: Any) -> type | None:
    if isinstance(annotation, type) and (issubclass(annotation, BaseModel) or is_dataclass(annotation)):
        return annotation
    found = (_model_in(inner) for inner in get_args(annotation))
    return next((model for model in found if model is not None), None)


def _plain(bound: float) -> str:
    return str(int(bound)) if bound == int(bound) else str(bound)
