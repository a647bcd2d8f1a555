"""The chart on a real API server: install, upgrade, roll back, uninstall. Nodes and kubelets are simulated."""

import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from cascadia.domain.plan import JudgePlan, ReplicaGroup
from cascadia.render.yaml_text import yaml_text
from cascadia.testing.plans import POOLS, plan, stage
from tests.e2e.k8s_cluster import PATIENCE_S, Cluster, cluster, until
from tests.unit.deploy.chart import CHART
from tests.unit.deploy.helm_binary import binary
from tests.unit.deploy.matrix import values_of

NODES = {f"NVIDIA-H100-80GB-HBM3/h100-{i}": 8 for i in range(2)} | {"NVIDIA-L4/l4-0": 4}
PLAN = plan(
    [
        stage("small", ReplicaGroup("h100", 1, 1, 4, 0.7), ReplicaGroup("l4", 2, 1, 2, 0.3)),
        stage("large", ReplicaGroup("h100", 4, 1, 2, 1.0)),
    ],
    POOLS,
    JudgePlan(
        "llm",
        "self-hosted",
        "org/judge",
        engine="vllm",
        quantization=None,
        max_model_len=4096,
        replicas=(ReplicaGroup("h100", 1, 1, 1, 1.0),),
    ),
)
DEPLOYMENTS = "/apis/apps/v1/namespaces/llm/deployments"
PODS = "/api/v1/namespaces/llm/pods"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), NODES) as found:
        yield found


def helm(major: int, on: Cluster, *arguments: str, values: dict[str, Any] | None = None) -> str:
    given = ["-f", "-"] if values is not None else []
    done = subprocess.run(
        [str(binary(major)), *arguments, "-n", "llm", *given],
        input=yaml_text([values]) if values is not None else None,
        env={**os.environ, "KUBECONFIG": str(on.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def router_settings(on: Cluster) -> dict[str, Any]:
    found = on.get("/api/v1/namespaces/llm/configmaps/cascadia-router")["data"]["router.yaml"]
    loaded: dict[str, Any] = yaml.safe_load(found)
    return loaded


def ready_replicas(on: Cluster) -> dict[str, int]:
    found = on.get(DEPLOYMENTS)["items"]
    return {d["metadata"]["name"]: d["status"].get("readyReplicas", 0) for d in found}


def gpus_by_node(on: Cluster) -> dict[str, int]:
    used: dict[str, int] = {}
    for pod in on.get(PODS)["items"]:
        for container in pod["spec"]["containers"]:
            gpus = int(container["resources"].get("limits", {}).get("nvidia.com/gpu", 0))
            node = pod["spec"].get("nodeName", "")
            used[node] = used.get(node, 0) + gpus
    return used


@pytest.mark.parametrize("major", [3, 4])
def test_a_release_is_installed_changed_rolled_back_and_taken_away(made: Cluster, major: int) -> None:
    values = values_of(PLAN)
    waiting = ["--wait", "--timeout", "120s"]
    out = helm(major, made, "install", "cascadia", str(CHART), "--create-namespace", *waiting, values=values)
    assert "2 stages behind http://cascadia-router.llm.svc:8000/v1" in out
    assert ready_replicas(made)["cascadia-router"] >= 1
    # Helm does not wait for the one pod that a rolling update may lack.
    engines = {"cascadia-judge-0": 1, "cascadia-large-0": 2, "cascadia-small-0": 4, "cascadia-small-1": 2}
    until(lambda: engines.items() <= ready_replicas(made).items(), "every engine is ready")
    used = gpus_by_node(made)
    assert sum(used.values()) == PLAN.gpus
    assert used["l4-0"] == 4
    assert max(used["h100-0"], used["h100-1"]) <= 8
    # The autoscaler keeps at least two routers, metrics or not.
    until(
        lambda: made.get(f"{DEPLOYMENTS}/cascadia-router")["status"].get("readyReplicas") == 2, "two routers"
    )

    engines = {
        pod["metadata"]["uid"]
        for pod in made.get(PODS)["items"]
        if "cascadia/slot" in pod["metadata"]["labels"]
    }
    values["stages"][0]["threshold"] = 70
    helm(major, made, "upgrade", "cascadia", str(CHART), *waiting, values=values)
    assert router_settings(made)["stages"][0]["threshold"] == 70
    helm(major, made, "rollback", "cascadia", "1", *waiting)
    assert router_settings(made)["stages"][0]["threshold"] == 50
    # A threshold is the router's alone: no engine started anew.
    left = {
        pod["metadata"]["uid"]
        for pod in made.get(PODS)["items"]
        if "cascadia/slot" in pod["metadata"]["labels"]
    }
    assert left == engines

    helm(major, made, "uninstall", "cascadia", "--wait", "--timeout", "120s")
    until(lambda: not made.get(PODS)["items"], "no pod is left")
    left_over = ("apps/v1", "deployments"), ("policy/v1beta1", "poddisruptionbudgets")
    for api, kind in (*left_over, ("networking.k8s.io/v1", "networkpolicies")):
        assert made.get(f"/apis/{api}/namespaces/llm/{kind}")["items"] == []
