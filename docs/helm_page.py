"""The reference page of the Helm chart's values, from its schema and its own values."""

import csv
from collections import Counter
from collections.abc import Iterator
from io import StringIO
from typing import Any, NamedTuple

import yaml
from schema_pages import Schema, kind

from cascadia.render.kubernetes.chart_values import defaults

PLANS = ("plan", "cascade", "stage", "group")
"""What `cascadia plan` writes, and nobody by hand: the file and the schema have its keys."""
PLAIN = ("text", "list", "map", "boolean")
FEWEST = 3
"""A group with fewer values of its own stands in the table alone."""

SHARED = 2
"""So many values of the same last name, kind and meaning: they are described once."""

Meaning = tuple[str, str, str]


class Row(NamedTuple):
    """A value: its path, what it may be, its default and what it means."""

    key: str
    kind: str
    default: str
    meaning: str


PLACES = {"stage's engines": "engines.perStage.NAME.", "externalStage": "externalStages[]."}
"""Of parts of the schema that stand at several places, where."""


def helm_page(schema: Schema) -> Iterator[str]:
    yield "# The Helm chart's values"
    yield (
        "What the values of `deploy/helm/cascadia` mean, and their defaults (`=`). `cascadia plan` and "
        "`cascadia render --target helm-values` write `plan`, `cascade`, `stages` and `judge`; yours go over them "
        "with a second `-f` or `--set`. Unknown keys are errors. [Run it on Kubernetes](../how-to/kubernetes.md) says "
        "what to set when."
    )
    yield (
        "[A table](data/helm-values.csv) has every value with what it may be. Those that several groups have stand "
        "only there: images, resources, what Kubernetes' pods and containers have, and what a plan writes."
    )
    values, parts = defaults(), _parts(schema)
    used = Counter(_meaning(row) for rows in parts.values() for row in rows)
    shared = {meaning for meaning, times in used.items() if times >= SHARED}
    yield _list(list(_walk(_plain(schema, values), values, "")))
    for key, entry in _grouped(schema).items():
        own = [row for row in _walk(entry["properties"], values[key], "") if _meaning(row) not in shared]
        if len(own) >= FEWEST:
            yield f"## `{key}`"
            yield entry["description"]
            yield _list(own)
    for name, path in PLACES.items():
        own = [row for row in parts[name] if _meaning(row) not in shared]
        if own:
            yield f"## `{path.removesuffix('.')}`"
            yield schema["$defs"][name]["description"]
            yield _list(own)


def helm_file(schema: Schema) -> str:
    """Every value as CSV: its path, default, what it may be, and its meaning."""
    values = defaults()
    rows = [*_walk(_plain(schema, values), values, "")]
    for key, entry in _grouped(schema).items():
        rows += _walk(entry["properties"], values[key], f"{key}.")
    for name, path in PLACES.items():
        rows += _walk(schema["$defs"][name]["properties"], {}, path)
    stream = StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("value", "default", "what it may be", "meaning"))
    writer.writerows(
        [[cell.replace("`", "") for cell in (r.key, r.default, r.kind, r.meaning)] for r in rows]
    )
    return stream.getvalue()


def _plain(schema: Schema, values: dict[str, Any]) -> dict[str, Schema]:
    return {
        k: entry for k, entry in schema["properties"].items() if "properties" not in entry and k in values
    }


def _grouped(schema: Schema) -> dict[str, Schema]:
    return {k: entry for k, entry in schema["properties"].items() if "properties" in entry and k not in PLANS}


def _parts(schema: Schema) -> dict[str, list[Row]]:
    """The values of each group and of each part that stands at several places."""
    grouped = {k: entry for k, entry in schema["properties"].items() if "properties" in entry} | schema[
        "$defs"
    ]
    return {name: list(_walk(entry["properties"], {}, "")) for name, entry in grouped.items()}


def _list(rows: list[Row]) -> str:
    return "\n".join(f"- `{row.key}`{_told(row)}: {row.meaning}" for row in rows)


def _told(row: Row) -> str:
    """Its default, and of what it may be that which neither default nor meaning shows."""
    shown = row.kind if row.kind.startswith("`") or not row.default else ""
    parts = [part for part in ("" if shown in PLAIN else shown, row.default and f"={row.default}") if part]
    return f" ({'; '.join(parts)})" if parts else ""


def _meaning(row: Row) -> Meaning:
    return row.key.rpartition(".")[2], row.kind, row.meaning


def _walk(entries: Schema, values: dict[str, Any], path: str) -> Iterator[Row]:
    for key, entry in entries.items():
        if "properties" in entry:
            yield from _walk(entry["properties"], values.get(key) or {}, f"{path}{key}.")
            continue
        yield Row(f"{path}{key}", _kind(entry), _default(values, key), entry["description"])


def _kind(entry: Schema) -> str:
    if entry.get("type") == "array":
        return "list"
    if entry.get("type") == "object":
        return "map"
    return kind({key: value for key, value in entry.items() if key != "$ref"})


def _default(values: dict[str, Any], key: str) -> str:
    if key not in values or values[key] in ("", [], {}):
        return ""
    text = yaml.safe_dump(values[key], default_flow_style=True, width=1000, sort_keys=False)
    return f"`{text.removesuffix('...' + chr(10)).strip()}`"
