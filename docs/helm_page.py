"""The reference page of the Helm chart's values, from its schema and its own values."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml
from schema_pages import Schema, kind

from cascadia.render.kubernetes.chart_values import defaults

PLANS = ("plan", "cascade", "stage", "group")
"""What `cascadia plan` writes, and nobody by hand: the file and the schema have its keys."""
PLAIN = ("text", "list", "map", "boolean")
SHARED = 2
"""So many values of the same last name, kind and meaning: they are described once."""

AS_OF_PODS = (
    *(
        "affinity",
        "env",
        "initContainers",
        "nodeSelector",
        "podAnnotations",
        "podLabels",
        "podSecurityContext",
    ),
    *("priorityClassName", "runtimeClassName", "securityContext", "tolerations", "volumeMounts", "volumes"),
)
"""Keys whose names say all: they are handed on."""

OF_ANY_POD = (
    *("affinity", "env", "nodeSelector", "podAnnotations", "podLabels", "podSecurityContext"),
    *("priorityClassName", "securityContext", "tolerations"),
)
"""Those that each group of pods has."""

Meaning = tuple[str, str, str]


class Row(NamedTuple):
    """A value: its path, what it may be, its default and what it means."""

    key: str
    kind: str
    default: str
    meaning: str


def helm_page(schema: Schema) -> Iterator[str]:
    yield "# The Helm chart's values"
    yield (
        "What each value of `deploy/helm/cascadia` means, and its default (`=`). `cascadia plan` and `cascadia render "
        "--target helm-values` write `plan`, `cascade`, `stages` and `judge`; yours go over them with a second `-f` or "
        "`--set`. Unknown keys are errors. [Run it on Kubernetes](../how-to/kubernetes.md) says what to set when."
    )
    values = defaults()
    plain = {
        key: entry
        for key, entry in schema["properties"].items()
        if "properties" not in entry and key in values
    }
    grouped = {key: entry for key, entry in schema["properties"].items() if "properties" in entry}
    parts = [
        *(entry["properties"] for entry in grouped.values()),
        *(d["properties"] for d in schema["$defs"].values()),
    ]
    used = Counter(_meaning(row) for part in parts for row in _walk(part, {}, ""))
    by_key: dict[str, Meaning] = {}
    for meaning, times in used.most_common():
        if times >= SHARED:
            by_key.setdefault(meaning[0], meaning)
    shared = set(by_key.values())
    yield _list(list(_walk(plain, values, "")))
    yield "## Keys of several groups"
    yield (
        f"As Kubernetes has them, of any pod: {', '.join(f'`{key}`' for key in OF_ANY_POD)}; of engines' pods also "
        f"{', '.join(f'`{key}`' for key in sorted({key for key, *_ in shared if key in AS_OF_PODS} - {*OF_ANY_POD}))}."
    )
    yield "\n".join(
        sorted(
            f"- `…{key}`{f' ({kind})' if kind.startswith('`') else ''}: {meaning}"
            for key, kind, meaning in shared
            if key not in AS_OF_PODS
        )
    )
    for key, entry in grouped.items():
        if key not in PLANS:
            yield f"## `{key}`"
            yield from _section(entry, values[key], shared)
    told = shared | {
        _meaning(row) for entry in grouped.values() for row in _walk(entry["properties"], {}, "")
    }
    for name, entry in schema["$defs"].items():
        if name not in PLANS:
            yield f"## {'An' if name.startswith('e') else 'A'} {name}"
            yield from _section(entry, {}, told)


def _section(entry: Schema, values: dict[str, Any], shared: set[Meaning]) -> Iterator[str]:
    yield entry["description"]
    rows = list(_walk(entry["properties"], values, ""))
    own = [row for row in rows if _meaning(row) not in shared]
    if own:
        yield _list(own)
    if len(own) < len(rows):
        also = [row for row in rows if row not in own]
        pods = [
            stem
            for stem in ("", "service.")
            if {f"{stem}{key}" for key in OF_ANY_POD} <= {r.key for r in also}
        ]
        told = {f"{stem}{key}" for stem in pods for key in OF_ANY_POD}
        names = [
            f"`{row.key}`{f' {row.default}' if row.default else ''}" for row in also if row.key not in told
        ]
        names += [f"`{stem}…` the keys of any pod" if stem else "the keys of any pod" for stem in pods]
        yield f"[Also](#keys-of-several-groups): {', '.join(names)}."


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
