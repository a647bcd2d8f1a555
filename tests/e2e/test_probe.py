"""A probe on the real engine: trained on the states of SmolLM2, served in front of it, asked through the router."""

import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import yaml

from cascadia.clients.hub.fetch import fetch
from cascadia.clients.processes import llama_server
from cascadia.clients.processes.guard import descendants
from cascadia.clients.processes.ports import free_port
from cascadia.demo.stages import SMALL, cascadia_command, engine_config
from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.errors import CascadiaError
from cascadia.domain.plan import ReplicaGroup
from cascadia.files.plan_file import write_plan
from cascadia.testing.plans import plan, stage
from tests.e2e.commands import environment, told
from tests.e2e.engine_servers import running
from tests.unit.controller.machine import NO_GPU_JUDGE
from tests.unit.controller.test_local_process import alive

COUNTRIES = ("France", "Spain", "Italy", "Japan", "China", "Russia", "Greece", "Poland", "Turkey", "Egypt")
ROWS = 60


def rows(folder: Path) -> Path:
    """Sums that are wrong and languages that are right, so that there is something to learn."""
    found = []
    for at in range(ROWS):
        a, b, country = 13 + at, 47 + 3 * at, COUNTRIES[at % len(COUNTRIES)]
        question, answer = (
            (f"What is {a} times {b}?", str(a * b + 7 * at + 1))
            if at % 2
            else (f"What language is spoken in {country}, by number {at}?", f"The language of {country}")
        )
        row = {"prompt_id": str(at), "question": question, "stage": "small", "answer": answer}
        found.append(json.dumps(row | {"quality": 0 if at % 2 else 100}))
    path = folder / "rows.jsonl"
    path.write_text("\n".join(found))
    return path


@pytest.fixture(scope="module")
def weights() -> Path:
    try:
        return fetch(SMALL.model)
    except CascadiaError as error:
        pytest.skip(f"the model cannot be fetched: {error}")


@pytest.fixture(scope="module")
def llama(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Address of SmolLM2 on llama.cpp, and the folder of its slots."""
    folder = tmp_path_factory.mktemp("llama")
    slots, port = folder / "slots", free_port()
    slots.mkdir()
    flags = {"model": SMALL.file(weights), "alias": "small", "host": "127.0.0.1", "port": port, "parallel": 2}
    flags |= {"ctx-size": 2048, "batch-size": 2048, "threads": 1, "slot-save-path": slots}
    flags |= {"chat-template-file": SMALL.template}
    command = [
        sys.executable,
        llama_server.__file__,
        *(str(p) for k, v in flags.items() for p in (f"--{k}", v)),
    ]
    with running(command, {}, port, folder / "engine.log") as engine:
        yield engine, slots


@pytest.fixture(scope="module")
def probe(llama: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """Trained on its states."""
    folder = tmp_path_factory.mktemp("probe")
    trained = told(
        folder, "judge", "train", str(rows(folder)), "--probe", "--engine", llama[0],
        "--slot-folder", str(llama[1]), "--out", "probe.json", limit_s=300, env=environment(cache),
    )  # fmt: skip
    assert (trained["layer"], trained["about"]["rows"]) == (18, ROWS)
    assert trained["heads"][1]["auc"] > 0.9
    return folder / "probe.json"


def ask(at: str, question: str, **more: object) -> httpx.Response:
    body = {"model": "cascadia", "messages": [{"role": "user", "content": question}], "max_tokens": 24}
    return httpx.post(f"{at}/v1/chat/completions", json=body | {"temperature": 0} | more, timeout=60)


def test_an_answer_is_scored_by_the_states_of_the_engine_that_wrote_it(
    llama: tuple[str, Path], probe: Path, tmp_path: Path
) -> None:
    (engine, slots), front, router = llama, free_port(), free_port()
    serving = ("judge", "serve", str(probe), "--engine", engine, "--slot-folder", str(slots))
    with ExitStack() as stack:
        command = cascadia_command(*serving, "--port", str(front))
        url = stack.enter_context(running(command, {}, front, tmp_path / "front.log"))
        stages = [
            {"name": "small", "threshold": 50, "replicas": [{"url": url}]},
            {"name": "large", "replicas": [{"url": engine}], "model": "small"},
        ]
        told_router = {"stages": stages, "judge": {"kind": "probe"}, "port": router}
        (tmp_path / "router.yaml").write_text(yaml.safe_dump(told_router))
        command = cascadia_command("serve", str(tmp_path / "router.yaml"), "--quiet")
        at = stack.enter_context(running(command, {}, router, tmp_path / "router.log"))

        known = ask(at, "What language is spoken in Italy, by number 12?")
        assert known.headers["x-cascadia-stage"] == "small"
        assert float(known.headers["x-cascadia-score"]) > 50
        streamed = ask(at, "What language is spoken in China, by number 4?", stream=True)
        assert streamed.headers["x-cascadia-stage"] == "small"
        assert streamed.text.rstrip().endswith("data: [DONE]")
        sums = ask(at, "What is 18 times 62?")
        assert sums.headers["x-cascadia-stage"] == "large"
        odd = ask(at, "Write a poem about the sea, its salt and its many ships.")
        assert odd.headers["x-cascadia-stage"] == "large"
        metrics = httpx.get(f"{at}/metrics").text
        assert 'cascadia_judge_failures_total{kind="probe-unlike",stage="small"} 1.0' in metrics
        assert not list(slots.iterdir())


def test_up_starts_engines_behind_the_plans_probe_and_down_ends_them_all(
    weights: Path, probe: Path, tmp_path: Path
) -> None:
    cluster, llama_cpp = Cluster((Pool("here", "cpu", 1, 3, 0.04),)), engine_config(SMALL)
    stages = [
        stage(
            name,
            ReplicaGroup("here", 1, 1, count, 1.0),
            model=SMALL.architecture,
            engine="llama.cpp",
            weights=str(SMALL.file(weights)),
            config=llama_cpp,
            max_model_len=llama_cpp.max_model_len,
        )
        for name, count in (("small", 2), ("large", 1))
    ]
    judge = replace(NO_GPU_JUDGE, kind="probe", model=str(probe))
    write_plan(replace(plan(stages, cluster, judge), thresholds=(50.0,)), tmp_path / "plan.json")
    up = told(tmp_path, "up", "plan.json", "--port", str(free_port()), "--detach")
    tree: list[int] = []
    try:

        def asked() -> str:
            answers = [ask(up["url"], f"What is {19 + n} times 62?") for n in range(4)]
            assert {answer.status_code for answer in answers} == {200}
            return httpx.get(f"{up['url']}/metrics").text

        # The model's own template stands in for the one that it was trained with: some are unlike, none is unread.
        metrics = asked()
        assert set(re.findall(r'judge_failures_total{kind="([^"]+)"', metrics)) <= {"probe-unlike"}
        tree = descendants(up["pid"])
        engine = next(pid for pid in tree if b"--slot-save-path" in Path(f"/proc/{pid}/cmdline").read_bytes())
        os.kill(engine, signal.SIGKILL)
        until_s = time.monotonic() + 60
        while sum(one["starts"] for one in told(tmp_path, "status")["replicas"]) < 4:
            assert time.monotonic() < until_s
        asked()
        tree = descendants(up["pid"])
    finally:
        told(tmp_path, "down")
    assert not [pid for pid in tree if alive(pid)]
