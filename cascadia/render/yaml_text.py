"""YAML that every parser reads alike, written from plain values."""

import re
from collections.abc import Iterable
from functools import lru_cache
from io import StringIO
from typing import Any

import yaml
from yaml.emitter import ScalarAnalysis

# Go's parsers (kubectl, compose) take these bare words for numbers or booleans where PyYAML does not.
_AMBIGUOUS = re.compile(r"[-+]?[.0-9][-+.:_0-9a-fox]*|[yn]|yes|no|on|off|true|false|null|~|", re.IGNORECASE)


class _Dumper(yaml.SafeDumper):
    """No anchors, and lists indented under their key."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)

    @staticmethod
    @lru_cache(maxsize=4096)
    def analyze_scalar(scalar: str) -> ScalarAnalysis:
        """The same, asked once of each text: keys and names come again in every object."""
        return _ASKED.analyze_scalar(scalar)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = '"' if _AMBIGUOUS.fullmatch(value) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)
_ASKED = yaml.SafeDumper(StringIO(), allow_unicode=True)


def yaml_text(documents: Iterable[Any]) -> str:
    """One or more YAML documents, keys in the order given."""
    return yaml.dump_all(
        list(documents), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=4096, explicit_start=False
    )
