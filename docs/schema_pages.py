"""The reference pages of the spec and of plan.json, from their JSON schemas."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from cascadia.controller.settings.file import controller_schema, flagged
from cascadia.files.plan_file import plan_schema
from cascadia.planner.spec.model import Spec

Schema = dict[str, Any]
PLAUSIBLE = 100_000
"""A larger upper bound only guards against nonsense, and is not told."""

PLAIN_BOUNDS = (("≥ 0",), ("≥ 1",), ("> 0",))
"""No count, price or length lies below these."""

MANY_ALIKE = 6
"""So many keys that a section shares with one before are not described again."""

READ_BY_OTHERS = (
    *(
        "Objective",
        "Level",
        "StagePlan",
        "ReplicaGroup",
        "JudgePlan",
        "Predicted",
        "Quantiles",
        "QualityPrediction",
    ),
    *(
        "StagePrediction",
        "LevelPrediction",
        "Gear",
        "GearPrediction",
        "Proof",
        "ErrorRange",
        "QuestionRange",
        "Stability",
        "Mixture",
    ),
    *("UnderLoad", "NodeLoss"),
)
"""Parts of a plan that people and programs of theirs look at: the schema alone has the keys of the others."""

WRITTEN = ("number", "text", "integer", "boolean", "list of number", "list of text")
"""Kinds that a plan itself shows."""


def spec_page() -> Iterator[str]:
    yield "# The spec: `cascade.yaml`"
    yield (
        "What a spec may say, key by key. Unknown keys are errors that name the nearest known one. Relative paths "
        "start at the spec's own folder. `cascadia schema spec` prints the JSON schema, for editors; `cascadia init` "
        "writes a spec to start from. YAML is read as version 1.2 has it (`no` is text), without aliases, tags or "
        "duplicate keys."
    )
    schema = Spec.model_json_schema()
    yield from section("cascade.yaml", schema)
    before: dict[str, Schema] = {}
    for name, key in (
        ("StageSpec", "stages[]"),
        ("SpeculationSpec", "stages[].speculation"),
        ("ExitSpec", "stages[].exits[]"),
        ("PoolSpec", "cluster.pools[]"),
        ("GpuSpec", "cluster.pools[].gpu"),
        ("TflopsSpec", "cluster.pools[].gpu.tflops"),
        ("JudgeSpec", "judge"),
        ("WorkloadSpec", "workload"),
        ("QualitySpec", "quality"),
        ("ObjectiveSpec", "objective"),
    ):
        yield from section(key, schema["$defs"][name], before)
        before[key] = schema["$defs"][name]


def plan_page() -> Iterator[str]:
    yield "# The plan: `plan.json`"
    yield (
        "What `cascadia plan` decided and expects; every other command reads it. Kinds of plain values are left out; "
        "`[]` is a list. A plan of a newer `version` is refused. `cascadia schema plan` prints the JSON schema, with "
        "all keys of the parts that this page only names. Names end in their unit (`_s` seconds, `_rps` requests per "
        "second, `_usd`); scores and quality are 0-100, shares 0-1."
    )
    schema: Schema = dict(plan_schema())
    yield from section("plan.json", _optional(schema), untold=WRITTEN)
    before: dict[str, Schema] = {}
    for name in dict.fromkeys(referred(schema, schema["$defs"])):
        if name not in READ_BY_OTHERS:
            continue
        definition = _optional(schema["$defs"][name])
        _, told, *parts = section(name, definition, before, brief=True, untold=WRITTEN)
        yield " ".join((f"**`{name}`**: {told}", *parts))
        before[name] = definition


def _optional(schema: Schema) -> Schema:
    """`schema` without what matters to a writer only: which keys are required, and the defaults of the others."""
    entries = {
        key: {k: v for k, v in entry.items() if k != "default"} for key, entry in schema["properties"].items()
    }
    return {**schema, "required": [], "properties": entries}


def controller_settings() -> Iterator[str]:
    """The keys of controller.yaml, a section each, with the flags that go over them."""
    flags = {(setting.section, setting.key): setting.flag.names for setting in flagged()}
    schema = controller_schema()
    for name, entry in schema["properties"].items():
        part = schema["$defs"][entry["$ref"].rpartition("/")[2]]
        yield f"**`{name}`**: {part['description']}"
        yield "\n".join(
            f"- `{key}` ({_of_a_key(value, flags.get((name, key), ()))}): {value['description']}"
            for key, value in part["properties"].items()
        )


def _of_a_key(value: Schema, flags: Sequence[str]) -> str:
    """The flags that go over a key, and its default."""
    default = json.dumps(value["default"]) if isinstance(value["default"], bool) else f"{value['default']:g}"
    return "; ".join([*([", ".join(f"`{flag}`" for flag in flags)] if flags else []), f"`{default}`"])


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


def section(
    title: str,
    schema: Schema,
    before: Mapping[str, Schema] = MappingProxyType({}),
    *,
    brief: bool = False,
    untold: Collection[str] = (),
) -> Iterator[str]:
    """A heading, what the thing is, and its keys; those alike in a section `before` are only named. Kinds that are
    `untold` go without saying."""
    yield f"## `{title}`"
    if description := schema.get("description"):
        yield description.split("\n\n")[0] if brief else description
    required = schema.get("required", [])
    entries = dict(schema["properties"])
    for name, other in before.items():
        alike = [key for key, entry in entries.items() if other["properties"].get(key) == entry]
        if len(alike) >= MANY_ALIKE:
            entries = {key: entry for key, entry in entries.items() if key not in alike}
            yield f"As in `{name}`: {', '.join(f'`{key}`' for key in alike)}."
    yield from keys(entries, required, untold)


def keys(entries: Schema, required: Sequence[str], untold: Collection[str] = ()) -> Iterator[str]:
    """A list of those that are described, after a sentence with the others."""
    told = {
        key: f"`{key}`{_told(_brief(entry, untold) if untold else kind(entry), _need(key, entry, required))}"
        for key, entry in sorted(entries.items(), key=lambda item: item[0] not in required)
    }
    bare = [text for key, text in told.items() if not entries[key].get("description")]
    if bare:
        yield f"{', '.join(bare)}."
    described = [f"- {text}: {entries[key]['description']}" for key, text in told.items() if text not in bare]
    if described:
        yield "\n".join(described)


def _brief(entry: Schema, untold: Collection[str]) -> str:
    """The kind of a key in a file that nobody writes by hand: `[]` stands for a list."""
    found = kind(entry)
    name = found.removeprefix("list of ")
    return "" if found in untold else f"{name}[]" if found != name and name.isalnum() else found


def _told(kind: str, need: str) -> str:
    """In brackets what is not plain: numbers and texts are known by their names, and what they may be by a default."""
    if need.startswith("=") and kind.startswith(("number", "integer", "boolean", "text")):
        kind = ""
    parts = [part for part in (kind, need) if part not in ("", "number", "integer", "text")]
    return f" ({'; '.join(parts)})" if parts else ""


def _need(key: str, entry: Schema, required: Sequence[str]) -> str:
    return "required" if key in required else default(entry)


def default(entry: Schema) -> str:
    value = entry.get("default")
    return "" if value is None else f"=`{str(value).lower() if isinstance(value, bool) else value}`"


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
    words = {"integer": "integer", "string": "text", "boolean": "boolean"}
    return words.get(entry.get("type", ""), entry.get("type", "")) + bounds(entry)


def bounds(entry: Schema) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    told = [f"{sign} {entry[key]:g}" for key, sign in signs.items() if entry.get(key, PLAUSIBLE) < PLAUSIBLE]
    return f" {' and '.join(told)}" if told and tuple(told) not in PLAIN_BOUNDS else ""


def plain_table(head: Sequence[str], rows: Sequence[tuple[str, ...]]) -> str:
    """A table without outer bars."""
    head_line, *body = (
        " | ".join(cell.replace("|", "\\|") for cell in line).rstrip() for line in (head, *rows)
    )
    return "\n".join((head_line, "|".join("---" for _ in head), *body))
