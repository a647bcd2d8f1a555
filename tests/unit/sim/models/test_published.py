"""Every catalogued model has the size that its publisher tells, in all and for each token."""

import json
from importlib.resources import files

import pytest

from cascadia_sim.models.catalogue import architecture, expand
from tests.unit.sim.published import ACTIVE, TOTAL, TOWERS, rounding

ENTRIES = json.loads((files("cascadia_sim") / "data" / "architectures.json").read_text(encoding="utf-8"))[
    "models"
]
IDS = [{i for pattern in entry["ids"] for i in expand(pattern)} for entry in ENTRIES]


@pytest.mark.parametrize("ids", IDS, ids=lambda ids: min(ids))
def test_each_entry_of_the_catalogue_is_held_against_what_is_published(ids: set[str]) -> None:
    told = ids & TOTAL.keys()
    assert told
    assert not architecture(min(ids)).moe or ids & ACTIVE.keys()


@pytest.mark.parametrize(("model", "billions"), TOTAL.items())
def test_parameters_are_those_published(model: str, billions: float) -> None:
    found = architecture(model).parameters / 1e9
    allowed = max(0.012 * billions, rounding(billions))
    if model in TOWERS:
        assert 0.9 * billions < found < billions
    else:
        assert abs(found - billions) <= allowed


@pytest.mark.parametrize(("model", "billions"), ACTIVE.items())
def test_active_parameters_are_those_published(model: str, billions: float) -> None:
    """Publishers count the tables of the vocabulary in, one of them, or neither: theirs lies in between."""
    a = architecture(model)
    table = a.embedding_parameters / 1e9
    found = a.active_parameters / 1e9
    allowed = max(0.025 * billions, rounding(billions))
    assert found - table - allowed <= billions <= found + table + allowed
