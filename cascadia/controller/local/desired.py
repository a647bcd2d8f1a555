"""A plan as what this machine has to run: kinds with their launches, how many of each, and the router's file."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from importlib.util import find_spec
from typing import Any

import orjson

from cascadia.clients.processes import llama_server
from cascadia.controller.local.engines_file import Engine, Local
from cascadia.controller.local.judge import (
    behind_probe,
    embedding_judge,
    model_of_judge,
    probed_stage,
    stage_of_judge,
)
from cascadia.controller.local.launch import GPUS, PORT, Launch, spec_of
from cascadia.controller.local.one_pass import one_pass_launches, one_pass_router
from cascadia.controller.local.router_file import is_elsewhere, replicas_of, secrets_of
from cascadia.controller.move.gates import routing_of
from cascadia.controller.move.state import JUDGE, Desired, Kind, Routing
from cascadia.domain.cluster import Cluster
from cascadia.domain.errors import BadInput
from cascadia.domain.plan import Deployed, Plan, ReplicaGroup
from cascadia.domain.planned import planned_document
from cascadia.domain.routed import stages_document
from cascadia.render.engine_args import Launch as EngineLaunch
from cascadia.render.engine_args import arguments, command
from cascadia.render.engine_groups import EngineGroup, engine_groups
from cascadia.render.engines import STARTUP_S
from cascadia.render.gpu_nodes import gpu_node
from cascadia.render.models import weights
from cascadia.render.one_pass import in_one_pass
from cascadia.render.processes import LOOPBACK
from cascadia_sim.iteration.engine_config import LLAMA_CPP

_ANY_PORT = 0


@dataclass(frozen=True, slots=True)
class LocalPlan:
    """`router`: the document of router.yaml but for the replicas, which change as they come and go."""

    launches: Mapping[Kind, Launch]
    counts: Mapping[Kind, int]
    routing: Routing
    gpus: Mapping[str, int]
    router: Mapping[str, Any]

    @property
    def served(self) -> tuple[str, ...]:
        """Stages by name, or their groups', and the judge: those that the router sends to and APIs elsewhere."""
        stages = [replicas_of(stage) for stage in self.router["stages"]]
        return tuple(dict.fromkeys((*stages, *self.routing.stages)))

    @property
    def task(self) -> str:
        """The task of all of its stages."""
        return str(self.router["stages"][0].get("task", "generate"))

    def desired(
        self, need_rps: Mapping[str, float] | None = None, surge: Mapping[str, int] | None = None
    ) -> Desired:
        capacity = {kind: launch.capacity_rps for kind, launch in self.launches.items()}
        return Desired(self.counts, self.routing, need_rps or {}, capacity, surge or {})


def local_plan(plan: Plan, local: Local | None = None) -> LocalPlan:
    """Raises `BadInput` where this is no plan for one machine, or the file names a stage that the plan lacks."""
    local = local or Local()
    found = _in_one_pass(plan, local) if in_one_pass(plan) else _in_cascade(plan, local)
    secrets = secrets_of(found.router)
    launches = {kind: replace(launch, secrets=secrets) for kind, launch in found.launches.items()}
    return replace(found, launches=launches)


def _in_cascade(plan: Plan, local: Local) -> LocalPlan:
    _check(plan, local)
    launches: dict[Kind, Launch] = {}
    counts: Counter[Kind] = Counter()
    rendered = _rendered(plan, local)
    probed = probed_stage(plan, local, local.router)
    for name, unit in units(plan):
        for group in unit.replicas:
            if group.count and group.gpus:
                launch = _launch(plan, name, unit, group, local.stages.get(name), rendered)
                if name == probed:
                    launch = _probed(plan, launch)
                launches[launch.kind] = launch
                counts[launch.kind] += group.count
    router = _router(plan, local)
    if router.get("judge") == {"kind": "embedding"}:
        launch = embedding_judge(plan, local.stages.get(JUDGE))
        launches[launch.kind], counts[launch.kind] = launch, 1
    # What an API elsewhere answers has no replicas of ours to wait for, to count or to drain.
    ours = {stage["name"] for stage in router["stages"] if not is_elsewhere(stage)}
    stages = tuple(stage["name"] for stage in router["stages"] if stage["name"] in ours)
    judges = sorted({kind.stage for kind in counts} - {stage.name for stage in plan.stages})
    served = (*stages, *judges)
    gated = [stage["name"] for stage in router["stages"][:-1] if stage["name"] in ours]
    routing = routing_of(plan, served, gated, _label(router))
    return LocalPlan(launches, counts, routing, _there(plan), router)


def _in_one_pass(plan: Plan, local: Local) -> LocalPlan:
    """The same of models that share their workers."""
    started = one_pass_launches(plan, local)
    _check_names(local, [kind.stage for kind in started])
    router = one_pass_router(plan, local)
    return LocalPlan(
        {kind: launch for kind, (launch, _) in started.items()},
        {kind: count for kind, (_, count) in started.items()},
        Routing(tuple(kind.stage for kind in started), (), _label(router)),
        _there(plan),
        router,
    )


def _label(router: Mapping[str, Any]) -> str:
    # Where it listens is settled when it starts, and may have been told to `cascadia up` alone.
    told = {name: value for name, value in router.items() if name != "port"}
    return blake2b(orjson.dumps(told, option=orjson.OPT_SORT_KEYS), digest_size=5).hexdigest()


def _there(plan: Plan) -> dict[str, int]:
    return {pool.name: pool.gpus for pool in plan.cluster.pools}


def _check(plan: Plan, local: Local) -> None:
    _check_names(local, [name for name, _ in units(plan)])
    for pool in plan.cluster.pools:
        if pool.nodes > 1:
            raise BadInput(
                f"plan: pool {pool.name}",
                f"has {pool.nodes} nodes, and this is one machine",
                "plan with nodes: 1, or use Kubernetes",
            )


def _check_names(local: Local, names: Sequence[str]) -> None:
    for name in local.stages:
        if name not in names:
            raise BadInput(
                f"--engines: stages.{name}", "the plan has no such stage", f"it has {', '.join(names)}"
            )


def units(plan: Plan) -> list[tuple[str, Deployed]]:
    return [*((stage.name, stage) for stage in plan.stages), (JUDGE, plan.judge)]


def _launch(
    plan: Plan,
    name: str,
    unit: Deployed,
    group: ReplicaGroup,
    engine: Engine | None,
    rendered: Mapping[tuple[str, str, int, int], EngineGroup],
) -> Launch:
    pool = plan.cluster.pool(group.pool)
    cores = pool.on_cores
    if engine is not None:
        argv, env = tuple(engine.command), dict(engine.env)
        env = gpu_node(pool).visible(GPUS) | env
        times = engine.health_path, engine.startup_s, engine.drain_s
    else:
        found = rendered[name, group.pool, group.tp, group.pp]
        launch = found.launch(weights=weights(found.loads), host=LOOPBACK, port=_ANY_PORT)
        if name == JUDGE:
            launch = replace(launch, served_name=model_of_judge(plan, engine))
        argv = (*_program(launch, cores), *_at_its_port(arguments(launch)))
        env = found.gpu.visible(GPUS)
        if unit.engine == "vllm":
            env["VLLM_NO_USAGE_STATS"] = "1"
        times = "/health", float(STARTUP_S), float(found.drain_s)
    spec = spec_of(argv, env)
    return Launch(
        Kind(stage_of_judge(plan, engine) if name == JUDGE else name, group.pool, group.tp * group.pp, spec),
        argv,
        env,
        cores,
        *times,
        capacity_rps=capacity_rps(plan, name, group),
        max_concurrency=engine.max_concurrency if engine is not None else plan.places(name, unit.config),
        learns=group.learns,
    )


def _probed(plan: Plan, launch: Launch) -> Launch:
    argv = behind_probe(plan.judge.model or "", launch.argv)
    return replace(launch, argv=argv, kind=replace(launch.kind, spec=spec_of(argv, launch.env)))


def _program(launch: EngineLaunch, cores: bool) -> tuple[str, ...]:
    """Program that starts an engine. On cores llama.cpp comes with Cascadia's own interpreter, where that has
    it.
    """
    if launch.engine == LLAMA_CPP and cores and launch.weights.endswith(".gguf") and find_spec("xllamacpp"):
        return sys.executable, llama_server.__file__
    return command(launch)


def _at_its_port(flags: tuple[str, ...]) -> tuple[str, ...]:
    """`{port}` for the port, whether it stands in its flag or after it."""
    return tuple(
        PORT if before == "--port" else f"--port={PORT}" if flag == f"--port={_ANY_PORT}" else flag
        for before, flag in zip(("", *flags), flags, strict=False)
    )


def capacity_rps(plan: Plan, name: str, group: ReplicaGroup) -> float:
    """Requests a second that the plan gives one replica to do: it is known to sustain that."""
    predicted = plan.predicted.judge if name == JUDGE else None
    for stage in plan.predicted.stages:
        if stage.name == name:
            predicted = stage
    rate_rps = predicted.rate_rps if predicted is not None else 1.0
    # A group whose share rounds to nothing still runs, and a router takes no weight of 0.
    return max(rate_rps * group.share / group.count, 1e-6)


def planned_shares(plan: Plan) -> dict[str, float]:
    """Work by stage that the replicas of its plan do together: as many do more or less than there are of them."""
    return {
        stage.name: sum(group.count * capacity_rps(plan, stage.name, group) for group in stage.replicas)
        for stage in plan.stages
        if any(group.count for group in stage.replicas)
    }


def _rendered(plan: Plan, local: Local) -> dict[tuple[str, str, int, int], EngineGroup]:
    """The groups that are started as planned, by stage and shape."""
    stages = tuple(
        replace(stage, replicas=()) if stage.name in local.stages else stage for stage in plan.stages
    )
    judge = replace(plan.judge, replicas=()) if JUDGE in local.stages else plan.judge
    kept = {g.pool for stage in stages for g in stage.replicas} | {g.pool for g in judge.replicas}
    if not kept:
        return {}
    cluster = Cluster(tuple(pool for pool in plan.cluster.pools if pool.name in kept))
    groups = engine_groups(replace(plan, stages=stages, judge=judge), cluster)
    return {(g.served_name, g.pool, g.tp, g.pp): g for g in groups}


def _router(plan: Plan, local: Local) -> dict[str, Any]:
    told = stages_document(plan)
    engines = {name: engine.model for name, engine in local.stages.items() if engine.model}
    # An API elsewhere has a model of its own.
    told["stages"] = [
        {"model": engines.get(stage["name"], stage["name"]), **stage} for stage in told["stages"]
    ]
    if len(plan.gears) > 1:
        planned = planned_shares(plan)
        told["stages"] = [
            {**stage, "planned_share": planned[stage["name"]]} if stage["name"] in planned else stage
            for stage in told["stages"]
        ]
    # The controller looks at the workload log, so its files end soon.
    log = {"folder": "samples", "seconds": 30}
    router: dict[str, Any] = {**told, "watch_s": 0, "samples": log}
    router |= {**plan.routing_document(), **planned_document(plan), **local.router}
    if not any(stage.get("exits") for stage in told["stages"]):
        # A plan that comes later may have none; there is then nothing to promise.
        router.pop("exits", None)
    if plan.foresight is not None and "foresight" not in router:
        raise BadInput(
            "plan: foresight",
            "tells of the question alone, and nothing says where its heads are served",
            "write router: {foresight: {replicas: [{url: ...}]}} into --engines local.yaml",
        )
    if plan.asks_judge and "judge" not in router:
        if plan.judge.gpus:
            router["judge"] = {"kind": "llm", "model": model_of_judge(plan, local.stages.get(JUDGE))}
        elif plan.judge.kind in ("certainty", "embedding", "probe"):
            router["judge"] = {"kind": plan.judge.kind}
        else:
            raise BadInput(
                "plan: judge",
                f"is of kind {plan.judge.kind}, and nothing says where it is",
                "write router: {judge: {...}} into --engines local.yaml",
            )
    return router
