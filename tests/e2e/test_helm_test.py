"""`helm test` on a real API server: its pod's command really runs, and asks a real router before simulated engines."""

import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.k8s_cluster import PATIENCE_S, Cluster, cluster, until
from tests.e2e.k8s_release import SPACE, h100_nodes, h100_plan, helm
from tests.unit.deploy.chart import CHART
from tests.unit.deploy.helm_binary import binary
from tests.unit.deploy.matrix import values_of

POD = f"/api/v1/namespaces/{SPACE}/pods/cascadia-test"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), h100_nodes(1), routers="real") as found:
        yield found


def asked(on: Cluster, major: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(binary(major)), "test", "cascadia", "-n", SPACE, "--timeout", "9m"],
        env={**os.environ, "KUBECONFIG": str(on.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def said(on: Cluster) -> str:
    state: dict[str, Any] = on.get(POD)["status"]["containerStatuses"][0]["state"]
    return str(state["terminated"]["message"])


@pytest.mark.parametrize("major", [3, 4])
def test_a_release_that_serves_passes_and_one_that_does_not_fails(made: Cluster, major: int) -> None:
    values = values_of(h100_plan(1, 2, 1))
    values["router"] = {
        "autoscaling": {"enabled": False},
        "replicas": 1,
        "drainSeconds": 1,
        "noticeSeconds": 0,
    }
    values["engines"] = {"preStopSeconds": 0}
    values["test"] = {"timeoutSeconds": 60, "prompt": "costs $(HOME)?"}
    helm(made, "install", "cascadia", str(CHART), "--create-namespace", values=values, major=major)
    ready = f"/apis/apps/v1/namespaces/{SPACE}/deployments/cascadia-router"
    until(lambda: made.get(ready)["status"].get("readyReplicas") == 1, "the router is ready")
    done = asked(made, major)
    assert done.returncode == 0, said(made)
    assert "GET /health: 200" in said(made)
    assert "POST /v1/chat/completions: 200, stage " in said(made)

    # Routers that know no such model.
    values["router"]["config"] = {"cascade": "other"}
    helm(made, "upgrade", "cascadia", str(CHART), "--wait", "--timeout", "60s", values=values, major=major)
    done = asked(made, major)
    helm(made, "uninstall", "cascadia", "--wait", major=major)
    # Helm leaves what its hooks made, so that it can be looked at.
    made.ask("DELETE", POD)
    until(lambda: not made.get(f"/api/v1/namespaces/{SPACE}/pods")["items"], "no pod is left")
    assert done.returncode != 0
