"""A plan as groups of equal engine replicas, placed on nodes: what every target is written from."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Literal

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.errors import BadInput
from cascadia.domain.plan import Deployed, Plan, ReplicaGroup, StagePlan
from cascadia.render.engine_args import Drafts, Launch
from cascadia.render.gpu_nodes import CORES, GpuNode, gpu_node
from cascadia.render.names import CHARTS_OWN, labels
from cascadia.render.placement import Demand, Replica, place
from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.iteration.engine_config import LLAMA_CPP, EngineConfig

JUDGE = "judge"

RESERVED = (*CHARTS_OWN, JUDGE)
"""Names that other objects of a deployment have; the judge's own is its engines'."""

_LONGEST_STEM = 43
"""With the deployment's own name before it, `cascadia-`, a label that controllers can append to."""

SHORTEST_DRAIN_S = 120
LONGEST_DRAIN_S = 1800


@dataclass(frozen=True, slots=True)
class EngineGroup:
    """Equal replicas of one model on one pool.

    `model` is the plan's, `loads` what its engines read: the plan's `weights` where it has them.
    `stem` is the DNS label shared by all groups of a stage, `name_stem` the group's own; objects of a deployment
    are called after it, a dash, and these. `share` (0-1) of the stage's requests goes to the group as a whole.
    `drain_s` is how long a stopping engine may finish what it has begun.
    """

    role: Literal["stage", "judge"]
    served_name: str
    stem: str
    name_stem: str
    engine: str
    model: str
    loads: str
    config: EngineConfig
    pool: str
    pool_label: str
    hardware: Gpu
    gpu: GpuNode
    tp: int
    pp: int
    share: float
    drain_s: int
    replicas: tuple[Replica, ...]
    drafts: Drafts = ()
    bounds_thinking: bool = False
    learns: Mapping[str, Any] = field(default_factory=dict)
    """What a router's file says of each replica to a balancing that learns."""

    @property
    def service(self) -> str:
        return f"cascadia-{self.stem}"

    @property
    def name(self) -> str:
        return f"cascadia-{self.name_stem}"

    @property
    def ranks(self) -> int:
        """Engine processes of one replica."""
        return len(self.replicas[0])

    @property
    def gpus_per_rank(self) -> int:
        return self.tp * self.pp // self.ranks

    @property
    def gpus(self) -> int:
        return self.tp * self.pp * len(self.replicas)

    def launch(self, *, weights: str, host: str, port: int) -> Launch:
        """Launch of a single-rank replica; others `replace` its `ranks`."""
        return Launch(
            engine=self.engine,
            model=self.model,
            weights=weights,
            served_name=self.served_name,
            config=self.config,
            gpu=self.hardware,
            tp=self.tp,
            pp=self.pp,
            host=host,
            port=port,
            drain_s=self.drain_s,
            drafts=self.drafts,
            bounds_thinking=self.bounds_thinking,
        )


@dataclass(frozen=True, slots=True)
class _Wanted:
    role: Literal["stage", "judge"]
    served_name: str
    unit: Deployed
    model: str
    group: ReplicaGroup
    drain_s: int


def engine_groups(plan: Plan, cluster: Cluster) -> tuple[EngineGroup, ...]:
    """Engine groups in the plan's order, the judge last; what has no replicas is left out.

    Raises `BadInput` where the cluster does not hold the plan or a name cannot be used.
    """
    wanted = tuple(_wanted(plan))
    pools = {w.group.pool: _pool(cluster, w.group.pool) for w in wanted}
    for w in wanted:
        if gpu_node(pools[w.group.pool]) is CORES and w.unit.engine != LLAMA_CPP:
            raise BadInput(
                f"plan: pool {w.group.pool}",
                f"its replicas run on CPU cores, and how to start {w.unit.engine} there is not known",
                "use engine: llama.cpp, or `cascadia up --engines local.yaml` with a command per stage",
            )
    pool_labels = dict(zip(pools, labels(pools, limit=12), strict=True))
    stems, names = _names(wanted, pool_labels)
    placed = _placed(wanted, pools)
    return tuple(
        EngineGroup(
            role=w.role,
            served_name=w.served_name,
            stem=stems[w.role, w.served_name],
            name_stem=names[i],
            engine=w.unit.engine,
            model=w.model,
            loads=w.unit.weights or w.model,
            config=replace(
                w.unit.config, quantization=w.unit.quantization, max_model_len=w.unit.max_model_len
            ),
            pool=w.group.pool,
            pool_label=pool_labels[w.group.pool],
            hardware=pools[w.group.pool].hardware,
            gpu=gpu_node(pools[w.group.pool]),
            tp=w.group.tp,
            pp=w.group.pp,
            share=w.group.share,
            drain_s=w.drain_s,
            replicas=placed[i],
            drafts=w.group.drafts,
            bounds_thinking=bounds_thinking(w.unit),
            learns=w.group.learns,
        )
        for i, w in enumerate(wanted)
    )


def bounds_thinking(unit: Deployed) -> bool:
    """Tells whether a router sends the unit's engines budgets of thought (`exits_by: question`)."""
    return isinstance(unit, StagePlan) and bool(unit.exits) and unit.budget_field is not None


def _wanted(plan: Plan) -> Iterator[_Wanted]:
    names = [stage.name for stage in plan.stages]
    longest_s = {stage.name: stage.latency.p99_s for stage in plan.predicted.stages}
    for i, stage in enumerate(plan.stages):
        if stage.name in names[:i]:
            raise BadInput(
                f"plan: stages[{i}].name", f"{stage.name!r} is used twice", "rename one of the two"
            )
        for group in stage.replicas:
            if group.gpus:
                drain_s = _drain_s(longest_s.get(stage.name, 0.0))
                yield _Wanted("stage", stage.name, stage, stage.model, group, drain_s)
    judge = plan.judge
    if judge.gpus and judge.model is None:
        raise BadInput("plan: judge.model", "a self-hosted judge has no model", "plan again")
    for group in judge.replicas:
        if group.gpus and judge.model is not None:
            longest = plan.predicted.judge.latency.p99_s if plan.predicted.judge else 0.0
            yield _Wanted("judge", JUDGE, judge, judge.model, group, _drain_s(longest))


def _drain_s(p99_s: float) -> int:
    """Twice the 99th percentile, within bounds: few answers take longer."""
    if not math.isfinite(p99_s):
        return LONGEST_DRAIN_S
    return min(max(SHORTEST_DRAIN_S, math.ceil(2 * p99_s)), LONGEST_DRAIN_S)


def _pool(cluster: Cluster, name: str) -> Pool:
    for pool in cluster.pools:
        if pool.name == name:
            return pool
    known = ", ".join(pool.name for pool in cluster.pools)
    raise BadInput(f"plan: pool {name}", "the cluster has no such pool", f"it has {known}; plan again for it")


def _names(
    wanted: tuple[_Wanted, ...], pool_labels: dict[str, str]
) -> tuple[dict[tuple[str, str], str], tuple[str, ...]]:
    """DNS labels of the units, by role and served name, and of the groups; none is used twice or reserved."""
    units = tuple(dict.fromkeys((w.role, w.served_name) for w in wanted if w.role == "stage"))
    short = labels((*RESERVED, *(name for _, name in units)), limit=24)[len(RESERVED) :]
    stems: dict[tuple[str, str], str] = dict(zip(units, short, strict=True))
    stems["judge", JUDGE] = JUDGE
    described = [
        f"{stems[w.role, w.served_name]}-{pool_labels[w.group.pool]}-tp{w.group.tp}pp{w.group.pp}"
        for w in wanted
    ]
    unique = labels([*RESERVED, *short, *described], limit=_LONGEST_STEM)
    return stems, unique[len(RESERVED) + len(short) :]


def _placed(wanted: tuple[_Wanted, ...], pools: dict[str, Pool]) -> dict[int, tuple[Replica, ...]]:
    placed: dict[int, tuple[Replica, ...]] = {}
    by_pool = sorted(range(len(wanted)), key=lambda i: (wanted[i].group.pool, i))
    for name, members in groupby(by_pool, key=lambda i: wanted[i].group.pool):
        indices = list(members)
        demands = [Demand(g.tp, g.pp, g.count) for g in (wanted[i].group for i in indices)]
        placed |= dict(zip(indices, place(pools[name], demands), strict=True))
    return placed
