"""The reference pages of the spec and of plan.json, from their JSON schemas."""

from collections.abc import Iterator
from typing import Any

from cascadia.files.plan_file import plan_schema
from cascadia.planner.spec.model import Spec

Schema = dict[str, Any]
PLAUSIBLE = 100_000
"""A larger upper bound only guards against nonsense, and is not told."""


def spec_page() -> Iterator[str]:
    yield "# The spec: `cascade.yaml`"
    yield (
        "What to plan. Unknown keys are errors that name the nearest known one. Relative paths start at the "
        "spec's own folder. `cascadia schema spec` prints the JSON schema, for editors; `cascadia init` writes a "
        "spec to start from. YAML is read as version 1.2 has it (`no` is text), without aliases, tags or "
        "duplicate keys."
    )
    schema = Spec.model_json_schema()
    yield from section("cascade.yaml", schema)
    for name, key in (
        ("StageSpec", "stages[]"),
        ("PoolSpec", "cluster.pools[]"),
        ("GpuSpec", "cluster.pools[].gpu"),
        ("TflopsSpec", "cluster.pools[].gpu.tflops"),
        ("JudgeSpec", "judge"),
        ("WorkloadSpec", "workload"),
        ("QualitySpec", "quality"),
        ("ObjectiveSpec", "objective"),
    ):
        yield from section(key, schema["$defs"][name])


def plan_page() -> Iterator[str]:
    yield "# The plan: `plan.json`"
    yield (
        "What `cascadia plan` decided and expects, read back by every other command. `version` is that of this "
        "format; a plan of a newer version is refused. `cascadia schema plan` prints the JSON schema. Names end "
        "in their unit (`_s` seconds, `_rps` requests per second, `_usd`); scores and quality are 0-100, shares "
        "and fractions 0-1."
    )
    schema: Schema = dict(plan_schema())
    yield from section("plan.json", schema)
    for name in dict.fromkeys(referred(schema, schema["$defs"])):
        yield from section(name, schema["$defs"][name])


def referred(schema: Schema, definitions: Schema) -> Iterator[str]:
    """The definitions that `schema` uses, in the order of its keys, each followed by those it uses itself."""
    for entry in schema.get("properties", {}).values():
        for choice in (entry, entry.get("items", {}), named(entry), *entry.get("anyOf", ())):
            name = choice.get("$ref", "").rpartition("/")[2]
            if name:
                yield name
                yield from referred(definitions[name], definitions)


def named(entry: Schema) -> Schema:
    """Of an object whose keys are names: what stands under each; empty for any other entry."""
    found = entry.get("additionalProperties", {})
    return found if isinstance(found, dict) else {}


def section(title: str, schema: Schema) -> Iterator[str]:
    """A heading, what the thing is, and a table of its keys: those that must be there first."""
    yield f"## `{title}`"
    if description := schema.get("description"):
        yield description
    required = schema.get("required", [])
    keys = sorted(schema["properties"].items(), key=lambda item: item[0] not in required)
    rows = [
        (
            f"`{key}`",
            kind(entry),
            "required" if key in required else default(entry),
            entry.get("description", ""),
        )
        for key, entry in keys
    ]
    columns = 3 + any(row[3] for row in rows)
    yield table(("key", "value", "default", "meaning")[:columns], [row[:columns] for row in rows])


def default(entry: Schema) -> str:
    value = entry.get("default")
    return "" if value is None else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def kind(entry: Schema) -> str:
    """What may stand there, in a few words."""
    if "$ref" in entry:
        return str(entry["$ref"]).rpartition("/")[2].removesuffix("Spec")
    if "const" in entry:
        return f"`{entry['const']}`"
    if "enum" in entry:
        return ", ".join(f"`{value}`" for value in entry["enum"])
    for choices in ("anyOf", "oneOf"):
        if choices in entry:
            return " or ".join(kind(choice) for choice in entry[choices] if choice.get("type") != "null")
    if "prefixItems" in entry:
        return "[" + ", ".join(kind(item) for item in entry["prefixItems"]) + "]"
    if named(entry):
        return f"{kind(named(entry))} by name"
    if entry.get("type") == "array":
        return f"list of {kind(entry['items'])}"
    words = {"integer": "whole number", "string": "text", "boolean": "true or false"}
    return words.get(entry.get("type", ""), entry.get("type", "")) + bounds(entry)


def bounds(entry: Schema) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    told = [f"{sign} {entry[key]:g}" for key, sign in signs.items() if entry.get(key, PLAUSIBLE) < PLAUSIBLE]
    return f" ({', '.join(told)})" if told else ""


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
