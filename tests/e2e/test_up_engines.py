"""`cascadia up` with vLLM's CPU build, and with SGLang on a CPU with stubs: a model's two replicas from up to down."""

import json
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from cascadia.clients.processes.guard import descendants
from cascadia.clients.processes.ports import free_port
from cascadia.demo.stages import SMALL
from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.plan import ReplicaGroup
from cascadia.files.plan_file import write_plan
from cascadia.testing.plans import plan, stage
from tests.e2e.commands import PROGRAM, told
from tests.e2e.engine_commands import COMMANDS, SLOTS
from tests.e2e.engine_packages import catalogue_checkpoint
from tests.unit.controller.machine import NO_GPU_JUDGE
from tests.unit.controller.test_local_process import alive

CONTEXT = 1024
LIMIT_S = 400
run = partial(told, limit_s=LIMIT_S)


@pytest.fixture(params=list(COMMANDS))
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A plan of two replicas on two cores, and how the engine is started on them."""
    pool = Cluster((Pool("here", "cpu", 1, 2, 0.04),))
    small = stage("small", ReplicaGroup("here", 1, 1, 2, 1.0), max_model_len=CONTEXT)
    write_plan(plan([small], pool, NO_GPU_JUDGE), tmp_path / "plan.json")
    command = COMMANDS[request.param]("small", catalogue_checkpoint(SMALL), "{port}", "{gpus}", CONTEXT)
    engine = {
        "command": command.argv,
        "env": dict(command.env),
        "startup_s": LIMIT_S,
        "drain_s": 30,
        "max_concurrency": 2 * SLOTS,
    }
    router = {"port": free_port()}
    (tmp_path / "local.yaml").write_text(json.dumps({"stages": {"small": engine}, "router": router}))
    yield tmp_path
    subprocess.run([PROGRAM, "down"], cwd=tmp_path, capture_output=True, timeout=LIMIT_S)


def states(folder: Path) -> dict[str, str]:
    return {replica["name"]: replica["state"] for replica in run(folder, "status")["replicas"]}


def test_up_a_question_drain_scale_down_and_nothing_is_left(folder: Path) -> None:
    up = run(folder, "up", "plan.json", "--engines", "local.yaml", "--detach")
    assert states(folder) == {"small-0": "ready", "small-1": "ready"}

    def ask() -> str:
        body: dict[str, Any] = {"model": "cascadia", "max_tokens": 16, "temperature": 0}
        body["messages"] = [{"role": "user", "content": "What is the capital of France?"}]
        answer = httpx.post(f"{up['url']}/v1/chat/completions", json=body, timeout=60, trust_env=False)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["choices"][0]["message"]["content"])

    # The 135M model need not know: at temperature 0 either replica says the same.
    said = ask()
    assert said
    run(folder, "drain", "small-0", "--stop")
    assert states(folder) == {"small-1": "ready"}
    assert ask() == said
    assert run(folder, "scale", "small", "2")["steps"] == ["start small-0 (1 of here)", "await small-0"]
    assert states(folder) == {"small-0": "ready", "small-1": "ready"}
    gpus = [replica["gpus"] for replica in run(folder, "status")["replicas"]]
    assert sorted(gpus) == [[0], [1]]
    tree = descendants(up["pid"])
    run(folder, "down")
    assert len(tree) > 4
    assert not [pid for pid in [up["pid"], *tree] if alive(pid)]
