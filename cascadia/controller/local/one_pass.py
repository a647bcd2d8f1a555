"""Workers of one-pass models on this machine, and the router's file that sends them batches."""

from collections.abc import Mapping
from typing import Any

from cascadia.controller.local.engines_file import Engine, Local
from cascadia.controller.local.launch import COMMAND, GPUS, PORT, Launch, spec_of
from cascadia.controller.move.state import Kind
from cascadia.domain.plan import Plan
from cascadia.files.policies_file import policies_document
from cascadia.render.engine_groups import SHORTEST_DRAIN_S
from cascadia.render.gpu_nodes import gpu_node
from cascadia.render.one_pass import STARTUP_S, serve_arguments, worker_groups


def one_pass_launches(plan: Plan, local: Local) -> dict[Kind, tuple[Launch, int]]:
    """Launch and number of the workers of each group; an entry of local.yaml by the group's name stands in for the
    embedded engine."""
    found = {}
    for name, (stages, workers) in worker_groups(plan).items():
        engine = local.stages.get(name)
        pool = plan.cluster.pool(workers.pool)
        if engine is None:
            argv: tuple[str, ...] = (*COMMAND, *serve_arguments(stages, PORT, plan.exits))
            env, times = {}, ("/health", float(STARTUP_S), float(SHORTEST_DRAIN_S))
        else:
            argv, env = tuple(engine.command), dict(engine.env)
            times = engine.health_path, engine.startup_s, engine.drain_s
        env = gpu_node(pool).visible(GPUS) | env
        kind = Kind(name, workers.pool, workers.gpus // workers.count, spec_of(argv, env))
        launch = Launch(
            kind,
            argv,
            env,
            pool.on_cores,
            *times,
            capacity_rps=max(plan.predicted.rate_rps / workers.count, 1e-6),
            max_concurrency=_concurrency(engine),
        )
        found[kind] = launch, workers.count
    return found


def _concurrency(engine: Engine | None) -> int | None:
    return None if engine is None else engine.max_concurrency


def one_pass_router(plan: Plan, local: Local) -> dict[str, Any]:
    """The document of router.yaml but for the replicas."""
    policies = {each.group: each for each in plan.policies}
    slo_ms = 1e3 * (plan.objective.latency_max_s or 0.2)
    groups: list[Mapping[str, Any]] = []
    stages: list[Mapping[str, Any]] = []
    for name, (members, _) in worker_groups(plan).items():
        told = {"policies": policies_document(policies[name])} if name in policies else {}
        groups.append({"name": name, "slo_ms": slo_ms, **told})
        stages += [
            {"name": stage.name, "task": stage.task, "group": name, "max_model_len": stage.max_model_len}
            for stage in members
        ]
    log = {"folder": "samples", "seconds": 30}
    return {"stages": stages, "groups": groups, "watch_s": 0, "samples": log, **local.router}
