"""Engines of a plan as services of a compose file. Where it needs several nodes, each has a profile of its own name."""

from collections.abc import Sequence
from typing import Any

from cascadia.render.engine_args import arguments, command
from cascadia.render.engine_groups import EngineGroup
from cascadia.render.engines import HTTP_PORT, IMAGE, STARTUP_S
from cascadia.render.models import MODELS_DIR, is_path, mounted_weights
from cascadia.render.processes import LOOPBACK, Process, node_names, processes
from cascadia_sim.iteration.engine_config import LLAMA_CPP

LLAMA_CPP_IMAGE = "${CASCADIA_LLAMA_CPP_IMAGE:?set it to an image of llama.cpp's server for your hardware}"
MARGIN_S = 30
"""For an engine to free its GPUs after the last answer."""


def engine_services(groups: Sequence[EngineGroup]) -> dict[str, Any]:
    several = len(node_names(groups)) > 1
    return {process.name: _service(process, several) for process in processes(groups)}


def _service(process: Process, several: bool) -> dict[str, Any]:
    group = process.group
    on_host = process.rendezvous_port is not None
    listen = process.port if on_host else HTTP_PORT
    launch = process.launch(weights=mounted_weights(group.loads), host="0.0.0.0", port=listen)
    return {
        "image": LLAMA_CPP_IMAGE if group.engine == LLAMA_CPP else IMAGE[group.engine, group.gpu.vendor],
        **({"profiles": [process.node]} if several else {}),
        "entrypoint": list(command(launch)),
        # Compose fills in $NAME itself; $$ is its way to write a dollar sign.
        "command": [argument.replace("$", "$$") for argument in arguments(launch)],
        "environment": {
            "HOME": "/cache",
            "USER": "cascadia",
            "HF_HOME": "/cache/huggingface",
            "VLLM_NO_USAGE_STATS": "1",
            **({} if group.gpu.vendor == "nvidia" else group.gpu.visible(_ids(process))),
        },
        "env_file": [{"path": "hf.env", "required": False}],
        **_network(process, several, on_host),
        **_gpus(process),
        "shm_size": f"{max(4, 2 * group.gpus_per_rank)}gb",
        "volumes": _volumes(group),
        "user": "${CASCADIA_UID:-1000}:${CASCADIA_GID:-1000}",
        "security_opt": ["no-new-privileges:true"],
        "cap_drop": ["ALL"],
        "restart": "unless-stopped",
        "stop_grace_period": f"{group.drain_s + MARGIN_S}s",
        **({"healthcheck": _health(group.engine, listen)} if process.serves else {}),
        "labels": {
            "cascadia.role": group.role,
            "cascadia.stage": group.served_name.replace("$", "$$"),
            "cascadia.share": f"{group.share / len(group.replicas):.6g}",
        },
    }


def _network(process: Process, several: bool, on_host: bool) -> dict[str, Any]:
    """Ranks of one replica meet on the host's network; others publish a port, on one node only to itself."""
    if on_host:
        return {"network_mode": "host"}
    address = "" if several else f"{LOOPBACK}:"
    return {"ports": [f"{address}{process.port}:{HTTP_PORT}"]}


def _gpus(process: Process) -> dict[str, Any]:
    if process.group.gpu.vendor == "amd":
        return {"devices": ["/dev/kfd", "/dev/dri"], "group_add": ["video", "render"]}
    if process.group.gpu.vendor == "cpu":
        return {"cpuset": _ids(process)}
    device = {
        "driver": "nvidia",
        "device_ids": [str(gpu) for gpu in process.gpus],
        "capabilities": ["gpu"],
    }
    return {"deploy": {"resources": {"reservations": {"devices": [device]}}}}


def _ids(process: Process) -> str:
    return ",".join(map(str, process.gpus))


def _volumes(group: EngineGroup) -> list[str]:
    models = [f"${{CASCADIA_MODELS:-./models}}:{MODELS_DIR}:ro"] if is_path(group.loads) else []
    return ["${CASCADIA_CACHE:-./cache}:/cache", *models]


def _health(engine: str, port: int) -> dict[str, Any]:
    url = f"http://{LOOPBACK}:{port}/health"
    # Docker gives containers its client's proxies, which know no engine.
    get = f"r.build_opener(r.ProxyHandler({{}})).open('{url}', timeout=10)"
    probe = ["python3", "-c", f"import urllib.request as r; {get}"]
    if engine == LLAMA_CPP:
        probe = ["curl", "-fs", "-m", "10", "--noproxy", "*", url]  # its images have no Python
    return {
        "test": ["CMD", *probe],
        "interval": "15s",
        "timeout": "15s",
        "retries": 6,
        "start_period": f"{STARTUP_S}s",
    }
