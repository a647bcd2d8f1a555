"""Affinity of an engine's pods: the nodes that they run on, and the pods beside them."""

from typing import Any

from cascadia.render.kubernetes.engines.labels import group_selector
from cascadia.render.kubernetes.engines.units import Engines, Group
from cascadia.render.kubernetes.release import Release

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Affinity = dict[str, Any]


def engine_affinity(release: Release, group: Group, engines: Engines) -> Affinity:
    """Nodes with the pool's GPU, and ranks of a replica near one another; a user's affinity besides."""
    found = {
        **engines["affinity"],
        "nodeAffinity": _nodes(engines["affinity"].get("nodeAffinity", {}), group),
    }
    key = engines["topologyKey"]
    if group["podsPerReplica"] > 1 and key:
        near = {"topologyKey": key, "labelSelector": {"matchLabels": group_selector(release, group)}}
        pods = found.get("podAffinity", {})
        preferred = [{"weight": 100, "podAffinityTerm": near}, *pods.get(PREFERRED, ())]
        found["podAffinity"] = {**pods, PREFERRED: preferred}
    return found


def _nodes(users: Affinity, group: Group) -> Affinity:
    """Terms are alternatives: each wants the GPU."""
    on_gpu = {"key": group["gpuLabel"], "operator": "In", "values": group["gpuProducts"]}
    terms = users.get(REQUIRED, {}).get("nodeSelectorTerms") or [{}]
    each = [{**term, "matchExpressions": [on_gpu, *term.get("matchExpressions", ())]} for term in terms]
    return {**users, REQUIRED: {"nodeSelectorTerms": each}}
