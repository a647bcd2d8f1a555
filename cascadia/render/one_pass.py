"""Workers of models that answer in one pass: each is one engine that has all the models of its group."""

import json
from collections.abc import Sequence
from typing import Any

from cascadia.domain.errors import BadInput
from cascadia.domain.plan import ExitPromise, Plan, ReplicaGroup, StagePlan
from cascadia.render.engine_groups import SHORTEST_DRAIN_S
from cascadia.render.gpu_nodes import gpu_node
from cascadia.render.processes import FIRST_PORT, LOOPBACK

ONNX_RUNTIME = "onnxruntime"
STARTUP_S = 300
"""An engine reads files of some megabytes."""


def in_one_pass(plan: Plan) -> bool:
    """Tells whether the plan's models answer in one pass, and are served by the embedded engine."""
    return any(stage.engine == ONNX_RUNTIME for stage in plan.stages)


def worker_groups(plan: Plan) -> dict[str, tuple[tuple[StagePlan, ...], ReplicaGroup]]:
    """Stages and workers of each group. Raises `BadInput` where a plan, edited by hand, tells them otherwise."""
    found: dict[str, tuple[tuple[StagePlan, ...], ReplicaGroup]] = {}
    for at, stage in enumerate(plan.stages):
        if not stage.deployed:
            continue
        if stage.engine != ONNX_RUNTIME or stage.group is None or len(stage.replicas) != 1:
            raise BadInput(
                f"plan: stages[{at}]", "is in no group of workers that have all its models", "plan again"
            )
        stages, workers = found.get(stage.group, ((), stage.replicas[0]))
        if workers != stage.replicas[0]:
            raise BadInput(f"plan: stages[{at}].replicas", "are others than its group's", "plan again")
        found[stage.group] = (*stages, stage), workers
    return found


def worker_ports(plan: Plan) -> dict[str, list[int]]:
    """Port of each worker on this machine, by group."""
    found, at = {}, FIRST_PORT
    for name, (_, workers) in worker_groups(plan).items():
        found[name] = list(range(at, at + workers.count))
        at += workers.count
    return found


def serve_arguments(stages: Sequence[StagePlan], port: str, exits: ExitPromise | None) -> tuple[str, ...]:
    """Arguments of `cascadia` that serve each model under its stage's name."""
    models = (f"{stage.name}={stage.model}{stage.at or ''}" for stage in stages)
    told = () if exits is None else exit_arguments(exits)
    return ("engine", "serve", *models, "--port", port, "--quiet", *told)


def exit_arguments(exits: ExitPromise) -> tuple[str, ...]:
    """Options of `cascadia engine serve` and `judge serve`."""
    risk, confidence, shadow = (f"{value:g}" for value in (exits.risk, exits.confidence, exits.shadow))
    return ("--exits", "--risk", risk, "--confidence", confidence, "--shadow", shadow)


def one_pass_json(plan: Plan) -> str:
    """Text of processes.json: a process for each worker."""
    groups = worker_groups(plan)
    definitions = [
        _definition(plan, name, *groups[name], number, port)
        for name, ports in worker_ports(plan).items()
        for number, port in enumerate(ports)
    ]
    return json.dumps(definitions, indent=2, ensure_ascii=False) + "\n"


def _definition(
    plan: Plan, name: str, stages: Sequence[StagePlan], workers: ReplicaGroup, number: int, port: int
) -> dict[str, Any]:
    return {
        "name": f"cascadia-{name}-{number}",
        "role": "stage",
        "stage": name,
        "replica": number,
        "rank": 0,
        "share": round(1 / workers.count, 9),
        "node": f"{workers.pool}-0",
        "gpu_ids": [number],
        "argv": ["cascadia", *serve_arguments(stages, str(port), plan.exits), "--host", LOOPBACK],
        "env": gpu_node(plan.cluster.pool(workers.pool)).visible(str(number)),
        "port": port,
        "health_path": "/health",
        "startup_timeout_s": STARTUP_S,
        "drain_s": SHORTEST_DRAIN_S,
    }
