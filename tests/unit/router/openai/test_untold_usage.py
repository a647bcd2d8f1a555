"""No answer is for nothing: tokens are counted as an engine tells them, whichever way, or by its length."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cascadia.router.access.keys import KeyLimits, Keyring
from cascadia.router.openai.one_pass import ranked_in
from cascadia.router.settings.model import JudgeSettings, KeySettings, Task
from cascadia.testing.engines import Answer, FakeEngine, completion, send, started
from cascadia.testing.routers import ScriptedGate, run, running, stages, until
from tests.unit.router.access.test_keys import made
from tests.unit.router.replicas.test_batcher import SECTION, greedy, settings

TEXT = "four words of it " * 10
CHAT = {"choices": [{"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}]}
CALL = {"function": {"name": "f", "arguments": TEXT}}
CALLED = {"choices": [{"index": 0, "message": {"content": None, "tool_calls": [CALL]}}]}
BEST = {"index": 0, "relevance_score": 0.5}
EMBEDDED = {"data": [{"embedding": [0.1]}]}
ASKED: dict[str, Any] = {"messages": [{"role": "user", "content": "x" * 400}]}
RANKED = {"query": "q" * 200, "documents": ["d" * 200]}


def says(document: Any) -> Answer:
    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 200, json.dumps(document).encode())

    return answer


@pytest.mark.parametrize(
    ("path", "model", "asked", "document", "tokens", "written"),
    [
        ("/v1/chat/completions", "small", ASKED, CHAT, (130, 190), 42),
        ("/v1/chat/completions", "small", ASKED, CALLED, (130, 190), 42),
        ("/v1/chat/completions", "cascadia", ASKED, CHAT, (130, 190), 42),
        ("/v1/chat/completions", "cascadia", ASKED, CALLED, (130, 190), 42),
        ("/v1/chat/completions", "small", ASKED, CHAT | {"usage": None}, (130, 190), 42),
        ("/v1/completions", "small", ASKED, {"choices": [{"text": "four" * 25_000}]}, (25_100, 25_300), 25_006),
        ("/v1/completions", "small", {"prompt": "x" * 400}, {"choices": [{"index": 0, "text": TEXT}]}, (130, 190), 42),
        ("/v1/rerank", "small", RANKED, [{"score": 0.5, "document": TEXT, "index": 0}], (100, 130), 0),
        ("/v1/rerank", "small", RANKED, {"results": [BEST | {"document": {"text": TEXT}}]}, (100, 130), 0),
        ("/v1/rerank", "small", RANKED, {"results": [BEST], "usage": {"total_tokens": 56}}, (56, 56), 0),
        ("/v1/embeddings", "small", {"input": "x" * 400}, EMBEDDED, (100, 130), 0),
        ("/v1/embeddings", "small", {"input": "x"}, EMBEDDED | {"usage": {"prompt_tokens": 3}}, (3, 3), 0),
    ],
)  # fmt: skip
def test_tokens_are_as_told_or_by_length(
    path: str, model: str, asked: dict[str, Any], document: Any, tokens: tuple[int, int], written: int
) -> None:
    async def main() -> None:
        engines = FakeEngine(answer=says(document)), FakeEngine("strong")
        gate = ScriptedGate({TEXT: 90.0, "": 90.0})
        async with started(*engines), running(stages(*engines, thresholds=(50,)), gate) as up:
            answer = await up.client.post(path, json={"model": model} | asked)
            assert answer.status_code == 200
        (line,) = up.lines
        least, most = tokens
        assert least <= line["tokens"]["small"] <= most
        assert line["written"]["small"] == written

    run(main)


LABEL = {"index": 0, "label": "0", "probs": [0.9, 0.1], "num_classes": 2}
LABELLED = {"id": "c", "object": "list", "created": 1, "model": "m", "data": [LABEL]}


@pytest.mark.parametrize(
    ("task", "asked", "document"),
    [("rerank", RANKED, [{"score": 0.5, "index": 0}]), ("classify", {"input": "x" * 400}, LABELLED)],
)
@pytest.mark.parametrize(
    ("model", "together"),
    [("quick", True), ("quick", False), ("intent", True), ("cascadia", True), ("cascadia", False)],
)
def test_a_key_s_limits_take_of_what_nobody_counted_as_much_as_the_log_and_its_spend(
    task: Task, asked: dict[str, Any], document: Any, model: str, *, together: bool
) -> None:
    """SGLang's ranking is a list, without usage."""

    async def main() -> None:
        key, auth = made(limits=KeyLimits(tokens_per_minute=10_000))
        engine = FakeEngine(answer=says(document))
        async with started(engine):
            of = settings([engine], greedy(), SECTION)
            several = tuple(
                replace(s, task=task, group=s.group if together else None, price=(1000.0, 0.0))
                for s in of.stages
            )
            of = replace(
                of, stages=several, groups=of.groups if together else (), keys=KeySettings(Path("k.json"))
            )
            async with running(of, keyring=Keyring([key])) as up:
                answer = await up.client.post(f"/v1/{task}", json={"model": model} | asked, headers=auth)
                assert answer.status_code == 200
                counted = up.router.metrics.registry.get_sample_value
                taken = counted("cascadia_key_tokens_total", {"key": key.name})
                spent = up.router.access.spending.total_usd(key.id) if up.router.access else 0.0
        (line,) = up.lines
        tokens = sum(line["tokens"].values())
        assert 100 <= tokens <= 140
        assert taken == tokens
        assert spent == pytest.approx(tokens / 1000)
        if model == "cascadia":
            assert float(answer.headers["x-cascadia-usd"]) == pytest.approx(spent)
            if isinstance(answer.json(), dict):
                assert answer.json()["cascadia"]["usage"]["total_tokens"] == tokens

    run(main)


@pytest.mark.parametrize("names", [["prompt_tokens"], ["total_tokens"], ["prompt_tokens", "total_tokens"]])
def test_a_ranking_s_tokens_are_told_in_either_way(names: list[str]) -> None:
    body = {"results": [BEST], "usage": dict.fromkeys(names, 56)}
    assert ranked_in(b"application/json", json.dumps(body).encode()).usage == (56, 0)


@pytest.mark.parametrize("ends", ["client", "time"])
def test_repetitions_that_are_given_up_have_read_their_prompt(ends: str) -> None:
    """Whoever leaves while a stage is asked once more has had the engine's work."""

    async def once(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if len(engine.requests) > 1:
            await asyncio.Event().wait()
        send(writer, 200, completion("weak"))

    async def main() -> None:
        small, large = FakeEngine(answer=once), FakeEngine("strong")
        judge = JudgeSettings("agreement", samples=3, timeout_s=0.2 if ends == "time" else 60.0)
        async with started(small, large), running(stages(small, large, thresholds=(50,)), judge=judge) as up:
            asked = asyncio.create_task(up.chat())
            await until(lambda: len(small.requests) == 4)
            if ends == "client":
                asked.cancel()
            await asyncio.wait([asked])
            await until(lambda: up.router.metrics.running == 0)
            up.router.journal.flush()
            (line,) = up.lines
            assert all(replica.running == 0 for stage in up.router.stages for replica in stage.replicas)
        assert line["status"] == (499 if ends == "client" else 200)
        assert (line["tokens"]["small"], line["written"]["small"]) == (13 + 3 * 10, 3)

    run(main)
