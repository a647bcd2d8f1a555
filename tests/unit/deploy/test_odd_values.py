"""Odd values make valid objects, or are refused in one clear line. (Helm and an API server: tests/e2e.)"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cascadia.domain.errors import BadInput
from cascadia.render.kubernetes import BUILT_IN, Release, objects
from cascadia.render.kubernetes.chart_values import defaults, merged, whole_numbers
from cascadia.render.kubernetes.checks import check
from tests.unit.deploy.matrix import THREE, Case
from tests.unit.deploy.odd_values import ODD, Odd, without, without_dashboards
from tests.unit.deploy.test_schemas import DEFINITIONS, shape
from tests.unit.deploy.validity import problems
from tests.unit.render.kubernetes_schemas import validate

NEWEST = "1.37"
CUSTOM = {"PrometheusRule", *(kind for _, kind in DEFINITIONS)}


def rendered(case: Case) -> list[dict[str, Any]]:
    values = merged(defaults(), whole_numbers(case.values))
    release = Release(values, case.release, case.namespace, BUILT_IN | set(case.more_apis))
    check(release)
    found: list[dict[str, Any]] = json.loads(json.dumps(list(objects(release))))
    return found


KNOWN = {json.dumps(shape(o), sort_keys=True) for o in rendered(Case(THREE))}
"""Shapes of values that are not odd, which other tests hold valid, and of what was found valid here."""


def test_the_list_is_long() -> None:
    assert len(ODD) > 120
    assert sum(odd.renders for odd in ODD.values()) > 50


@pytest.mark.long(in_ci=30)
@pytest.mark.parametrize("name", [name for name, odd in ODD.items() if odd.renders])
def test_what_is_only_odd_makes_valid_objects(name: str) -> None:
    found = rendered(without_dashboards(ODD[name]).case)
    named = [(o["kind"], o["metadata"]["name"]) for o in found]
    assert len(set(named)) == len(named)
    for o in found:
        assert list(problems(o)) == [], (o["kind"], o["metadata"]["name"])
        kind = json.dumps(shape(o), sort_keys=True)
        if kind not in KNOWN and o["kind"] not in CUSTOM:
            validate(o, NEWEST, strict=True)
            KNOWN.add(kind)


@pytest.mark.long(in_ci=40)
@pytest.mark.parametrize("name", [name for name, odd in ODD.items() if not odd.renders])
def test_what_is_wrong_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(BadInput) as refused:
        rendered(ODD[name].case)
    said = str(refused.value)
    assert "\n" not in said
    assert said.startswith(("values: ", "namespace: "))
    assert len(said) < 500


def paths(values: dict[str, Any], before: tuple[str, ...] = ()) -> Iterator[str]:
    for key, value in values.items():
        yield ".".join((*before, key))
        if isinstance(value, dict) and not any("." in each for each in value):
            yield from paths(value, (*before, key))


ALL_OF_THEM = merged(THREE, {"controller": {"enabled": True}})
PATHS = sorted(path for path in paths(merged(defaults(), ALL_OF_THEM)))


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("part", range(8))
def test_a_value_that_is_taken_away_leaves_valid_objects_or_is_refused(part: int) -> None:
    """Helm's templates told of nil pointers, and an annotation was null."""
    found: dict[str, list[dict[str, Any]]] = {}
    refused: dict[str, str] = {}
    for path in PATHS[part::8]:
        try:
            found[path] = rendered(without_dashboards(Odd(Case(without(ALL_OF_THEM, path)), True)).case)
        except BadInput as error:
            refused[path] = str(error)
    assert {path: said for path, said in refused.items() if not said.startswith("values: ")} == {}
    wrong = {path: [each for o in made for each in problems(o)] for path, made in found.items()}
    assert {path: said for path, said in wrong.items() if said} == {}
