"""`cascadia controller --backend kubernetes` as processes, with the rights that the chart gives and no more.

The API server, its scheduler and controller manager are real; nodes and kubelets are simulated.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from cascadia.clients.processes.ports import free_port
from cascadia.controller.kubernetes.pods import ready
from tests.e2e.k8s_cluster import Cluster, cluster, until
from tests.e2e.k8s_controllers import API, Controllers
from tests.e2e.k8s_release import SPACE, h100_nodes, h100_plan, helm, install, values_with_controller
from tests.e2e.k8s_watch import watching
from tests.unit.controller.specs import write_spec_of
from tests.unit.deploy.chart import CHART
from tests.unit.planner.specs import write_inputs
from tests.unit.router.telemetry.test_metrics import Figures

BEFORE, AFTER = h100_plan(1, small=4, large=2), h100_plan(1, small=2, large=3)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), h100_nodes(1), startup_s=0.5) as found:
        yield found


@pytest.fixture
def controllers(made: Cluster, tmp_path: Path) -> Iterator[Controllers]:
    install(made, BEFORE)
    write_inputs(tmp_path)
    write_spec_of(BEFORE, tmp_path)
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
        with on.loading():
            controllers.give(AFTER)
            controllers.until_said("step", since=known)
            leader.kill()
        assert "leading" not in controllers.log(1)
        entries = controllers.until_said("moved", since=known)
    kinds = [entry["kind"] for entry in entries[known:] if entry["kind"] != "step"]
    assert kinds == ["given", "begun", "adopted", "moved"]
    assert engines(on) == {"small": 2, "large": 3}
    assert seen.most <= 8
    # Of each stage one may go at a time, of how many there are now.
    budgets = on.get(f"/apis/policy/v1beta1/namespaces/{SPACE}/poddisruptionbudgets")["items"]
    least = {one["metadata"]["name"]: one["spec"].get("minAvailable") for one in budgets}
    assert least == {"cascadia-router": None, "cascadia-small": 1, "cascadia-large": 2}
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
    known = len(controllers.history())
    on.ask("DELETE", f"/apis/apps/v1/namespaces/{SPACE}/deployments/cascadia-large-h100-tp2pp1-0")
    controllers.until_said("held", since=known)
    assert engines(on) == {"small": 2, "large": 3}


KEPT = (("apps/v1", "deployments"), ("policy/v1beta1", "poddisruptionbudgets"))


def keep(on: Cluster) -> None:
    """What docs/how-to/kubernetes.md has `kubectl annotate` do before the controller is turned on or off."""
    merge = {"content-type": "application/merge-patch+json"}
    body = {"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}}
    paths = [f"/apis/{api}/namespaces/{SPACE}/{kind}" for api, kind in KEPT] + [f"{API}/services"]
    names = [f"{API}/configmaps/cascadia-router"]
    for path in paths:
        found = on.get(f"{path}?labelSelector=app.kubernetes.io/instance=cascadia,cascadia/service")["items"]
        names += [f"{path}/{one['metadata']['name']}" for one in found]
    for name in names:
        on.ask("PATCH", name, body, **merge).raise_for_status()


def test_engines_of_helm_become_the_controllers_and_helms_again_and_none_is_stopped(
    made: Cluster, tmp_path: Path
) -> None:
    off = values_with_controller(BEFORE, {"controller": {"enabled": False}})
    helm(made, "install", "cascadia", str(CHART), "--create-namespace", values=off)
    until(lambda: ready_engines(made) == {"small": 4, "large": 2}, "engines are ready")
    uids = engine_uids(made)
    keep(made)
    with watching(made, SPACE) as seen:
        on = values_with_controller(BEFORE)
        helm(made, "upgrade", "cascadia", str(CHART), values=on)
        write_inputs(tmp_path)
        write_spec_of(BEFORE, tmp_path)
        controllers = Controllers(made, tmp_path)
        controllers.give(BEFORE)
        try:
            controllers.start()
            entries = controllers.until_said("held")
            assert "6 pods of engines that Helm had made" in {entry["what"] for entry in entries}
            assert engine_uids(made) == uids
            assert not any(entry["what"].startswith(("start", "stop")) for entry in entries)
            known = len(entries)
            controllers.give(AFTER)
            controllers.until_said("moved", since=known)
        finally:
            controllers.end()
        assert engines(made) == {"small": 2, "large": 3}
        give_back(made, tmp_path / "back")
        assert engines(made) == {"small": 2, "large": 3}
    assert seen.most <= 8
    assert seen.fewest_ready["small"] >= 2
    helm(made, "uninstall", "cascadia", "--wait")
    made.ask("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/{SPACE}/leases/cascadia-controller")
    until(lambda: not made.get(f"{API}/pods")["items"], "no pod is left")


def give_back(on: Cluster, folder: Path) -> None:
    """The controller is turned off, and the same pods are Helm's."""
    uids = engine_uids(on)
    folder.mkdir()
    write_inputs(folder)
    write_spec_of(BEFORE, folder)
    controllers = Controllers(on, folder)
    controllers.give(AFTER)
    try:
        controllers.start("--hand-back")
        controllers.until_said("handed-back")
        offered = on.get(f"{API}/configmaps/cascadia-controller-state")["data"]["helm-values.yaml"]
        off = values_with_controller(AFTER, {"controller": {"enabled": False}})
        off |= yaml.safe_load(offered)
        helm(on, "upgrade", "cascadia", str(CHART), "--wait", values=off)
    finally:
        controllers.end()
    assert engine_uids(on) == uids
    made = on.get(f"/apis/apps/v1/namespaces/{SPACE}/deployments")["items"]
    replicas = {one["metadata"]["name"]: one["status"].get("readyReplicas") for one in made}
    assert replicas == {
        "cascadia-router": 2,
        "cascadia-small-0": 2,
        "cascadia-large-0": 3,
    }


def engine_pods(on: Cluster) -> list[dict[str, Any]]:
    found = on.get(f"{API}/pods")["items"]
    return [pod for pod in found if "cascadia/service" in pod["metadata"]["labels"]]


def engine_uids(on: Cluster) -> set[str]:
    return {pod["metadata"]["uid"] for pod in engine_pods(on)}


def ready_engines(on: Cluster) -> Counter[str]:
    return Counter(pod["metadata"]["labels"]["cascadia/service"] for pod in engine_pods(on) if ready(pod))


def _ready_routers(on: Cluster) -> int:
    found = on.get(f"/apis/apps/v1/namespaces/{SPACE}/deployments/cascadia-router")
    return int(found["status"].get("readyReplicas", 0))


def test_a_controller_tells_its_figures_and_events_with_the_rights_that_the_chart_gives(
    controllers: Controllers,
) -> None:
    on, port = controllers.on, free_port()
    controllers.give(BEFORE)
    controllers.start("--port", str(port))
    controllers.until_said("held")
    known = len(controllers.history())
    controllers.give(AFTER)
    controllers.until_said("moved", since=known)

    def figures() -> Figures:
        return Figures(httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text)

    until(lambda: figures()("controller_state", doing="watching") == 1.0, "the move is over")
    until(lambda: figures()("controller_plan_gpus", pool="h100") == 8.0, "a pass has gone well")
    found = figures()
    assert found("controller_leads") == found("controller_moves_total", result="moved") == 1.0
    assert found("controller_cluster_gpus", pool="h100") == 8.0
    assert found("controller_events_lost_total", reason="api") == 0.0
    told = httpx.get(f"http://127.0.0.1:{port}/ready", trust_env=False)
    assert (told.status_code, told.json()["leads"]) == (200, True)

    def events() -> list[dict[str, Any]]:
        found = on.get(f"{API}/events")["items"]
        return [event for event in found if event["involvedObject"]["name"] == "cascadia-controller"]

    until(lambda: "Moved" in {event["reason"] for event in events()}, "the end of the move is told")
    uid = on.get(f"/apis/apps/v1/namespaces/{SPACE}/deployments/cascadia-controller")["metadata"]["uid"]
    # Those of releases before this one are there still.
    ours = [event for event in events() if event["involvedObject"]["uid"] == uid]
    assert {event["source"]["component"] for event in ours} >= {"cascadia-controller"}
    assert {"Holding", "Held", "PlanGiven", "MoveBegun", "Moved"} <= {event["reason"] for event in ours}


def test_a_replica_that_is_slower_than_its_siblings_is_told_from_the_engines_own_figures(
    controllers: Controllers,
) -> None:
    """Of two replicas of two GPUs each the second takes twice as long for a token; the model is one that is known."""
    port = free_port()
    known = tuple(replace(one, model="meta-llama/Llama-3.1-8B-Instruct") for one in BEFORE.stages)
    of_a_known_model = replace(BEFORE, stages=known)
    write_spec_of(of_a_known_model, controllers.folder)
    controllers.give(of_a_known_model)
    controllers.start("--port", str(port))
    controllers.until_said("speed")
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
    assert 'cascadia_controller_drift{about="large-1"} 1.0' in text
    assert 'cascadia_controller_drift{about="large-0"}' not in text
    found = Figures(text)
    slow = found("controller_replica_slowness", stage="large", replica="large-1")
    assert slow / found("controller_replica_slowness", stage="large", replica="large-0") == pytest.approx(
        2.0, rel=0.2
    )
