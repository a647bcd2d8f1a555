"""Specs drawn from the whole schema: each key that a spec may have, with values that fit it, nearly fit, or do not."""

from random import Random
from typing import Any

from cascadia.planner.spec.model import Spec

SCHEMA = Spec.model_json_schema()
JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    0.5,
    10**30,
    "",
    "x",
    "0.1",
    [],
    {},
    [[]],
    {"a": 1},
    "\x00",
    "é" * 200,
)
MODELS = ("Qwen/Qwen2.5-1.5B-Instruct", "meta-llama/Llama-3.1-8B-Instruct", "deepseek-ai/DeepSeek-V3")
KNOWN = {
    "model": MODELS,
    "gpu": ("h100-sxm", "l40s", "a100-sxm"),
    "trace": ("trace.csv",),
    "table": ("quality.csv",),
    "name": ("small", "medium", "large"),
    "base_url": ("http://api.example/v1",),
    "calibration": ("nowhere.json",),
}
"""Of keys whose text must name something."""


def drawn(random: Random, base: dict[str, Any], changes: int) -> dict[str, Any]:
    """`base` with so many of its keys, or of those that it might have, drawn anew."""
    for _ in range(changes):
        _change(random, base, SCHEMA)
    return base


def _change(random: Random, value: dict[str, Any], schema: dict[str, Any]) -> None:
    properties = _resolved(schema).get("properties", {})
    if not properties:
        return
    key = random.choice(list(properties))
    inside, part = value.get(key), _resolved(properties[key])
    if isinstance(inside, list) and inside and "items" in part and random.random() < 0.8:
        inside, part = random.choice(inside), part["items"]
    if isinstance(inside, dict) and random.random() < 0.8:
        _change(random, inside, part)
        return
    value[key] = _value(random, properties[key], key)


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    while True:
        if "$ref" in schema:
            schema = SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[-1]]
        elif "anyOf" in schema:
            schema = next((s for s in schema["anyOf"] if s.get("type") != "null"), schema["anyOf"][0])
        else:
            return schema


def _value(random: Random, schema: dict[str, Any], key: str) -> Any:
    if random.random() < 0.1:
        return random.choice(JUNK)
    if "anyOf" in schema:
        return _value(random, random.choice(schema["anyOf"]), key)
    schema = _resolved(schema)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return random.choice(schema["enum"])
    kind = schema.get("type")
    if kind == "object":
        return {
            name: _value(random, part, name)
            for name, part in schema.get("properties", {}).items()
            if name in schema.get("required", ()) or random.random() < 0.3
        }
    if kind == "array":
        return [_value(random, schema["items"], key) for _ in range(random.randint(0, 3))]
    if kind in ("integer", "number"):
        least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
        most = schema.get("maximum", schema.get("exclusiveMaximum", 100))
        found = random.choice([least, most, least + 1, (least + most) / 2, random.uniform(least, most)])
        return int(found) if kind == "integer" else found
    if kind == "boolean":
        return random.random() < 0.5
    return random.choice(KNOWN.get(key, ("x", "small", "/nowhere", "a b")))
