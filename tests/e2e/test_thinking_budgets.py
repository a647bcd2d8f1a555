"""What the question alone decides of thinking, on the real engine: llama.cpp ends SmolLM2's thoughts where the router
says, and is asked for a trial answer where much is promised of it.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from cascadia.clients.hub.fetch import fetch
from cascadia.clients.processes import llama_server
from cascadia.clients.processes.ports import free_port
from cascadia.demo.children import Children
from cascadia.demo.stages import SMALL
from cascadia.domain.errors import CascadiaError
from cascadia.planner.spec.models import BUDGET_FIELDS
from cascadia.router.settings.file import foresight_at
from cascadia.router.settings.model import (
    ExitSettings,
    JudgeSettings,
    ReplicaSettings,
    RouterSettings,
    StageSettings,
)
from cascadia.testing.engines import FakeEngine, send, started
from cascadia.testing.routers import QUICK, run, running, until

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% else %}<think>{% endif %}"
    "{% endif %}"
)
"""SmolLM2 does not think; made to begin so, it writes on. llama.cpp learns of thoughts by the words in a template."""
ASKED = {
    "messages": [{"role": "user", "content": "Think step by step: what is 17 times 6 plus 4?"}],
    "temperature": 0,
    "max_tokens": 48,
}


@pytest.fixture
def engine(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Of a template, where one is asked for."""
    try:
        weights = SMALL.file(fetch(SMALL.model))
    except CascadiaError as error:
        pytest.skip(f"the model cannot be fetched: {error}")
    (tmp_path / "think.jinja").write_text(request.param)
    port = free_port()
    command = [sys.executable, llama_server.__file__, "--model", str(weights), "--alias", "small-model"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--parallel", "1", "--ctx-size", "1024"]
    command += ["--batch-size", "512"]
    command += ["--chat-template-file", str(tmp_path / "think.jinja")] if request.param else []
    with Children(tmp_path / "logs") as children:
        url = children.start("thinker", command, port).url
        for _ in range(600):
            try:
                if httpx.get(f"{url}/health").status_code == 200:
                    break
            except httpx.TransportError:
                pass
            time.sleep(0.2)
        yield url


@pytest.mark.parametrize("engine", [TEMPLATE], indirect=True, ids=["thinks"])
def test_its_engine_ends_the_thinking_where_the_question_alone_says(engine: str) -> None:
    expected = {"small@8": 90.0, "small": 91.0}

    async def main() -> None:
        async with started(heads := heads_that_expect(expected)):
            stage = StageSettings(
                "small",
                "small-model",
                (ReplicaSettings(engine),),
                exits=(ExitSettings(8, 95.0),),
                budget_field=BUDGET_FIELDS["llama.cpp"],
            )
            foresight = foresight_at((ReplicaSettings(heads.url),), 60.0)
            async with running(RouterSettings((stage,), None, foresight=foresight, health=QUICK)) as up:
                await until(lambda: all(r.state == "ready" for r in heads_of(up)))
                bounded = await up.chat(**ASKED)
                expected["small@8"] = 10.0
                whole = await up.chat(**ASKED)
        assert bounded.headers["x-cascadia-exit"] == "small@8"
        assert "x-cascadia-exit" not in whole.headers
        message = bounded.json()["choices"][0]["message"]
        every = whole.json()["choices"][0]["message"]["reasoning_content"]
        assert every.startswith(message["reasoning_content"])
        assert len(message["reasoning_content"]) < 0.7 * len(every)
        assert message["content"]

    run(main)


@pytest.mark.parametrize("engine", [""], indirect=True, ids=["does not parse"])
def test_a_trial_is_written_where_the_question_promises_much(engine: str) -> None:
    """Before any thought and up to a line's end. Elsewhere its engine answers as if there were no exit."""
    expected = {"small@0": 90.0, "small": 91.0}

    async def main() -> None:
        async with started(heads := heads_that_expect(expected)):
            stage = StageSettings(
                "small",
                "small-model",
                (ReplicaSettings(engine),),
                exits=(ExitSettings(0, 1.0, foreseen=95.0),),
                echoes=True,
                ends_thinking="The answer is:",
                ends_answer="\n",
            )
            foresight = foresight_at((ReplicaSettings(heads.url),), 60.0)
            judge = JudgeSettings("certainty", statistic="mean-logprob", timeout_s=60.0)
            async with running(RouterSettings((stage,), judge, foresight=foresight, health=QUICK)) as up:
                await until(lambda: all(r.state == "ready" for r in heads_of(up)))
                early = await up.chat(**ASKED)
                expected["small@0"] = 10.0
                whole, declined = [await up.chat(**ASKED, **more) for more in ({}, {"exits": False})]
        assert early.headers["x-cascadia-exit"] == "small@0"
        said, every = (each.json()["choices"][0]["message"]["content"] for each in (early, whole))
        assert said.strip()
        assert "\n" not in said
        assert "x-cascadia-exit" not in whole.headers
        assert every == declined.json()["choices"][0]["message"]["content"]
        wrote = [each.json()["cascadia"]["usage"]["completion_tokens"] for each in (early, whole)]
        assert wrote[0] < wrote[1]

    run(main)


def heads_that_expect(expected: Mapping[str, float]) -> FakeEngine:
    """By stage, as it stands when they are asked."""

    async def score(_: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 200, json.dumps({"score": expected[body["stage"]]}).encode())

    return FakeEngine("heads", answer=score)


def heads_of(up: Any) -> list[Any]:
    return [replica for stage in up.router.active_plan.all_stages for replica in stage.replicas]
