"""Whatever stands in a spec file, the answer is a spec or a `BadInput`."""

import contextlib
from copy import deepcopy
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia.domain.errors import BadInput
from cascadia.planner.spec.file import check_spec, parse_spec
from tests.examples import examples
from tests.unit.planner.specs import valid_spec

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


def _places(value: Any, path: tuple[int | str, ...] = ()) -> list[tuple[int | str, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, entry in inner for place in _places(entry, (*path, key)))]


PLACES = [place for place in _places(valid_spec()) if place]


@given(st.text(max_size=300))
@settings(max_examples=examples(300))
def test_any_text(text: str) -> None:
    with contextlib.suppress(BadInput):
        parse_spec(text, "x.yaml")


@given(st.text(alphabet="abn:-{}[]&*!|>'\"%@`#?, \n\t019.~<=", max_size=80))
@settings(max_examples=examples(500))
def test_any_text_of_yaml_syntax(text: str) -> None:
    with contextlib.suppress(BadInput):
        parse_spec(text, "x.yaml")


@given(st.sampled_from(PLACES), VALUES)
@settings(max_examples=examples(300))
def test_any_value_at_any_place(place: tuple[int | str, ...], value: object) -> None:
    document: Any = deepcopy(valid_spec())
    section = document
    for key in place[:-1]:
        section = section[key]
    section[place[-1]] = value
    told: list[BadInput] = []
    try:
        check_spec(document, "x.yaml")
    except BadInput as error:
        told.append(error)
    assert all(error.where.startswith("x.yaml") and len(str(error)) < 1_000 for error in told)


@given(
    st.integers(0, 2**32 - 1),
    st.floats(1, 100, exclude_min=True),
    st.sampled_from(["on", "0x1f", "null", "1.5", "a/b"]),
)
def test_a_spec_survives_writing_and_reading(seed: int, quality_min: float, name: str) -> None:
    document = valid_spec() | {"seed": seed}
    document["objective"]["quality_min"] = quality_min
    document["stages"][0]["name"] = name
    spec = check_spec(document, "x.yaml")
    again = parse_spec(yaml.safe_dump(spec.model_dump(mode="json", exclude_unset=True)), "x.yaml")
    assert again == spec
