"""A plan as processes to start: one JSON list, for a process runner on each node."""

import json
from collections.abc import Sequence
from typing import Any

from cascadia.render.engine_args import arguments, command
from cascadia.render.engine_groups import EngineGroup
from cascadia.render.engines import STARTUP_S
from cascadia.render.models import weights
from cascadia.render.processes import LOOPBACK, Process, node_names, processes


def local_json(groups: Sequence[EngineGroup]) -> str:
    """Text of local.json. On a single node engines listen on the loopback address only."""
    host = LOOPBACK if len(node_names(groups)) <= 1 else "0.0.0.0"
    definitions = [_definition(process, host) for process in processes(groups)]
    # JSON's escapes for rare characters are no YAML; the characters themselves are both.
    return json.dumps(definitions, indent=2, ensure_ascii=False) + "\n"


def _definition(process: Process, host: str) -> dict[str, Any]:
    group = process.group
    launch = process.launch(weights=weights(group.loads), host=host, port=process.port)
    return {
        "name": process.name,
        "role": group.role,
        "stage": group.served_name,
        "replica": process.replica,
        "rank": process.rank,
        "share": round(group.share / len(group.replicas), 9) if process.serves else 0.0,
        "node": process.node,
        "gpu_ids": list(process.gpus),
        "argv": [*command(launch), *arguments(launch)],
        "env": {
            **group.gpu.visible(",".join(map(str, process.gpus))),
            "VLLM_NO_USAGE_STATS": "1",
        },
        "port": process.port,
        "health_path": "/health" if process.serves else None,
        "startup_timeout_s": STARTUP_S,
        "drain_s": group.drain_s,
    }
