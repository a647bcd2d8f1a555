"""What an engine or a judge writes that is nearly JSON: no text in UTF-8, or nested without end. It is an answer like
any other or none at all, and never a fault of ours."""

import ast
import asyncio
from typing import Any

import pytest

from cascadia.router.settings.model import RouterSettings
from cascadia.testing.engines import FakeEngine, completion, send, started
from cascadia.testing.routers import QUICK, ScriptedGate, run, running, stages
from tests.data import ROOT
from tests.unit.router.gates.test_judges import embedding

LOGPROBS = b'"logprobs":{"content":[{"token":"f","logprob":-1}]}'
CHOICE = b'{"index":0,"message":{"content":"fine"},"delta":{"content":"fine"},%b}'
DEEP = b'{"a":' * 1100 + b"1" + b"}" * 1100
ANSWERS = {
    "a member of the document": b'{"\xff":1,"choices":[' + CHOICE % LOGPROBS + b"]}",
    "a member of the choice": b'{"choices":[' + CHOICE % (LOGPROBS + b',"\xff":1') + b"]}",
    "nested": b'{"choices":[' + CHOICE % (LOGPROBS + b',"a":' + DEEP) + b"]}",
    "nested score": b'{"cascadia_probe":{"a":' + DEEP + b'},"choices":[' + CHOICE % LOGPROBS + b"]}",
}
COMMENTS = {"none": b"", "nested": b': cascadia_probe {"a":' + DEEP + b"}\n\n"}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("comment", COMMENTS)
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_that_is_nearly_json_is_no_fault_of_ours(name: str, comment: str, stream: bool) -> None:
    async def nearly(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        events = COMMENTS[comment] + b"data: " + ANSWERS[name] + b"\n\ndata: [DONE]\n\n"
        if stream:
            send(writer, 200, events, "text/event-stream")
        else:
            send(writer, 200, ANSWERS[name])

    async def main() -> None:
        engines = FakeEngine(answer=nearly), FakeEngine("g")
        gate = ScriptedGate({"fine": 90.0, "g": 90.0})
        async with started(*engines), running(stages(*engines, thresholds=(50,)), gate) as up:
            answer = await up.chat(stream=stream)
            assert answer.status_code == 200
            assert b"fine" in answer.content or b'"g"' in answer.content
            assert up.lines == [] or "error" not in up.lines[-1]

    run(main)


def test_a_verdict_that_is_not_in_utf_8_is_none() -> None:
    async def nearly(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 200, b'{"score":90,"judge":"\xff"}')

    async def main() -> None:
        engines = FakeEngine("s"), FakeEngine("l"), FakeEngine(answer=nearly)
        async with started(*engines):
            judge = embedding(engines[2], certainty=False)
            settings = RouterSettings(stages(*engines[:2], thresholds=(50,)), judge, health=QUICK)
            async with running(settings) as up:
                answer = await up.chat()
                assert answer.headers["x-cascadia-stage"] == "large"

    run(main)


def test_whoever_decodes_expects_all_that_a_decoder_raises() -> None:
    """`msgspec` raises errors of Python's own for texts that are no UTF-8, and for what is nested too deep."""
    alone = [
        f"{path.relative_to(ROOT)}:{handler.lineno}"
        for path in sorted((ROOT / "cascadia" / "router").rglob("*.py"))
        for handler in ast.walk(ast.parse(path.read_text()))
        if isinstance(handler, ast.ExceptHandler)
        and handler.type is not None
        and any(name in ast.unparse(handler.type) for name in ("msgspec.MsgspecError", "msgspec.DecodeError"))
    ]
    assert alone == [], "catch NOT_JSON of cascadia.router.openai.bounded"


def test_an_engine_that_would_go_on_in_another_protocol_has_failed() -> None:
    async def switching(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if len(engine.requests) > 1:
            send(writer, 200, completion("fine"))
        else:
            writer.write(b"HTTP/1.1 101 S\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nno HTTP")

    async def main() -> None:
        unhandled: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        engine = FakeEngine(answer=switching)
        async with started(engine), running(stages(engine), max_tries=1) as up:
            refused = await up.chat("small")
            assert refused.status_code == 502
            assert "(protocol)" in refused.json()["error"]["message"]
            assert (await up.chat("small")).status_code == 200
        assert unhandled == []

    run(main)
