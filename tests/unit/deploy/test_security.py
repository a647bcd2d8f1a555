"""What no object of the chart may have, over all cases."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.deploy.chart import Object, by_us
from tests.unit.deploy.matrix import MATRIX

OTHERWISE = {"engines with more", "engines of one stage", "our services with more", "a controller with more"}
"""There a user says so, in `securityContext`."""
NAMES = [name for name in MATRIX if name not in OTHERWISE]
READ_ONLY_VERBS = ("get", "list", "watch")


def pod_specs(name: str) -> Iterator[tuple[str, Object]]:
    for o in by_us(name).values():
        spec = o.get("spec", {})
        if o["kind"] == "Deployment":
            yield o["metadata"]["name"], spec["template"]["spec"]
        if o["kind"] == "LeaderWorkerSet":
            for role in ("leaderTemplate", "workerTemplate"):
                yield o["metadata"]["name"], spec["leaderWorkerTemplate"][role]["spec"]


@pytest.mark.parametrize("name", NAMES)
def test_no_container_has_privileges_or_writes_to_its_root(name: str) -> None:
    specs = list(pod_specs(name))
    assert len(specs) >= 2
    for _, spec in specs:
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


@pytest.mark.parametrize("name", NAMES)
def test_no_pod_runs_as_root_or_reaches_its_node(name: str) -> None:
    for _, spec in pod_specs(name):
        context = spec["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context["runAsUser"] > 0
        assert context["runAsGroup"] > 0
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC", "hostAliases"} & spec.keys()
        allowed = {"emptyDir", "persistentVolumeClaim", "ephemeral", "configMap", "secret"}
        for volume in spec["volumes"]:
            assert volume.keys() - {"name"} <= allowed
        for container in spec["containers"]:
            assert all("hostPort" not in port for port in container.get("ports", []))


@pytest.mark.parametrize("name", NAMES)
def test_every_container_has_requests_and_a_limit_of_memory(name: str) -> None:
    for _, spec in pod_specs(name):
        for container in spec["containers"]:
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
            assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("name", NAMES)
def test_only_the_controller_has_a_token(name: str) -> None:
    tokens = {owner for owner, spec in pod_specs(name) if spec["automountServiceAccountToken"]}
    assert {owner.rpartition("-")[2] for owner in tokens} <= {"controller"}
    assert bool(tokens) == name.startswith("a controller")


@pytest.mark.parametrize("name", NAMES)
def test_rights_are_of_one_namespace_and_named_things(name: str) -> None:
    kinds = {kind for _, kind, _ in by_us(name)}
    assert "Secret" not in kinds
    assert ("ClusterRole" in kinds) == ("Role" in kinds) == name.startswith("a controller")
    for o in by_us(name).values():
        for rule in o.get("rules", []) if o["kind"] == "Role" else []:
            words = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert "*" not in words
            assert not {"secrets", "roles", "rolebindings", "pods/exec", "serviceaccounts"} & set(words)
            if "configmaps" in words or "leases" in words:
                assert rule.get("resourceNames") or rule["verbs"] == ["create"]
            if "pods" in words:
                assert not {"create", "update"} & set(words)
        if o["kind"] == "ClusterRole":
            assert o["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": [*READ_ONLY_VERBS]}]


@pytest.mark.parametrize("name", [n for n in NAMES if n != "no policies"])
def test_every_pod_is_under_a_policy_that_allows_little(name: str) -> None:
    """One denies all to all pods of the release; others are of a workload, and none allows any peer any port."""
    policies = [o["spec"] for o in by_us(name).values() if o["kind"] == "NetworkPolicy"]
    (default,) = [
        p for p in policies if len(p["podSelector"]["matchLabels"]) == 1 and len(p["podSelector"]) == 1
    ]
    assert default["ingress"] == default["egress"] == []
    assert default["policyTypes"] == ["Ingress", "Egress"]
    for o in by_us(name).values():
        if o["kind"] == "Deployment":
            labels = o["spec"]["template"]["metadata"]["labels"]
            assert any(_covers(p["podSelector"], labels) for p in policies if p is not default)
    for policy in policies:
        assert all(rule.get("ports") or rule.get("from") for rule in policy["ingress"])
        assert all(rule.get("ports") or rule.get("to") for rule in policy["egress"])


def _covers(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    exist = (found["key"] for found in selector.get("matchExpressions", ()))
    return selector["matchLabels"].items() <= labels.items() and labels.keys() >= set(exist)


def test_engines_hear_the_router_and_prometheus_only() -> None:
    found = by_us("three stages")
    engines = found["networking.k8s.io/v1", "NetworkPolicy", "cascadia-engines"]["spec"]["ingress"]
    peers = [peer for rule in engines for peer in rule["from"]]
    components = {
        p["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for p in peers if "podSelector" in p
    }
    assert components == {"router", "controller"}
    assert [p for p in peers if "namespaceSelector" in p] == [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    ]
