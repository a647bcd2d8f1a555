"""YAML on the pages is what files of that kind may hold, whole or in part; Helm's and Prometheus' stay out."""

import re
import textwrap
from typing import Annotated, Any

import pytest
import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError

from cascadia.controller.local.engines_file import Local
from cascadia.controller.settings.model import ControllerFile
from cascadia.planner.spec.model import Spec
from cascadia.planner.spec.objective import ObjectiveSpec
from cascadia.planner.spec.policy import OnePassObjective, PolicySpec
from cascadia.router.settings.file import _File as RouterFile
from tests.data import ROOT

KINDS: tuple[type[BaseModel], ...] = (Spec, PolicySpec, RouterFile, ControllerFile, Local)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^( *)```yaml\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
OBJECTIVE = re.compile(r"\bobjective: (\{[^`\n#…]*\})")


def shown(found: re.Pattern[str], group: int) -> list[tuple[str, str]]:
    return [
        (str(page.relative_to(ROOT)), match[group])
        for page in PAGES
        for match in found.finditer(page.read_text(encoding="utf-8"))
    ]


def refusals(kind: type[BaseModel], document: dict[str, Any]) -> list[str]:
    told = []
    for key, value in document.items():
        field = kind.model_fields[key]
        try:
            # None: a type alone, where a field has no metadata, is not annotated.
            TypeAdapter(Annotated[(field.annotation, *field.metadata, None)]).validate_python(value)
        except ValidationError as error:
            told.append(f"{key}: {error.errors()[0]['msg']}")
    return told


BLOCKS = shown(BLOCK, 2)
OBJECTIVES = shown(OBJECTIVE, 1)


@pytest.mark.parametrize(("page", "text"), BLOCKS, ids=[page for page, _ in BLOCKS])
def test_a_shown_file_is_one_of_its_kind(page: str, text: str) -> None:
    document = yaml.safe_load(textwrap.dedent(text))
    kinds = [kind for kind in KINDS if document.keys() <= kind.model_fields.keys()]
    told = {kind.__name__: refusals(kind, document) for kind in kinds}
    assert not told or [] in told.values(), f"{page}: {told}"


@pytest.mark.parametrize(("page", "text"), OBJECTIVES, ids=[page for page, _ in OBJECTIVES])
def test_a_shown_objective_is_one(page: str, text: str) -> None:
    told = []
    for kind in (ObjectiveSpec, OnePassObjective):
        try:
            kind.model_validate(yaml.safe_load(text))
        except ValidationError as error:
            told.append(error.errors()[0]["msg"])
    assert len(told) < 2, f"{page}: {told}"


def test_most_of_what_is_shown_is_looked_at() -> None:
    documents = [yaml.safe_load(textwrap.dedent(text)) for _, text in BLOCKS]
    known = [d for d in documents if any(d.keys() <= kind.model_fields.keys() for kind in KINDS)]
    assert len(known) > 15
    assert len(OBJECTIVES) > 5
