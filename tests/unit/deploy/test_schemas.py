"""Every object of every case fits the schemas of Kubernetes, or its own definition; unknown fields are failures."""

import json
from functools import cache
from typing import Any

import jsonschema
import pytest

from tests.data import data_path
from tests.unit.deploy.chart import Object, by_us
from tests.unit.deploy.matrix import MATRIX
from tests.unit.render.crd import strict_schema
from tests.unit.render.kubernetes_schemas import validate

VERSIONS = ["1.28", "1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37"]

DEFINITIONS = {
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): "leaderworkerset.x-k8s.io_leaderworkersets.yaml",
    ("monitoring.coreos.com/v1", "ServiceMonitor"): "monitoring.coreos.com_servicemonitors.yaml",
    ("keda.sh/v1alpha1", "ScaledObject"): "keda.sh_scaledobjects.yaml",
}


WITHOUT_DEFINITION = ("PrometheusRule", "HTTPRoute")
"""There is none here to check them against: see the tests below."""


def distinct(custom: bool) -> list[Object]:
    """Of all cases, each object once: most differ by names only."""
    found = {
        json.dumps(o, sort_keys=True): o
        for name in MATRIX
        for (api, kind, _), o in by_us(name).items()
        if ((api, kind) in DEFINITIONS) is custom and kind not in WITHOUT_DEFINITION
    }
    return list(found.values())


def shape(value: Any) -> Any:
    """Kinds, and which members there are, of which types: two objects of one shape are valid together."""
    if isinstance(value, dict):
        kept = ("apiVersion", "kind", "type", "operator", "whenUnsatisfiable")
        return {k: v if k in kept else shape(v) for k, v in value.items()}
    if isinstance(value, list):
        return sorted({json.dumps(shape(item), sort_keys=True) for item in value})
    return type(value).__name__


@cache
def built_in() -> list[Object]:
    """One of each shape."""
    return list({json.dumps(shape(o), sort_keys=True): o for o in distinct(custom=False)}.values())


@pytest.mark.long(in_ci=3)
@pytest.mark.parametrize("version", VERSIONS)
def test_objects_fit_the_schemas_of_kubernetes(version: str) -> None:
    """Strictly: an unknown field is a failure, and so is a kind that the version does not have."""
    for o in built_in():
        assert validate(o, version, strict=True) == version


@pytest.mark.data
@pytest.mark.parametrize("kind", list(DEFINITIONS))
def test_custom_objects_fit_their_definitions(kind: tuple[str, str]) -> None:
    version = kind[0].rpartition("/")[2]
    schema = strict_schema(data_path(f"crds/{DEFINITIONS[kind]}"), version)
    validator = jsonschema.Draft202012Validator(schema)
    found = [o for o in distinct(custom=True) if (o["apiVersion"], o["kind"]) == kind]
    assert found
    for o in found:
        validator.validate(o)
    wrong = {**found[0], "spec": {**found[0]["spec"], "unknown": 1}}
    with pytest.raises(jsonschema.ValidationError, match="unknown"):
        validator.validate(wrong)


def test_alerts_have_the_members_that_a_rule_of_prometheus_has() -> None:
    """There is no definition of PrometheusRule here to check it against."""
    rules = by_us("prometheus is there")["monitoring.coreos.com/v1", "PrometheusRule", "cascadia"]
    assert rules["spec"].keys() == {"groups"}
    for group in rules["spec"]["groups"]:
        assert group.keys() <= {"name", "interval", "rules"}
        for rule in group["rules"]:
            assert {"alert", "expr"} <= rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}


def test_a_route_has_the_members_that_the_gateway_api_has() -> None:
    for name in ("a route", "a route with all"):
        route = by_us(name)["gateway.networking.k8s.io/v1", "HTTPRoute", "cascadia-router"]
        assert route["spec"].keys() <= {"parentRefs", "hostnames", "rules"}
        for parent in route["spec"]["parentRefs"]:
            assert parent.keys() <= {"group", "kind", "namespace", "name", "sectionName", "port"}
        (rule,) = route["spec"]["rules"]
        assert rule.keys() <= {"matches", "backendRefs", "timeouts"}
        assert rule["backendRefs"] == [{"name": "cascadia-router", "port": 8000}]
        for match in rule["matches"]:
            assert match["path"].keys() == {"type", "value"}
            assert match["path"]["type"] == "PathPrefix"
        assert rule.get("timeouts", {}).keys() <= {"request", "backendRequest"}


def test_every_kind_is_known_to_kubernetes_or_has_a_definition() -> None:
    groups = {o["apiVersion"].partition("/")[0] for o in built_in()}
    assert groups <= {"v1", "apps", "policy", "autoscaling", "networking.k8s.io", "rbac.authorization.k8s.io"}
