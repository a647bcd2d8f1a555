"""A plan as what a cluster has to run: kinds with how each is rendered, how many of each, and what routers are told.

Objects come from the same rendering as the chart's. A replica is a workload of its own: a Deployment of one pod, or a
LeaderWorkerSet of one group. Which replica leaves is then what we say, on every version of Kubernetes, and what a
controller that died had begun can be told from the cluster alone.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from cascadia.controller.fleet import JUDGE, Desired, Kind, Routing
from cascadia.controller.local_plan import capacity_rps, units
from cascadia.domain.plan import Plan
from cascadia.planner.plan_file import read_plan
from cascadia.render.engine_groups import engine_groups
from cascadia.render.gpu_nodes import gpu_node
from cascadia.render.helm_values import helm_values
from cascadia.render.kubernetes.chart_values import Values, defaults, merged
from cascadia.render.kubernetes.engine_pods import engine_pod
from cascadia.render.kubernetes.release import Release
from cascadia.render.kubernetes.router_config import router_config
from cascadia.render.kubernetes.units import Group, Unit
from cascadia.render.kubernetes.units import units as rendered_units
from cascadia.render.kubernetes.workloads import unit_objects, workload
from cascadia.render.yaml_text import yaml_text

REPLICA, KIND, ADMITTED, DRAINING = (
    "cascadia/replica",
    "cascadia/kind",
    "cascadia/admitted",
    "cascadia/draining",
)
"""On a replica's workload: its name (a label too, of its pods as well), what it is, and whether routers send to it."""

_OF_A_PLAN = ("kind", "placement", "name", "groups")
"""What a plan says of the judge; the rest of `judge` is the user's."""


@dataclass(frozen=True, slots=True)
class PoolGpus:
    """Nodes whose `label` is one of `products` have GPUs of the pool; `most` of them are the plan's."""

    label: str
    products: frozenset[str]
    resource: str
    most: int


@dataclass(frozen=True, slots=True)
class Made:
    """How replicas of a kind are rendered."""

    release: Release
    unit: Unit
    group: Group

    def replica(self, name: str, kind: Kind) -> dict[str, Any]:
        """The workload of the replica `name`, which ends in a number that no other of its stage has."""
        stem = f"{self.group['name']}-{name.rpartition('-')[2]}"
        found = workload(self.release, self.unit, {**self.group, "replicas": 1})
        about, spec = found["metadata"], found["spec"]
        about["name"] = self.release.named(stem)
        label = {REPLICA: about["name"]}
        about["labels"] = about["labels"] | label
        about["annotations"] |= {REPLICA: name, KIND: json.dumps(asdict(kind), sort_keys=True)}
        about["annotations"].pop("cascadia/share")
        if "template" in spec:
            spec["strategy"] = {"type": "Recreate"}
            spec["selector"]["matchLabels"] = spec["selector"]["matchLabels"] | label
            templates = [spec["template"]]
        else:
            ranks = spec["leaderWorkerTemplate"]
            templates = [ranks["leaderTemplate"], ranks["workerTemplate"]]
        for template in templates:
            template["metadata"]["labels"] = template["metadata"]["labels"] | label
        return found

    def shared(self) -> list[dict[str, Any]]:
        """What replicas of the unit need beside them: Services and a budget of disruptions."""
        return list(unit_objects(self.release, self.unit))


@dataclass(frozen=True, slots=True)
class KubernetesPlan:
    """`made`: by kind. `pools`: of the whole cluster of the plan, used or not. `rates_rps`: what the plan expects."""

    release: Release
    made: Mapping[Kind, Made]
    counts: Mapping[Kind, int]
    capacity_rps: Mapping[Kind, float]
    routing: Routing
    pools: Mapping[str, PoolGpus]
    rates_rps: Mapping[str, float]

    def desired(self, need_rps: Mapping[str, float]) -> Desired:
        return Desired(self.counts, self.routing, need_rps, self.capacity_rps)

    def router_yaml(self, serving: Mapping[Kind, int]) -> str:
        """What routers are told while so many replicas of each kind serve. A stage that has none is told as planned:
        its replicas are coming back. `revision` is told by routers in turn when the text is in force."""
        values = self.release.values
        judge = _judge_serving(self, serving, values["judge"])
        stages = [_serving(self, serving, stage, stage["servedModelName"]) for stage in values["stages"]]
        live = Release(
            {**values, "stages": stages, "judge": judge},
            self.release.name,
            self.release.namespace,
            self.release.apis,
        )
        document = router_config(live)
        return yaml_text([{**document, "revision": _digest(document)}])


def kubernetes_plan(
    plan: Plan, base: Values, name: str, namespace: str, apis: frozenset[str]
) -> KubernetesPlan:
    """`base`: the values that the release was installed with. Raises `BadInput` where the cluster does not hold the
    plan."""
    groups = engine_groups(plan, plan.cluster)
    release = Release(merged(_without_plan(base), helm_values(plan, groups)), name, namespace, apis)
    made: dict[Kind, Made] = {}
    counts: Counter[Kind] = Counter()
    capacity: dict[Kind, float] = {}
    planned = {
        (stage, group.pool, group.tp, group.pp): group
        for stage, unit in units(plan)
        for group in unit.replicas
    }
    for unit in rendered_units(release.values):
        stage = _stage_of(unit)
        for group in unit["groups"]:
            kind = _kind(release, unit, group, stage)
            shape = stage, group["pool"], group["tensorParallel"], group["pipelineParallel"]
            made[kind] = Made(release, unit, group)
            counts[kind] += group["replicas"]
            capacity[kind] = capacity_rps(plan, stage, planned[shape])
    served = [*(s["servedModelName"] for s in release.values["stages"]), JUDGE]
    gates = tuple(float(s["threshold"]) for s in release.values["stages"][:-1])
    routing = Routing(
        tuple(s for s in served if any(k.stage == s for k in made)), gates, _digest(router_config(release))
    )
    rates = {s: sum(capacity[k] * n for k, n in counts.items() if k.stage == s) for s in routing.stages}
    return KubernetesPlan(release, made, counts, capacity, routing, _pools(plan, base), rates)


def read_kubernetes_plan(
    path: Path, base: Values, name: str, namespace: str, apis: frozenset[str]
) -> KubernetesPlan:
    return kubernetes_plan(read_plan(path), base, name, namespace, apis)


def _without_plan(base: Values) -> Values:
    """The user's own values, over the chart's."""
    given = merged(defaults(), base)
    judge = {key: value for key, value in given["judge"].items() if key in defaults()["judge"]}
    kept = {key: value for key, value in judge.items() if key not in _OF_A_PLAN}
    plain = {key: defaults()["judge"][key] for key in _OF_A_PLAN}
    return {**given, "judge": {**kept, **plain}, "stages": []}


def _stage_of(unit: Unit) -> str:
    return JUDGE if unit["role"] == "judge" else str(unit["servedModelName"])


def _kind(release: Release, unit: Unit, group: Group, stage: str) -> Kind:
    """Of one kind are those that are started alike."""
    pods = [engine_pod(release, unit, group, serves=True)]
    if group["podsPerReplica"] > 1:
        pods.append(engine_pod(release, unit, group, serves=False))
    gpus = group["gpusPerPod"] * group["podsPerReplica"]
    return Kind(stage, group["pool"], gpus, _digest([group["podsPerReplica"], *pods]))


def _pools(plan: Plan, base: Values) -> dict[str, PoolGpus]:
    """With the spellings of products that the user has added to a pool's groups."""
    spelled: dict[str, set[str]] = {}
    for unit in [*base.get("stages", ()), base.get("judge", {})]:
        for group in unit.get("groups", ()):
            spelled.setdefault(group["pool"], set()).update(group["gpuProducts"])
    found = {}
    for pool in plan.cluster.pools:
        node = gpu_node(pool.gpu)
        products = frozenset({node.product} | spelled.get(pool.name, set()))
        found[pool.name] = PoolGpus(node.label, products, node.resource, pool.gpus)
    return found


def _serving(plan: KubernetesPlan, serving: Mapping[Kind, int], unit: Unit, stage: str) -> Unit:
    """The unit with the groups that serve, their number and their share."""
    weight = {
        made.group["name"]: (serving.get(kind, 0), plan.capacity_rps[kind])
        for kind, made in plan.made.items()
        if kind.stage == stage
    }
    total = sum(count * capacity for count, capacity in weight.values())
    if not total:
        return unit
    groups = [
        {**group, "replicas": count, "share": round(count * capacity / total, 9)}
        for group in unit["groups"]
        for count, capacity in [weight[group["name"]]]
        if count
    ]
    return {**unit, "groups": groups}


def _judge_serving(plan: KubernetesPlan, serving: Mapping[Kind, int], judge: Unit) -> Unit:
    return _serving(plan, serving, judge, JUDGE) if judge["groups"] else judge


def _digest(document: Any) -> str:
    return blake2b(json.dumps(document, sort_keys=True).encode(), digest_size=8).hexdigest()
