"""`cascadia render --target kubernetes` is what `helm template` makes of the same values.

Here each case with Helm 3 or 4, in turn; tests/e2e/test_helm_template.py has each with both.
"""

import copy
from typing import Any

import pytest

from cascadia.files.strict_yaml import parse_yaml
from tests.unit.deploy.chart import Object, by_helm, by_us, template
from tests.unit.deploy.matrix import MATRIX, Case


def normalised(found: Object) -> Object:
    """YAML within as values: two writers lay it out in two ways, and so its digest differs too."""
    result: Object = copy.deepcopy(found)
    for name in {"router.yaml", "values.yaml", "controller.yaml"} & result.get("data", {}).keys():
        # As the programs read them: 8e-05 is a number.
        result["data"][name] = parse_yaml(result["data"][name], name)
    annotations: dict[str, Any] = (
        result.get("spec", {}).get("template", {}).get("metadata", {}).get("annotations", {})
    )
    if len(annotations.get("cascadia/config", "")) == 64:
        annotations["cascadia/config"] = "a digest"
    return result


@pytest.mark.long(in_ci=4)
@pytest.mark.parametrize(("name", "major"), [(name, 3 + at % 2) for at, name in enumerate(MATRIX)])
def test_render_and_helm_make_the_same_objects(name: str, major: int) -> None:
    theirs, ours = by_helm(major, name), by_us(name)
    assert set(theirs) == set(ours)
    for key, found in theirs.items():
        assert normalised(found) == normalised(ours[key]), key


def test_other_settings_of_the_router_are_other_pods() -> None:
    def annotation(found: dict[Any, Object]) -> str:
        router = found["apps/v1", "Deployment", "cascadia-router"]
        return str(router["spec"]["template"]["metadata"]["annotations"]["cascadia/config"])

    for render in (lambda name: by_helm(4, name), by_us):
        three, other = annotation(render("three stages")), annotation(render("a router with all"))
        assert three != other
        # A group of more replicas changes what the router may send, other engine settings do not.
        assert annotation(render("other policies")) == three


@pytest.mark.parametrize("major", [3, 4])
def test_without_stages_nothing_is_installed_and_the_reason_is_said(major: int) -> None:
    done = template(major, Case({}))
    assert done.returncode != 0
    assert "stages is empty; pass the values that `cascadia plan`" in done.stderr


@pytest.mark.parametrize("major", [3, 4])
def test_a_judge_elsewhere_needs_an_address(major: int) -> None:
    values = copy.deepcopy(MATRIX["a judge elsewhere"].values)
    values["judge"]["url"] = ""
    done = template(major, Case(values))
    assert done.returncode != 0
    assert "judge.url is empty, and the judge runs elsewhere; write its address" in done.stderr
