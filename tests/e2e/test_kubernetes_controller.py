"""`cascadia controller --backend kubernetes` as processes, with the rights that the chart gives and no more.

The API server, its scheduler and controller manager are real; nodes and kubelets are simulated.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.k8s_cluster import Cluster, cluster, until
from tests.e2e.k8s_controllers import API, Controllers
from tests.e2e.k8s_release import SPACE, h100_nodes, h100_plan, helm, install
from tests.e2e.k8s_watch import watching
from tests.unit.deploy.chart import CHART
from tests.unit.spec.specs import valid_spec, write_inputs, write_spec

BEFORE, AFTER = h100_plan(1, small=4, large=2), h100_plan(1, small=2, large=3)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), h100_nodes(1), startup_s=0.5) as found:
        yield found


@pytest.fixture
def controllers(made: Cluster, tmp_path: Path) -> Iterator[Controllers]:
    install(made, BEFORE)
    write_inputs(tmp_path)
    write_spec(tmp_path, valid_spec())
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
    assert kinds == ["given", "begun", "adopted", "moved"]
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
