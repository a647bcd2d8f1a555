"""Other routers, each in a virtual environment of its own, fetched by name from the package index.

`CASCADIA_PEERS` names the directory of those environments; by default it lies in the user's cache.
"""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cascadia.clients.processes.ports import free_port
from tests.benchmarks.router_rig import Running, answers, process

INSTALL_S = 1200
START_S = 90


@dataclass(frozen=True, slots=True)
class Peer:
    """`command` is given a port, the engine's port and a folder; `environment` the engine's port. `key_variable`:
    where it is told the key that clients send, where it asks for one.
    """

    name: str
    package: str
    command: Callable[[int, int, Path], list[str]]
    environment: Callable[[int], dict[str, str]] = lambda _: {}
    health: str = "/health"
    key_variable: str | None = None


def folder() -> Path:
    usual = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "cascadia-peers"
    return Path(os.environ.get("CASCADIA_PEERS", usual))


def installed(peer: Peer) -> Path:
    """The folder of its programs."""
    place = folder() / peer.name
    programs = place / "bin"
    if not (programs / ".installed").exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True, timeout=INSTALL_S)
        pip = [programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, peer.package], check=True, timeout=INSTALL_S)
        (programs / ".installed").touch()
    return programs


@contextmanager
def peer_running(peer: Peer, engine: int, core: int, scratch: Path) -> Iterator[Running]:
    """Until its port answers, and then for as long as it is measured."""
    port = free_port()
    program, *arguments = peer.command(port, engine, scratch)
    environment = os.environ | {"NO_PROXY": "127.0.0.1"} | peer.environment(engine)
    key = None
    if peer.key_variable is not None:
        key = environment[peer.key_variable] = f"sk-{secrets.token_hex(32)}"
    path = installed(peer) / program
    with process(path, *arguments, core=core, environment=environment, heard=False) as running:
        if not answers(port, peer.health, START_S):
            raise RuntimeError(f"{peer.name} did not answer within {START_S} s")
        yield Running(peer.name, port, running.pid, key)


def _vllm(port: int, engine: int, scratch: Path) -> list[str]:
    worker = f"http://127.0.0.1:{engine}"
    places = ["--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(free_port())]
    return ["vllm-router", *places, "--worker-urls", worker, "--policy", "round_robin"]


def _sglang(port: int, engine: int, scratch: Path) -> list[str]:
    return ["sglang-router", "launch", *_vllm(port, engine, scratch)[1:]]


def _litellm(port: int, engine: int, scratch: Path) -> list[str]:
    parameters = {"model": "openai/small", "api_base": f"http://127.0.0.1:{engine}/v1", "api_key": "none"}
    path = scratch / "litellm.json"
    path.write_text(json.dumps({"model_list": [{"model_name": "small", "litellm_params": parameters}]}))
    return [
        "litellm",
        "--config",
        str(path),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--num_workers",
        "1",
    ]


def _cascadeflow(port: int, engine: int, scratch: Path) -> list[str]:
    models = [
        {"name": name, "provider": "vllm", "cost": cost} for name, cost in (("small", 0.1), ("large", 1.0))
    ]
    path = scratch / "cascadeflow.json"
    path.write_text(json.dumps({"models": models, "settings": {"enable_cascade": True, "verbose": False}}))
    places = ["--host", "127.0.0.1", "--port", str(port)]
    return ["cascadeflow-gateway", *places, "--mode", "agent", "--config", str(path)]


RUST = (
    Peer("vllm-router", "vllm-router==0.1.17", _vllm),
    Peer("sglang-router", "sglang-router==0.3.2", _sglang),
)
LITELLM = Peer(
    "litellm",
    "litellm[proxy]==1.106.2",
    _litellm,
    lambda _: {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"},
    "/health/liveliness",
    "LITELLM_MASTER_KEY",
)
CASCADEFLOW = Peer(
    "cascadeflow",
    "cascadeflow==1.2.0",
    _cascadeflow,
    lambda engine: {"VLLM_BASE_URL": f"http://127.0.0.1:{engine}/v1"},
)
