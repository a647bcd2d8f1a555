"""values.schema.json describes every value there is, and refuses others."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from cascadia.render.kubernetes.chart_values import defaults, merged
from tests.unit.deploy.chart import CHART, run_helm
from tests.unit.deploy.matrix import MATRIX

Schema = dict[str, Any]
SCHEMA: Schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)


def described(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    for key, entry in schema.get("properties", {}).items():
        yield f"{path}.{key}", entry
        yield from described(entry, f"{path}.{key}")
    if isinstance(schema.get("items"), dict):
        yield from described(schema["items"], f"{path}[]")
    for name, entry in schema.get("$defs", {}).items():
        yield from described(entry, name)


def test_each_value_has_a_description() -> None:
    found = list(described(SCHEMA))
    assert len(found) > 120
    missing = [path for path, entry in found if not entry.get("description", "").endswith((".", ")"))]
    assert missing == []


def test_the_charts_own_values_are_all_in_the_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    VALIDATOR.validate(defaults())

    def walk(schema: Schema, values: Any, path: str) -> Iterator[str]:
        for key, value in values.items():
            entry = schema.get("properties", {}).get(key)
            if entry is None:
                yield f"{path}.{key}"
            elif isinstance(value, dict) and "properties" in entry:
                yield from walk(entry, value, f"{path}.{key}")

    assert list(walk(SCHEMA, defaults(), "")) == []


@pytest.mark.parametrize("name", list(MATRIX))
def test_values_of_plans_fit(name: str) -> None:
    VALIDATOR.validate(merged(defaults(), MATRIX[name].values))


WRONG: dict[str, dict[str, Any]] = {
    "an unknown key": {"routr": {}},
    "an unknown key of the router": {"router": {"replica": 3}},
    "replicas in words": {"router": {"replicas": "three"}},
    "a digest that is none": {"router": {"image": {"digest": "sha256:abc"}}},
    "a claim without a name": {"engines": {"cache": {"kind": "existingClaim"}}},
    "an unknown key of the controller": {"controller": {"spec": {"configMap": "cascadia-spec"}}},
    "a limit without memory": {"router": {"resources": {"limits": {"memory": None}}}},
    "a kind of judge that is none": {"judge": {"kind": "oracle"}},
}


@pytest.mark.long(in_ci=5)
@pytest.mark.parametrize("name", list(WRONG))
@pytest.mark.parametrize("major", [3, 4])
def test_helm_refuses_values_that_are_wrong(name: str, major: int) -> None:
    values = merged(MATRIX["three stages"].values, copy.deepcopy(WRONG[name]))
    if name == "a limit without memory":
        values["router"]["resources"]["limits"]["memory"] = None
    done = run_helm(major, "template", "x", str(CHART), values=values)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr


@pytest.mark.parametrize("major", [3, 4])
def test_helm_refuses_a_group_that_lacks_a_workers_arguments(major: int) -> None:
    values = copy.deepcopy(MATRIX["three stages"].values)
    (group,) = values["stages"][2]["groups"]
    del group["workerArgs"]
    done = run_helm(major, "template", "x", str(CHART), values=values)
    assert "workerArgs" in done.stderr
