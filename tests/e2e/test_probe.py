"""A probe on the real engine: trained on the states of SmolLM2, served in front of it, asked through the router."""

import json
import sys
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
import yaml

from cascadia.clients.hub.fetch import fetch
from cascadia.clients.processes import llama_server
from cascadia.clients.processes.ports import free_port
from cascadia.demo.stages import SMALL, cascadia_command
from cascadia.domain.errors import CascadiaError
from tests.e2e.commands import environment, told
from tests.e2e.engine_servers import running

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


def test_an_answer_is_scored_by_the_states_of_the_engine_that_wrote_it(
    weights: Path, tmp_path: Path, cache: Path
) -> None:
    slots, port = tmp_path / "slots", free_port()
    slots.mkdir()
    flags = {"model": SMALL.file(weights), "alias": "small", "host": "127.0.0.1", "port": port, "parallel": 2}
    flags |= {"ctx-size": 2048, "batch-size": 2048, "threads": 1, "slot-save-path": slots}
    flags |= {"chat-template-file": SMALL.template}
    llama = [
        sys.executable,
        llama_server.__file__,
        *(str(p) for k, v in flags.items() for p in (f"--{k}", v)),
    ]
    with ExitStack() as stack:
        engine = stack.enter_context(running(llama, {}, port, tmp_path / "engine.log"))
        probe = ("--engine", engine, "--slot-folder", str(slots))
        trained = told(
            tmp_path, "judge", "train", str(rows(tmp_path)), "--probe", *probe, "--out", "probe.json",
            limit_s=300, env=environment(cache),
        )  # fmt: skip
        assert (trained["layer"], trained["about"]["rows"]) == (18, ROWS)
        assert trained["heads"][1]["auc"] > 0.9
        front = free_port()
        serving = cascadia_command(
            "judge", "serve", str(tmp_path / "probe.json"), *probe, "--port", str(front)
        )
        url = stack.enter_context(running(serving, {}, front, tmp_path / "front.log"))
        router = free_port()
        stages = [
            {"name": "small", "threshold": 50, "replicas": [{"url": url}]},
            {"name": "large", "replicas": [{"url": engine}], "model": "small"},
        ]
        told_router = {"stages": stages, "judge": {"kind": "probe"}, "port": router}
        (tmp_path / "router.yaml").write_text(yaml.safe_dump(told_router))
        at = stack.enter_context(
            running(
                cascadia_command("serve", str(tmp_path / "router.yaml"), "--quiet"),
                {},
                router,
                tmp_path / "router.log",
            )
        )

        def ask(question: str, **more: object) -> httpx.Response:
            body = {
                "model": "cascadia",
                "messages": [{"role": "user", "content": question}],
                "max_tokens": 24,
            }
            return httpx.post(f"{at}/v1/chat/completions", json=body | {"temperature": 0} | more, timeout=60)

        known = ask("What language is spoken in Italy, by number 12?")
        assert known.headers["x-cascadia-stage"] == "small"
        assert float(known.headers["x-cascadia-score"]) > 50
        streamed = ask("What language is spoken in China, by number 4?", stream=True)
        assert streamed.headers["x-cascadia-stage"] == "small"
        assert streamed.text.rstrip().endswith("data: [DONE]")
        sums = ask("What is 18 times 62?")
        assert sums.headers["x-cascadia-stage"] == "large"
        odd = ask("Write a poem about the sea, its salt and its many ships.")
        assert odd.headers["x-cascadia-stage"] == "large"
        metrics = httpx.get(f"{at}/metrics").text
        assert 'cascadia_judge_failures_total{kind="probe-unlike",stage="small"} 1.0' in metrics
        assert not list(slots.iterdir())
