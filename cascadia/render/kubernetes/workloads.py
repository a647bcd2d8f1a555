"""One workload per group: a Deployment, or a LeaderWorkerSet where a replica is several pods."""

from typing import Any

from cascadia.render.engine_groups import EngineGroup
from cascadia.render.engines import STARTUP_S
from cascadia.render.kubernetes.metadata import group_selector, workload_metadata
from cascadia.render.kubernetes.pods import leader_pod, single_pod, worker_pod

# The plan uses the GPUs it has: a replica's successor has no place before the replica has left.
_ROLLING = {"maxSurge": 0, "maxUnavailable": 1}


def workload(group: EngineGroup, digest: str) -> dict[str, Any]:
    return deployment(group, digest) if group.ranks == 1 else leader_worker_set(group, digest)


def deployment(group: EngineGroup, digest: str) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": workload_metadata(group, digest),
        "spec": {
            "replicas": len(group.replicas),
            "selector": {"matchLabels": group_selector(group)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": dict(_ROLLING)},
            "progressDeadlineSeconds": STARTUP_S + 300,
            "revisionHistoryLimit": 3,
            "template": single_pod(group),
        },
    }


def leader_worker_set(group: EngineGroup, digest: str) -> dict[str, Any]:
    """A replica whose pods cannot go on alone: when one restarts, all do."""
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": workload_metadata(group, digest),
        "spec": {
            "replicas": len(group.replicas),
            "startupPolicy": "LeaderCreated",
            "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": dict(_ROLLING)},
            "leaderWorkerTemplate": {
                "size": group.ranks,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": leader_pod(group),
                "workerTemplate": worker_pod(group),
            },
        },
    }
