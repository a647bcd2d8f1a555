"""A plan for cores of this machine whose engines are `little_engine.py`, and a fleet to run it."""

from collections.abc import Sequence
from pathlib import Path

from cascadia.clients.processes.ports import free_port
from cascadia.controller.local.engines_file import Engine, Local
from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.plan import JudgePlan, Plan, ReplicaGroup
from cascadia.testing.plans import plan, stage
from tests.unit.controller.test_local_process import ENGINE

GPUS = 3
NO_GPU_JUDGE = JudgePlan(
    "certainty", "router", None, engine="vllm", quantization=None, max_model_len=0, replicas=()
)


def two_stages(small: int, large: int, gpus: int = GPUS) -> Plan:
    """Of one GPU a replica; thresholds of 50."""
    cluster = Cluster((Pool("here", "l4", 1, gpus, 0.5),))
    return plan(
        [
            stage("small", ReplicaGroup("here", 1, 1, small, 1.0)),
            stage("large", ReplicaGroup("here", 1, 1, large, 1.0)),
        ],
        cluster,
        NO_GPU_JUDGE,
    )


def local(tmp_path: Path, *more: str, drain_s: float = 20.0, port: int | None = None) -> Local:
    """Every stage a little engine; `more` are its arguments."""
    return Local(
        stages={name: engine(name, *more, drain_s=drain_s) for name in ("small", "large")},
        router={"port": free_port() if port is None else port, "health": {"interval_s": 0.2}},
    )


def engine(name: str, *more: str, drain_s: float = 20.0, argv: Sequence[str] = ()) -> Engine:
    import sys

    command = list(argv) or [sys.executable, str(ENGINE), "{port}", *more]
    return Engine(command=command, model=name, startup_s=30.0, drain_s=drain_s)
