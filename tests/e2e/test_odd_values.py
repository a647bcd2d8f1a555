"""Odd values, by Helm and by a real API server. (Our own renderer of the same: tests/unit/deploy.)"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cascadia.domain.errors import BadInput
from cascadia.render.kubernetes import Release, objects
from cascadia.render.kubernetes.chart_values import defaults, merged, whole_numbers
from tests.e2e.k8s_cluster import Cluster, cluster
from tests.unit.deploy.chart import template
from tests.unit.deploy.odd_values import ODD, Odd, without_dashboards
from tests.unit.deploy.test_equality import normalised
from tests.unit.deploy.test_odd_values import rendered
from tests.unit.deploy.validity import problems
from tests.unit.render.reading import documents

Key = tuple[str, str, str]


def by_key(found: list[dict[str, Any]]) -> dict[Key, dict[str, Any]]:
    return {(o["apiVersion"], o["kind"], o["metadata"]["name"]): normalised(o) for o in found if o}


@pytest.mark.parametrize("major", [3, 4])
@pytest.mark.parametrize("name", list(ODD))
def test_helm_makes_of_odd_values_what_we_do_or_refuses_them_too(name: str, major: int) -> None:
    odd = without_dashboards(ODD[name])
    done = template(major, odd.case)
    if odd.renders:
        assert done.returncode == 0, done.stderr
        found = by_key(documents(done.stdout))
        assert found == by_key(rendered(odd.case))
        assert [problem for o in found.values() for problem in problems(o)] == []
        return
    assert done.returncode != 0
    with pytest.raises(BadInput) as refused:
        rendered(odd.case)
    by_schema = "values don't meet the specifications of the schema" in done.stderr
    # What no schema can say is said alike.
    assert by_schema or str(refused.value) in done.stderr


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), {"NVIDIA-H100-80GB-HBM3/h100-0": 8}) as found:
        yield found


def of_1_20(odd: Odd) -> list[dict[str, Any]]:
    case = odd.case
    release = Release(
        merged(defaults(), whole_numbers(case.values)), case.release, case.namespace, frozenset()
    )
    found: list[dict[str, Any]] = json.loads(json.dumps(list(objects(release))))
    return found


KINDS = {
    "ServiceAccount": "serviceaccounts",
    "ConfigMap": "configmaps",
    "Service": "services",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Deployment": "deployments",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "NetworkPolicy": "networkpolicies",
    "HorizontalPodAutoscaler": "horizontalpodautoscalers",
    "Ingress": "ingresses",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}


def test_an_api_server_takes_what_odd_values_make(made: Cluster) -> None:
    """Nothing is made: every write is a dry run. Custom kinds are not there."""
    refused = []
    taken = 0
    seen = set()
    for name, odd in ODD.items():
        if not odd.renders:
            continue
        for o in of_1_20(without_dashboards(odd)):
            api, space = o["apiVersion"], o["metadata"].get("namespace")
            text = json.dumps(o, sort_keys=True)
            if o["kind"] not in KINDS or text in seen:
                continue
            seen.add(text)
            if space not in seen:
                made.ask("POST", "/api/v1/namespaces", {"metadata": {"name": space}})
                seen.add(space)
            root = "/api/v1" if api == "v1" else f"/apis/{api}"
            path = f"{root}/namespaces/{space}/{KINDS[o['kind']]}?dryRun=All"
            answer = made.ask("POST", path, o)
            taken += answer.status_code == 201
            if answer.status_code != 201:
                refused.append((name, o["kind"], o["metadata"]["name"], answer.json()["message"]))
    assert refused == []
    assert taken > 500
