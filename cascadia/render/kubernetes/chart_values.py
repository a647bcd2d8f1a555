"""The chart's own values, and how Helm puts others over them."""

from copy import deepcopy
from functools import cache
from importlib import resources
from typing import Any

import yaml

Values = dict[str, Any]


@cache
def _defaults() -> Values:
    file = resources.files("cascadia.render.kubernetes").joinpath("values.yaml")
    found: Values = yaml.safe_load(file.read_text(encoding="utf-8"))
    return found


def defaults() -> Values:
    """Values of the caller's own, to change as it likes."""
    return deepcopy(_defaults())


def merged(base: Values, over: Values) -> Values:
    """Values coalesced as Helm does it: maps member by member, anything else as a whole; null takes a member
    away.
    """
    result = dict(base)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


def whole_numbers(values: Any) -> Any:
    """Values as Helm writes numbers: 2.0 is 2."""
    if isinstance(values, dict):
        return {key: whole_numbers(value) for key, value in values.items()}
    if isinstance(values, list):
        return [whole_numbers(value) for value in values]
    return int(values) if isinstance(values, float) and values.is_integer() else values
