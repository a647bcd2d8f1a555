"""A release of the chart with its controller on, and what a controller in this process needs to move it."""

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from cascadia.clients.cluster.kubernetes_api import KubernetesApi
from cascadia.controller.kubernetes.backend import KubernetesBackend, Patience
from cascadia.controller.kubernetes.desired import KubernetesPlan, kubernetes_plan
from cascadia.controller.kubernetes.pods import ready
from cascadia.domain.cluster import Cluster as Gpus
from cascadia.domain.cluster import Pool
from cascadia.domain.plan import JudgePlan, Plan, ReplicaGroup
from cascadia.render.kubernetes.chart_values import defaults, merged
from cascadia.render.kubernetes.release import Release
from cascadia.render.yaml_text import yaml_text
from cascadia.testing.plans import plan, stage
from tests.e2e.k8s_cluster import PATIENCE_S, Cluster, until
from tests.unit.deploy.chart import CHART
from tests.unit.deploy.helm_binary import binary
from tests.unit.deploy.matrix import values_of

SPACE = "llm"
CERTAINTY = JudgePlan(
    "certainty", "router", None, engine="vllm", quantization=None, max_model_len=0, replicas=()
)
SAMPLES_TOKEN = "of-these-tests-and-no-others"


def h100_nodes(count: int) -> dict[str, int]:
    """Of eight GPUs each."""
    return {f"NVIDIA-H100-80GB-HBM3/h100-{i}": 8 for i in range(count)}


def h100_plan(nodes: int, small: int, large: int, large_tp: int = 2) -> Plan:
    """So many replicas of one GPU and of `large_tp`, on so many nodes."""
    pools = Gpus((Pool("h100", "h100-sxm", nodes, 8, 2.5),))
    shapes = {"small": (1, small), "large": (large_tp, large)}
    stages = [
        stage(name, *([ReplicaGroup("h100", tp, 1, count, 1.0)] if count else []))
        for name, (tp, count) in shapes.items()
    ]
    return plan(stages, pools, CERTAINTY)


def helm(on: Cluster, *arguments: str, values: dict[str, Any] | None = None, major: int = 4) -> str:
    given = ["-f", "-"] if values is not None else []
    done = subprocess.run(
        [str(binary(major)), *arguments, "-n", SPACE, *given],
        input=yaml_text([values]) if values is not None else None,
        env={**os.environ, "KUBECONFIG": str(on.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def values_with_controller(of: Plan, over: dict[str, Any] | None = None) -> dict[str, Any]:
    """Its pods stand in the cluster but run nothing: the controllers of these tests are processes here."""
    own: dict[str, Any] = {
        "controller": {"enabled": True, "replicas": 1},
        "router": {"autoscaling": {"enabled": False}, "replicas": 2},
        "engines": {"preStopSeconds": 0, "marginSeconds": 0},
    }
    return merged(values_of(of), merged(own, over or {}))


def install(on: Cluster, of: Plan, over: dict[str, Any] | None = None) -> dict[str, Any]:
    values = values_with_controller(of, over)
    helm(on, "install", "cascadia", str(CHART), "--create-namespace", values=values)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cascadia-samples"}}
    answer = on.ask(
        "POST", f"/api/v1/namespaces/{SPACE}/secrets", {**secret, "stringData": {"token": SAMPLES_TOKEN}}
    )
    assert answer.status_code in (201, 409)
    return values


@contextmanager
def installed(on: Cluster, of: Plan) -> Iterator[dict[str, Any]]:
    """Its values; taken away afterwards with all pods, also those that controllers made for it."""
    yield install(on, of)
    helm(on, "uninstall", "cascadia", "--wait")
    until(lambda: not on.get(f"/api/v1/namespaces/{SPACE}/pods")["items"], "no pod is left")


def ready_routers(on: Cluster) -> list[str]:
    """Their addresses."""
    found = on.get(f"/api/v1/namespaces/{SPACE}/pods")["items"]
    routers = [pod for pod in found if pod["metadata"]["labels"].get("cascadia/workload") == "router"]
    return [pod["status"]["podIP"] for pod in routers if ready(pod)]


@asynccontextmanager
async def moving(
    on: Cluster, values: dict[str, Any], *plans: Plan, patience: Patience | None = None
) -> AsyncIterator[tuple[KubernetesBackend, list[KubernetesPlan]]]:
    """A backend of the release, and the plans as it knows them."""
    async with KubernetesApi(SPACE, str(on.kubeconfig)) as api:
        apis = await api.find_apis()
        release = Release(merged(defaults(), values), "cascadia", SPACE, apis)
        backend = KubernetesBackend(api, release, patience)
        known = [kubernetes_plan(found, values, "cascadia", SPACE, apis) for found in plans]
        for one in known:
            backend.know(one)
        yield backend, known


def write_values(folder: Path, values: dict[str, Any]) -> Path:
    path = folder / "values.yaml"
    path.write_text(yaml_text([merged(defaults(), values)]))
    return path
