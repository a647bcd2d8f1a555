"""What the cluster's objects say of replicas and GPUs."""

import json
from dataclasses import asdict
from typing import Any

import pytest

from cascadia.controller.kubernetes.desired import ADMITTED, DRAINING, KIND, ONLY_ON, REPLICA, PoolGpus
from cascadia.controller.kubernetes.pods import beside, gpus_there, lost, ready_for_s, replica_of, trouble_of
from cascadia.controller.move.reconcile import reconcile
from cascadia.controller.move.state import Desired, Kind, Observed, Replica, Routing
from cascadia.controller.move.steps import Drain

SMALL = Kind("small", "h100", 1, "v1")
LABEL, PRODUCT = "nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"
H100 = PoolGpus(LABEL, frozenset({PRODUCT}), "nvidia.com/gpu", 64)


def node(name: str, gpus: int = 8, ready: bool = True, cordoned: bool = False) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {LABEL: PRODUCT}},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {
            "allocatable": {"nvidia.com/gpu": str(gpus)},
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }


def workload(*said: str, **more: Any) -> dict[str, Any]:
    annotations = {REPLICA: "small-0", KIND: json.dumps(asdict(SMALL)), **dict.fromkeys(said, "true")}
    return {"metadata": {"name": "w", "annotations": annotations, **more}}


def pod(ready: bool = True, node: str = "a", **status: Any) -> dict[str, Any]:
    said = [{"type": "Ready", "status": str(ready)}, *status.pop("conditions", [])]
    return {
        "metadata": {"name": "p", "labels": {"cascadia/serves": "true"}},
        "spec": {"nodeName": node},
        "status": {"conditions": said, **status},
    }


def waiting(reason: str, restarts: int = 0) -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": "why"}}
    ended = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    found = {"state": state, "restartCount": restarts, "ready": False, "image": "i", "lastState": ended}
    return {"containerStatuses": [found]}


@pytest.mark.parametrize(
    ("only_on", "state"), [("a", "starting"), ("cordoned", "failed"), ("gone", "failed")]
)
def test_who_may_only_be_on_a_node_that_takes_no_pods_starts_no_more(only_on: str, state: str) -> None:
    found = workload(ADMITTED)
    found["metadata"]["annotations"][ONLY_ON] = only_on
    nodes = [node("a"), node("cordoned", cordoned=True)]
    assert replica_of(found, [pod(ready=False)], nodes).state == state


@pytest.mark.parametrize(
    ("found", "pods", "state"),
    [
        (workload(ADMITTED), [pod()], "ready"),
        (workload(), [pod()], "starting"),
        (workload(ADMITTED), [pod(ready=False)], "starting"),
        (workload(ADMITTED), [], "starting"),
        (workload(ADMITTED), [pod(node="gone")], "starting"),
        (workload(ADMITTED, DRAINING), [pod()], "draining"),
        (workload(ADMITTED), [pod(ready=False, **waiting("CrashLoopBackOff", 5))], "failed"),
        (workload(ADMITTED), [pod(ready=False, **waiting("CrashLoopBackOff", 4))], "starting"),
        (workload(ADMITTED, deletionTimestamp="now"), [pod()], "failed"),
    ],
)
def test_a_replica_is_what_its_objects_say(
    found: dict[str, Any], pods: list[dict[str, Any]], state: str
) -> None:
    on = ("a",) if pods and pods[0]["spec"]["nodeName"] == "a" else ()
    assert replica_of(found, pods, [node("a")]) == Replica("small-0", SMALL, state, on=on)  # type: ignore[arg-type]


def test_the_worst_of_what_keeps_a_replica_from_starting_is_told() -> None:
    unscheduled = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/8 nodes",
    }
    no_room = pod(ready=False, conditions=[unscheduled])
    quota = workload()
    quota["status"] = {
        "conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: gpus"}]
    }
    crashed = pod(ready=False, **waiting("CrashLoopBackOff", 7))
    assert trouble_of(workload(), [pod()]) is None
    assert trouble_of(workload(), [no_room]) == ("p finds no node: 0/8 nodes", "with room")
    assert trouble_of(quota, [no_room]) == ("no pod may be made: exceeded quota: gpus", "soon")
    assert trouble_of(quota, [crashed]) == ("p has ended 7 times (OOMKilled, exit code 137)", "never")
    assert trouble_of(workload(), [pod(ready=False, **waiting("ErrImagePull"))]) == (
        "p: ErrImagePull: why",
        "soon",
    )


def test_gpus_are_those_of_nodes_that_are_ready_and_not_cordoned_and_no_more_than_the_plan_has() -> None:
    nodes = [node("a"), node("b"), node("c", ready=False), node("d", cordoned=True)]
    assert gpus_there({"h100": H100}, nodes) == {"h100": 16}
    few = PoolGpus(LABEL, frozenset({PRODUCT}), "nvidia.com/gpu", 12)
    assert gpus_there({"spot": few, "kept": few}, nodes) == {"spot": 12, "kept": 4}
    other = PoolGpus(LABEL, frozenset({"NVIDIA-L4"}), "nvidia.com/gpu", 8)
    assert gpus_there({"l4": other}, nodes) == {"l4": 0}


def test_how_long_a_pod_has_been_ready_is_told_by_its_kubelets_clock() -> None:
    found = pod()
    found["status"]["conditions"][0]["lastTransitionTime"] = "2026-11-21T20:00:00Z"
    at_s = 1_795_291_200.0
    assert ready_for_s([found], at_s + 12.5) == 12.5
    assert ready_for_s([found], at_s - 5.0) == 0.0
    assert ready_for_s([pod(ready=False)], at_s) == 0.0


def test_a_pod_is_lost_with_its_node() -> None:
    nodes = [node("a"), node("b", ready=False)]
    assert [lost(pod(node=name), nodes) for name in ("a", "b", "gone")] == [False, True, True]
    assert not lost({"spec": {}}, nodes)


def test_the_replica_with_the_least_company_leaves_first_so_that_nodes_become_free_as_a_whole() -> None:
    names = {"small-0": "a", "small-1": "a", "small-2": "b", "small-3": "a", "small-4": "b"}
    replicas = beside((Replica(name, SMALL, "ready"), [pod(node=at)]) for name, at in names.items())
    routing = Routing(("small",))
    observed = Observed(replicas, {"h100": 8}, routing)
    steps = reconcile(observed, Desired({SMALL: 3}, routing))
    assert [step.name for step in steps if isinstance(step, Drain)] == ["small-2", "small-4"]
