"""The reference page of the Helm chart's values, from its schema and its own values."""

from collections.abc import Iterator
from typing import Any

import yaml
from schema_pages import Schema, kind, table

from cascadia.render.kubernetes.chart_values import defaults


def helm_page(schema: Schema) -> Iterator[str]:
    yield "# The Helm chart's values"
    yield (
        "`deploy/helm/cascadia`. `cascadia plan` and `cascadia render --target helm-values` write `plan`, `cascade`, "
        "`stages` and `judge`; the rest has the defaults below, and yours go over them with a second `-f` or `--set`. "
        "Unknown keys are errors. [Run it on Kubernetes](../how-to/kubernetes.md) says what to set when."
    )
    values = defaults()
    plain = [
        key for key, entry in schema["properties"].items() if "properties" not in entry and key in values
    ]
    yield _rows({key: schema["properties"][key] for key in plain}, values, "")
    for key, entry in schema["properties"].items():
        if "properties" in entry:
            yield f"## `{key}`"
            yield entry["description"]
            yield _rows(entry["properties"], values[key], "")
    for name, entry in schema["$defs"].items():
        yield f"## A {name}"
        yield entry["description"]
        yield _rows(entry["properties"], {}, "")


def _rows(entries: Schema, values: dict[str, Any], path: str) -> str:
    return table(("key", "value", "default", "meaning"), list(_walk(entries, values, path)))


def _walk(entries: Schema, values: dict[str, Any], path: str) -> Iterator[tuple[str, ...]]:
    for key, entry in entries.items():
        if "properties" in entry:
            yield from _walk(entry["properties"], values.get(key) or {}, f"{path}{key}.")
            continue
        yield f"`{path}{key}`", _kind(entry), _default(values, key), entry["description"]


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
