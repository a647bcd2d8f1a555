"""A custom resource's definition as a JSON schema that knows no other fields."""

from pathlib import Path
from typing import Any

from tests.unit.render.reading import documents

_PLAIN = ("properties", "items", "not", "additionalProperties", "allOf", "anyOf", "oneOf")
_DROPPED = ("default", "description", "example", "nullable")


def strict_schema(definition: Path, version: str) -> dict[str, Any]:
    (found,) = documents(definition.read_text())
    schema = next(v["schema"]["openAPIV3Schema"] for v in found["spec"]["versions"] if v["name"] == version)
    strict: dict[str, Any] = _strict(schema)
    strict["properties"]["metadata"] = {"type": "object"}
    return strict


def _strict(schema: Any, closed: bool = True) -> Any:
    if not isinstance(schema, dict):
        return schema
    result = {
        k: v for k, v in schema.items() if not k.startswith("x-kubernetes-") and k not in (*_PLAIN, *_DROPPED)
    }
    if "properties" in schema:
        result["properties"] = {name: _strict(s) for name, s in schema["properties"].items()}
        if closed and not schema.get("x-kubernetes-preserve-unknown-fields"):
            result.setdefault("additionalProperties", False)
    for key in ("items", "not", "additionalProperties"):
        if key in schema:
            result[key] = _strict(schema[key])
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema:
            result[key] = [_strict(s, closed=False) for s in schema[key]]
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    if schema.get("nullable") and "type" in result:
        result["type"] = [result["type"], "null"]
    return result
