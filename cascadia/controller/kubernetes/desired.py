"""A plan as what a cluster has to run: kinds with how each is rendered, how many of each, and what routers are told.

Objects come from the same rendering as the chart's. A replica is a workload of its own: a Deployment of one pod, or a
LeaderWorkerSet of one group. Which replica leaves is then what we say, on every version of Kubernetes, and what a
controller that died had begun can be told from the cluster alone.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from cascadia.controller.local.desired import capacity_rps, units
from cascadia.controller.move.gates import routing_of
from cascadia.controller.move.state import JUDGE, Desired, Kind, Routing, judge_stage
from cascadia.domain.plan import Plan
from cascadia.files.plan_file import read_plan
from cascadia.render.engine_groups import engine_groups
from cascadia.render.gpu_nodes import gpu_node, labelled
from cascadia.render.helm_values import helm_values
from cascadia.render.kubernetes.chart_values import Values, defaults, merged
from cascadia.render.kubernetes.engines.affinity import PREFERRED, REQUIRED
from cascadia.render.kubernetes.engines.pods import engine_pod
from cascadia.render.kubernetes.engines.units import Group, Unit
from cascadia.render.kubernetes.engines.units import units as rendered_units
from cascadia.render.kubernetes.engines.workloads import unit_objects, workload
from cascadia.render.kubernetes.release import Release
from cascadia.render.kubernetes.router_config import router_config
from cascadia.render.yaml_text import yaml_text

REPLICA, KIND, CAPACITY = "cascadia/replica", "cascadia/kind", "cascadia/capacity-rps"
"""On a replica's workload: its name (a label too, of its pods as well), what it is, what its plan gave it to do."""

ONLY_ON = "cascadia/only-on"
"""On the workload too: the only node that its pods may be on."""

ADMITTED, DRAINING = "cascadia/admitted", "cascadia/draining"
"""On the workload too: whether routers send to it."""

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
    """Recipe for replicas of a kind, as Kubernetes objects. `capacity_rps`: what the plan gives one to do."""

    release: Release
    unit: Unit
    group: Group
    capacity_rps: float

    def replica(self, name: str, kind: Kind, machine: str = "", *, only: bool = False) -> dict[str, Any]:
        """The workload of the replica `name`, which ends in a number that no other of its stage has.

        Its pods rather run on the node `machine`, or `only` there.
        """
        stem = f"{self.group['name']}-{name.rpartition('-')[2]}"
        found = workload(self.release, self.unit, {**self.group, "replicas": 1})
        about, spec = found["metadata"], found["spec"]
        about["name"] = self.release.named(stem)
        label = {REPLICA: about["name"]}
        about["labels"] = about["labels"] | label
        about["annotations"] |= {
            REPLICA: name,
            KIND: json.dumps(asdict(kind), sort_keys=True),
            CAPACITY: f"{self.capacity_rps:.6g}",
        }
        about["annotations"].pop("cascadia/share")
        if only:
            about["annotations"][ONLY_ON] = machine
        if "template" in spec:
            spec["strategy"] = {"type": "Recreate"}
            spec["selector"]["matchLabels"] = spec["selector"]["matchLabels"] | label
            templates = [spec["template"]]
        else:
            ranks = spec["leaderWorkerTemplate"]
            templates = [ranks["leaderTemplate"], ranks["workerTemplate"]]
        for template in templates:
            template["metadata"]["labels"] = template["metadata"]["labels"] | label
            _place(template["spec"]["affinity"]["nodeAffinity"], machine, only)
        return found

    def shared(self) -> list[dict[str, Any]]:
        """Objects that replicas of the unit need beside them: Services and a budget of disruptions."""
        return list(unit_objects(self.release, self.unit))


class Serving(NamedTuple):
    """A replica that routers send to, by its stage and the group whose Service reaches it."""

    stage: str
    group: str
    capacity_rps: float


@dataclass(frozen=True, slots=True)
class KubernetesPlan:
    """`made`: by kind. `pools`: of the whole cluster of the plan, used or not. `rates_rps`: what the plan expects."""

    release: Release
    made: Mapping[Kind, Made]
    counts: Mapping[Kind, int]
    routing: Routing
    pools: Mapping[str, PoolGpus]
    rates_rps: Mapping[str, float]

    def desired(self, need_rps: Mapping[str, float]) -> Desired:
        capacity = {kind: made.capacity_rps for kind, made in self.made.items()}
        return Desired(self.counts, self.routing, need_rps, capacity)

    def router_yaml(self, serving: Iterable[Serving]) -> str:
        """router.yaml while these serve. A stage that has none is written as planned: its replicas are coming
        back. Routers say `revision` in turn when the text is in force.
        """
        serving = list(serving)
        values = self.release.values
        judge = values["judge"]
        told = {
            **values,
            "stages": [_serving(stage, _stage_of(stage), serving) for stage in values["stages"]],
            "judge": _serving(judge, _judge_stage(judge), serving) if judge["groups"] else judge,
        }
        document = router_config(replace(self.release, values=told))
        if "gears" in document:
            # Gears were planned for so many replicas, however many serve now.
            stages = [{**stage, **self._planned_share(stage["name"])} for stage in document["stages"]]
            document = {**document, "stages": stages}
        return revised(document)

    def _planned_share(self, stage: str) -> dict[str, float]:
        planned = self.rates_rps.get(stage)
        return {"planned_share": float(f"{planned:.6g}")} if planned else {}


def revised(document: Mapping[str, Any]) -> str:
    """A router.yaml whose revision routers say when it is in force."""
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
    planned = {
        (stage, group.pool, group.tp, group.pp): group
        for stage, unit in units(plan)
        for group in unit.replicas
    }
    for unit in rendered_units(release.values):
        named, stage = (JUDGE, _judge_stage(unit)) if unit["role"] == JUDGE else (_stage_of(unit),) * 2
        for group in unit["groups"]:
            kind = _kind(release, unit, group, stage)
            shape = named, group["pool"], group["tensorParallel"], group["pipelineParallel"]
            made[kind] = Made(release, unit, group, capacity_rps(plan, named, planned[shape]))
            counts[kind] += group["replicas"]
    # Who comes last accepts all; that may be somebody else's API, which has no replicas here.
    last = next((stage.name for stage in reversed(plan.stages) if stage.deployed), None)
    ours = release.values["stages"]
    gated = [stage["servedModelName"] for stage in ours if stage["servedModelName"] != last]
    routing = routing_of(plan, dict.fromkeys(kind.stage for kind in made), gated, _label(release))
    rates: dict[str, float] = {}
    for kind, count in counts.items():
        stage = JUDGE if made[kind].unit["role"] == JUDGE else kind.stage
        rates[stage] = rates.get(stage, 0.0) + made[kind].capacity_rps * count
    return KubernetesPlan(release, made, counts, routing, _pools(plan, base), rates)


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
    # The rest of `cascade` says how the old plan's requests went; its gears beside a mixture no router takes.
    cascade = {**defaults()["cascade"], "name": given["cascade"]["name"]}
    return {**given, "cascade": cascade, "judge": {**kept, **plain}, "stages": [], "externalStages": []}


def _stage_of(unit: Unit) -> str:
    return str(unit["servedModelName"])


def _judge_stage(unit: Unit) -> str:
    """Another model is another judge, another shape is not."""
    return judge_stage(_digest([unit["model"], unit["engine"], unit["engineVersion"]]))


def _kind(release: Release, unit: Unit, group: Group, stage: str) -> Kind:
    """Kind of a group's replicas: those that are started alike are of one."""
    pods = [engine_pod(release, unit, group, serves=True)]
    if group["podsPerReplica"] > 1:
        pods.append(engine_pod(release, unit, group, serves=False))
    gpus = group["gpusPerPod"] * group["podsPerReplica"]
    spec = _digest([group["podsPerReplica"], *pods])
    return Kind(stage, group["pool"], gpus, spec, group["podsPerReplica"])


def is_replicas(document: Mapping[str, Any]) -> bool:
    """Tells whether it is of a replica that a controller made, and not of the chart."""
    return REPLICA in document["metadata"]["labels"]


def owned(document: Mapping[str, Any], owner: Mapping[str, Any]) -> dict[str, Any]:
    """The document, to be deleted with `owner`."""
    return {**document, "metadata": {**document["metadata"], "ownerReferences": [owner]}}


def _place(affinity: dict[str, Any], machine: str, only: bool) -> None:
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [machine]}]}
    if only:
        for term in affinity[REQUIRED]["nodeSelectorTerms"]:
            term |= named
    elif machine:
        affinity[PREFERRED] = [*affinity.get(PREFERRED, ()), {"weight": 100, "preference": named}]


def _pools(plan: Plan, base: Values) -> dict[str, PoolGpus]:
    """Pools with the spellings of products that the user has added to their groups."""
    spelled: dict[str, set[str]] = {}
    for unit in [*base.get("stages", ()), base.get("judge", {})]:
        for group in unit.get("groups", ()):
            spelled.setdefault(group["pool"], set()).update(group["gpuProducts"])
    found = {}
    for pool in plan.cluster.pools:
        node = labelled(gpu_node(pool), pool.gpu)
        products = frozenset({node.product} | spelled.get(pool.name, set()))
        found[pool.name] = PoolGpus(node.label, products, node.resource, pool.gpus)
    return found


def _serving(unit: Unit, stage: str, serving: Iterable[Serving]) -> Unit:
    """The unit with the groups that serve, their number and their share; of those planned, with what balancing begins
    with."""
    capacities: dict[str, list[float]] = {}
    for replica in serving:
        if replica.stage == stage:
            capacities.setdefault(replica.group, []).append(replica.capacity_rps)
    if not capacities:
        return unit
    learns = {group["name"]: group["learns"] for group in unit["groups"] if "learns" in group}
    # The share is of each address: it stays as it is when others come and go.
    groups = [
        {"name": name, "replicas": len(found), "share": sum(found)}
        | ({"learns": learns[name]} if name in learns else {})
        for name, found in sorted(capacities.items())
    ]
    return {**unit, "groups": groups}


def _label(release: Release) -> str:
    """Digest of all that routers are told except which replicas there are."""
    values = release.values
    plain = [{**stage, "groups": []} for stage in values["stages"]]
    judge = {**values["judge"], "groups": values["judge"]["groups"][:1]}
    for group in judge["groups"]:
        judge["groups"] = [{**group, "replicas": 1, "share": 1.0}]
    return _digest(router_config(replace(release, values={**values, "stages": plain, "judge": judge})))


def _digest(document: Any) -> str:
    return blake2b(json.dumps(document, sort_keys=True).encode(), digest_size=8).hexdigest()
