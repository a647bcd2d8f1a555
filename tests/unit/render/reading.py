"""YAML read back: by libyaml where it is there, which is ten times as fast."""

from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def documents(text: str) -> list[Any]:
    return list(yaml.load_all(text, Loader=_LOADER))
