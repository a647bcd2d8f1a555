"""YAML as configuration needs it: no aliases, no tags, no duplicate keys, and YAML 1.2's scalars.

YAML 1.1 reads `no` as false, `1:30` as 90 and `1e3` as text; none of that is what a spec's author means.
"""

import re
from typing import Any

import yaml

from cascadia.domain.errors import BadInput

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
_MAX_DIGITS = 400  # of an integer; beyond it not even a float holds the value
_INTEGER = re.compile(r"[-+]?[0-9]+").fullmatch
_SYNTAX = "check indentation, quotes and brackets there"


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (the base's API)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:str":
                raise _Refused(key.start_mark.line, "a key is not text", "quote it")
            if key.value in seen:
                raise _Refused(key.start_mark.line, f"key {key.value!r} is given twice", "keep one of them")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


for _name, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(0|[1-9][0-9]*)", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", list("-+.")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(rf"^(?:{_pattern})$"), _first)


class _Refused(Exception):
    def __init__(self, line: int, what: str, instead: str) -> None:
        self.line, self.what, self.instead = line + 1, what, instead


def parse_yaml(text: str, where: str) -> object:
    """The one document in `text` as plain values. Raises `BadInput` naming `where` and the line."""
    if len(text) > MAX_BYTES:
        raise BadInput(where, f"is larger than {MAX_BYTES:,} bytes", "is this the right file?")
    try:
        _refuse_surprises(text)
        return yaml.load(text, Loader=_Loader)
    except _Refused as refused:
        raise BadInput(f"{where} line {refused.line}", refused.what, refused.instead) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" line {mark.line + 1}" if mark else ""
        problem = str(error.problem or error.context)
        if r"'\t'" in problem:
            raise BadInput(
                f"{where}{line}", "has a tab where YAML wants blanks", "indent with blanks"
            ) from None
        raise BadInput(f"{where}{line}", f"is not YAML ({problem})", _SYNTAX) from None
    except yaml.YAMLError:
        raise BadInput(where, "is not YAML (it holds control characters)", "save it as UTF-8") from None


def _refuse_surprises(text: str) -> None:
    """One pass over the events, before anything is built from them."""
    depth = documents = 0
    for event in yaml.parse(text, Loader=_Loader):
        line = event.start_mark.line if event.start_mark else 0
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        if documents > 1:
            raise _Refused(line, "a second document begins", "keep one document a file")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _Refused(line, "anchors and aliases are not supported", "write the value out")
        if tag := getattr(event, "tag", None):
            raise _Refused(line, f"tags ({tag}) are not supported", "remove it")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise _Refused(line, f"is nested more than {MAX_DEPTH} deep", "flatten it")
        if isinstance(event, yaml.ScalarEvent) and len(event.value) > _MAX_DIGITS and _INTEGER(event.value):
            raise _Refused(line, "a number has too many digits", "write a smaller one")
