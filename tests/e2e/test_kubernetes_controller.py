"""`cascadia controller --backend kubernetes` as processes, with the rights that the chart gives and no more.

The API server, its scheduler and controller manager are real; nodes and kubelets are simulated.
"""

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cascadia.domain.plan import Plan
from cascadia.planner.plan_file import write_plan
from tests.e2e.k8s_cluster import Cluster, cluster, kubeconfig, until
from tests.e2e.k8s_release import SPACE, h100_nodes, h100_plan, helm, install
from tests.e2e.k8s_watch import watching
from tests.unit.deploy.chart import CHART
from tests.unit.spec.specs import valid_spec, write_inputs, write_spec

PROGRAM = str(Path(sys.executable).with_name("cascadia"))
BEFORE, AFTER = h100_plan(1, small=4, large=2), h100_plan(1, small=2, large=3)
API = f"/api/v1/namespaces/{SPACE}"
LIMIT_S = 120.0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), h100_nodes(1), startup_s=0.5) as found:
        yield found


class Controllers:
    """Of one release. `folder` is what its ConfigMaps would be mounted as."""

    def __init__(self, on: Cluster, folder: Path) -> None:
        self.on = on
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        write_inputs(folder)
        write_spec(folder, valid_spec())
        values = on.get(f"{API}/configmaps/cascadia-controller")["data"]["values.yaml"]
        (folder / "values.yaml").write_text(values)
        (folder / "kubeconfig").write_text(yaml.safe_dump(kubeconfig(on.url, self._token())))

    def _token(self) -> str:
        """Of the account that the chart made: the controller has its rights here too."""
        until(lambda: bool(self._secrets()), "the account has a token")
        return base64.b64decode(self._secrets()[0]["data"]["token"]).decode()

    def _secrets(self) -> list[dict[str, Any]]:
        name = "kubernetes.io/service-account.name"
        found = self.on.get(f"{API}/secrets")["items"]
        return [s for s in found if s["metadata"].get("annotations", {}).get(name) == "cascadia-controller"]

    def give(self, plan: Plan) -> None:
        write_plan(plan, self.folder / "plan.json")

    def start(self) -> subprocess.Popen[bytes]:
        number = len(self.processes)
        told = ["--backend", "kubernetes", "--namespace", SPACE, "--values", "values.yaml", "--port", "0"]
        told += ["--window", "1", "--run-dir", f"run-{number}"]
        with (self.folder / f"controller-{number}.log").open("wb") as log:
            process = subprocess.Popen(
                [PROGRAM, "controller", "cascade.yaml", "plan.json", *told],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                env={**os.environ, "KUBECONFIG": "kubeconfig"},
            )
        self.processes.append(process)
        return process

    def log(self, number: int) -> str:
        return (self.folder / f"controller-{number}.log").read_text()

    def history(self) -> list[dict[str, Any]]:
        done = subprocess.run(
            [PROGRAM, "history", "--kubernetes", "--namespace", SPACE, "--lines", "500", "--json"],
            capture_output=True,
            text=True,
            env={**os.environ, "KUBECONFIG": str(self.folder / "kubeconfig")},
            timeout=60,
        )
        if done.returncode:
            assert "there is no history" in done.stderr
            return []
        entries: list[dict[str, Any]] = json.loads(done.stdout)["entries"]
        return entries

    def until_said(self, kind: str, since: int = 0) -> list[dict[str, Any]]:
        deadline_s = time.monotonic() + LIMIT_S
        while True:
            found = self.history()
            if any(entry["kind"] == kind for entry in found[since:]):
                return found
            assert time.monotonic() < deadline_s, f"no {kind}: {found[since:]}, {self.log(0)}"
            time.sleep(0.2)

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait(30)


@pytest.fixture
def controllers(made: Cluster, tmp_path: Path) -> Iterator[Controllers]:
    install(made, BEFORE)
    found = Controllers(made, tmp_path)
    yield found
    found.end()
    helm(made, "uninstall", "cascadia", "--wait")
    made.ask("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/{SPACE}/leases/cascadia-controller")
    until(lambda: not made.get(f"{API}/pods")["items"], "no pod is left")


def engines(on: Cluster) -> dict[str, int]:
    found: dict[str, int] = {}
    for pod in on.get(f"{API}/pods")["items"]:
        stage = pod["metadata"]["labels"].get("cascadia/service")
        if stage is not None:
            found[stage] = found.get(stage, 0) + 1
    return found


def test_a_leader_killed_in_a_move_is_followed_by_another_that_ends_it(controllers: Controllers) -> None:
    on = controllers.on
    controllers.give(BEFORE)
    leader = controllers.start()
    controllers.until_said("held")
    assert engines(on) == {"small": 4, "large": 2}
    controllers.start()
    until(lambda: "standing by" in controllers.log(1), "the second waits")
    known = len(controllers.history())
    with watching(on, SPACE) as seen:
        controllers.give(AFTER)
        controllers.until_said("step", since=known)
        leader.kill()
        assert "leading" not in controllers.log(1)
        entries = controllers.until_said("moved", since=known)
    kinds = [entry["kind"] for entry in entries[known:] if entry["kind"] != "step"]
    assert kinds == ["given", "begun", "adopted", "begun", "moved"]
    assert engines(on) == {"small": 2, "large": 3}
    assert seen.most <= 8
    lease = on.get(f"/apis/coordination.k8s.io/v1/namespaces/{SPACE}/leases/cascadia-controller")["spec"]
    assert lease["leaseTransitions"] == 1


def test_an_upgrade_of_the_release_and_its_controller_do_not_undo_each_others_work(
    controllers: Controllers,
) -> None:
    on = controllers.on
    controllers.give(BEFORE)
    controllers.start()
    controllers.until_said("held")
    known = len(controllers.history())
    controllers.give(AFTER)
    controllers.until_said("moved", since=known)

    def state() -> tuple[set[str], str]:
        pods = on.get(f"{API}/pods")["items"]
        uids = {p["metadata"]["uid"] for p in pods if "cascadia/service" in p["metadata"]["labels"]}
        return uids, on.get(f"{API}/configmaps/cascadia-router")["data"]["router.yaml"]

    before = state()
    helm(on, "upgrade", "cascadia", str(CHART), "--reuse-values", "--set", "router.replicas=3")
    until(lambda: _ready_routers(on) == 3, "three routers")
    assert state() == before
    # What somebody deletes is made again.
    on.ask("DELETE", f"/apis/apps/v1/namespaces/{SPACE}/deployments/cascadia-large-h100-tp2pp1-0")
    known = len(controllers.history())
    controllers.until_said("held", since=known)
    assert engines(on) == {"small": 2, "large": 3}


def _ready_routers(on: Cluster) -> int:
    found = on.get(f"/apis/apps/v1/namespaces/{SPACE}/deployments/cascadia-router")
    return int(found["status"].get("readyReplicas", 0))
