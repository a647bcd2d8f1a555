"""A file of another kind than the one wanted is told by what it is, not by keys that its kind has."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cascadia.controller.local.engines_file import read_local
from cascadia.controller.settings.file import read_controller_file
from cascadia.domain.errors import BadInput
from cascadia.files.kinds import NAMES, Kind, kind_of, refuse_other
from cascadia.files.plan_file import plan_json, read_plan
from cascadia.planner.spec.file import read_spec
from cascadia.router.settings.file import read_settings
from tests.unit.planner.plans import a_plan
from tests.unit.planner.policies.test_read import SPEC
from tests.unit.planner.specs import valid_spec

DOCUMENTS: dict[Kind, Any] = {
    "plan": json.loads(plan_json(a_plan())),
    "spec": valid_spec(),
    "router": {"stages": [{"name": "small", "replicas": [{"url": "http://127.0.0.1:8100"}]}]},
    "local": {"stages": {"small": {"command": ["vllm"]}}},
    "controller": {"moves": {"at_once": 4}},
}
READERS = {
    "plan": read_plan,
    "spec": read_spec,
    "router": read_settings,
    "local": read_local,
    "controller": lambda path: read_controller_file(path, {}),
}


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_each_kind_is_known_by_its_keys(kind: Kind) -> None:
    assert kind_of(DOCUMENTS[kind]) == kind


def test_a_spec_of_one_pass_models_is_a_spec() -> None:
    assert kind_of(yaml.safe_load(SPEC)) == "spec"


@pytest.mark.parametrize("document", [None, [], "text", {}, {"stages": []}, {"stages": [{"name": "small"}]}])
def test_what_tells_no_kind_is_refused_by_nobody_here(document: object) -> None:
    assert kind_of(document) is None
    refuse_other(document, "plan", "file")


@pytest.mark.parametrize("wanted", READERS)
@pytest.mark.parametrize("given", DOCUMENTS)
def test_a_reader_takes_its_own_kind_and_names_any_other(tmp_path: Path, given: Kind, wanted: Kind) -> None:
    path = tmp_path / "file"
    path.write_text(yaml.safe_dump(DOCUMENTS[given]) if given != "plan" else json.dumps(DOCUMENTS[given]))
    if given == wanted:
        READERS[wanted](path)
        return
    with pytest.raises(BadInput) as refused:
        READERS[wanted](path)
    assert refused.value.what == f"is {NAMES[given]}, not {NAMES[wanted]}"
    assert refused.value.instead
