"""The published schemas accept what we accept."""

import json
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from cascadia.cli.main import main
from cascadia.files.plan_file import plan_json
from tests.unit.planner.plans import a_plan
from tests.unit.planner.specs import changed, valid_spec


def schema(*args: str) -> dict[str, object]:
    result = CliRunner().invoke(main, ["schema", *args])
    assert (result.exit_code, result.stderr) == (0, "")
    document: dict[str, object] = json.loads(result.stdout)
    return document


def test_a_valid_spec_fits_the_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(valid_spec(), schema("spec"))


def test_a_mistyped_key_does_not() -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed("stages.0.modle", "x"), schema())


def test_every_key_of_a_spec_is_described() -> None:
    whole: Any = schema()
    for section in (whole, *whole["$defs"].values()):
        for key, entry in section["properties"].items():
            assert entry.get("description"), key


def test_a_plan_fits_its_schema() -> None:
    jsonschema.validate(json.loads(plan_json(a_plan())), schema("plan", "--json"))


@pytest.mark.parametrize(
    ("what", "document"),
    [
        (
            "router",
            {"stages": [{"name": "small", "replicas": [{"url": "http://127.0.0.1:8100"}]}], "port": 9000},
        ),
        ("local", {"stages": {"small": {"command": ["vllm", "serve"]}}}),
        ("controller", {"moves": {"at_once": 4}}),
    ],
)
def test_settings_fit_their_schema_and_mistyped_ones_do_not(what: str, document: dict[str, object]) -> None:
    jsonschema.validate(document, schema(what))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document | {"stagez": []}, schema(what))
