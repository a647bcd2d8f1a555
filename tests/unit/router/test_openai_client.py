"""The official client against the router: what it sends arrives, what comes back it understands."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

from cascadia.testing.engines import FakeEngine, begin_stream, completion, delta, event, send, started
from cascadia.testing.routers import Running, ScriptedGate, run, running, stages
from tests.unit.router.openai.test_responses import says

QUESTION = [{"role": "user", "content": "What is 2+2?"}]
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


class Both(NamedTuple):
    """A small stage, whose `weak` answer is refused, and a large one behind it."""

    up: Running
    client: AsyncOpenAI
    small: FakeEngine
    large: FakeEngine


@asynccontextmanager
async def both(small: str = "weak", **limits: Any) -> AsyncIterator[Both]:
    engines = FakeEngine(small), FakeEngine("strong")
    gate = ScriptedGate({"weak": 10.0, "fine": 90.0, "": 90.0, '{"answer": 4}': 90.0})
    async with (
        started(*engines),
        running(stages(*engines, thresholds=(50,)), gate, **limits) as up,
        client_of(up) as client,
    ):
        yield Both(up, client, *engines)


def client_of(up: Running, **more: Any) -> AsyncOpenAI:
    return AsyncOpenAI(
        base_url=f"http://127.0.0.1:{up.port}/v1", api_key="none", **{"max_retries": 0, **more}
    )


@pytest.mark.parametrize("model", ["cascadia", "small"])
def test_a_completion_and_what_the_cascade_says_about_it(model: str) -> None:
    async def main() -> None:
        async with both("fine") as found:
            answer = await found.client.chat.completions.create(model=model, messages=QUESTION)
            raw = await found.client.chat.completions.with_raw_response.create(
                model=model,
                messages=QUESTION,
                extra_body={"max_stage": "small"},
                extra_headers={"x-request-id": "r-1"},
            )
        assert answer.choices[0].message.content == "fine"
        assert answer.usage is not None
        assert answer.usage.total_tokens == 13
        assert raw.headers["x-cascadia-stage"] == "small"
        assert raw.headers["x-request-id"] == "r-1"
        assert raw.parse().choices[0].finish_reason == "stop"
        if model == "cascadia":
            assert answer.model_extra is not None
            assert answer.model_extra["cascadia"]["stage"] == "small"

    run(main)


@pytest.mark.parametrize(("small", "stage"), [("fine", "small"), ("weak", "large")])
@pytest.mark.parametrize("usage", [False, True])
def test_a_stream_held_and_live(small: str, stage: str, usage: bool) -> None:
    async def main() -> None:
        async with both(small) as found:
            options: Any = {"stream_options": {"include_usage": True}} if usage else {}
            stream = await found.client.chat.completions.create(
                model="cascadia", messages=QUESTION, stream=True, **options
            )
            assert stream.response.headers["x-cascadia-stage"] == stage
            chunks = [chunk async for chunk in stream]
        said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert said == {"small": "fine", "large": "strong"}[stage]
        totals = [chunk.usage.total_tokens for chunk in chunks if chunk.usage]
        assert totals == ([13] if usage else [])

    run(main)


def test_the_synchronous_client_and_its_models() -> None:
    async def main() -> None:
        async with both() as found:

            def ask() -> tuple[list[str], str, str, str | None]:
                url = f"http://127.0.0.1:{found.up.port}/v1"
                with OpenAI(base_url=url, api_key="none", max_retries=0) as client:
                    names = [model.id for model in client.models.list()]
                    one = client.models.retrieve("cascadia").id
                    text = client.completions.create(model="small", prompt="2+2=").id
                    stream = client.chat.completions.create(model="cascadia", messages=QUESTION, stream=True)
                    said = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
                return names, one, text, said

            assert await asyncio.to_thread(ask) == (
                ["cascadia", "small", "large"],
                "cascadia",
                "c-1",
                "strong",
            )

    run(main)


def test_streaming_raw_responses_come_part_by_part() -> None:
    async def main() -> None:
        async with both("fine") as found:
            create = found.client.chat.completions.with_streaming_response.create
            async with create(model="cascadia", messages=QUESTION) as answer:
                assert answer.headers["x-cascadia-score"] == "90.00"
                body = b"".join([part async for part in answer.iter_bytes()])
        assert json.loads(body)["choices"][0]["message"]["content"] == "fine"

    run(main)


TOOLS: Any = [
    {
        "type": "function",
        "function": {"name": "add", "parameters": {"type": "object", "properties": {"x": {}}}},
    }
]
CALL = {"id": "call-1", "type": "function", "function": {"name": "add", "arguments": '{"x": 1}'}}


def test_tools_are_passed_on_and_their_calls_come_back_whole_and_streamed() -> None:
    async def calls(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if not body.get("stream"):
            found = json.loads(completion(""))
            found["choices"][0]["message"] = {"role": "assistant", "content": None, "tool_calls": [CALL]}
            send(writer, 200, json.dumps(found).encode())
            return
        begin_stream(writer)
        for function in ({"name": "add", "arguments": ""}, {"arguments": '{"x"'}, {"arguments": ": 1}"}):
            part = delta("")
            part["choices"][0]["delta"] = {"tool_calls": [{"index": 0, "id": "call-1", "function": function}]}
            event(writer, part)
        event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")

    async def main() -> None:
        async with both() as found:
            found.small.answer = calls
            create = found.client.chat.completions.create
            answer = await create(model="cascadia", messages=QUESTION, tools=TOOLS, tool_choice="auto")
            async with found.client.chat.completions.stream(
                model="cascadia", messages=QUESTION, tools=TOOLS
            ) as stream:
                streamed = await stream.get_final_completion()
        (call,) = answer.choices[0].message.tool_calls or []
        assert (call.function.name, call.function.arguments) == ("add", '{"x": 1}')  # type: ignore[union-attr]
        (call,) = streamed.choices[0].message.tool_calls or []
        assert json.loads(call.function.arguments) == {"x": 1}  # type: ignore[union-attr]
        assert found.small.requests[0]["tools"] == TOOLS
        assert found.large.requests == []

    run(main)


class Answer(BaseModel):
    answer: int


def test_a_schema_is_asked_for_kept_and_parsed() -> None:
    async def main() -> None:
        async with both('{"answer": 4}') as found:
            parsed = await found.client.chat.completions.parse(
                model="cascadia", messages=QUESTION, response_format=Answer
            )
            found.small.text = '{"other": 4}'
            other = await found.client.chat.completions.with_raw_response.create(
                model="cascadia",
                messages=QUESTION,
                response_format={
                    "type": "json_schema",
                    "json_schema": {"name": "a", "schema": Answer.model_json_schema()},
                },
            )
        assert parsed.choices[0].message.parsed == Answer(answer=4)
        assert other.headers["x-cascadia-stage"] == "large"
        form = found.small.requests[0]["response_format"]
        assert form["json_schema"]["schema"]["required"] == ["answer"]

    run(main)


def test_log_probabilities_several_choices_and_images_pass() -> None:
    async def several(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        found = json.loads(completion("fine", [[-0.1, -3.0]]))
        found["choices"].append(found["choices"][0] | {"index": 1})
        send(writer, 200, json.dumps(found).encode())

    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    seen: Any = [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]}]

    async def main() -> None:
        async with both() as found:
            found.small.answer = several
            answer = await found.client.chat.completions.create(
                model="cascadia", messages=seen, n=2, logprobs=True, top_logprobs=2
            )
        assert [choice.index for choice in answer.choices] == [0, 1]
        logprobs = answer.choices[0].logprobs
        assert logprobs is not None
        assert logprobs.content is not None
        assert len(logprobs.content[0].top_logprobs) == 2
        assert found.small.requests[0]["messages"] == seen

    run(main)


def test_embeddings_of_a_stage() -> None:
    async def embed(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        data = [{"object": "embedding", "index": 0, "embedding": [0.25, -1.0]}]
        usage = {"prompt_tokens": 3, "total_tokens": 3}
        found = {"object": "list", "model": "m", "data": data, "usage": usage}
        send(writer, 200, json.dumps(found).encode())

    async def main() -> None:
        async with both() as found:
            found.small.answer = embed
            answer = await found.client.embeddings.create(
                model="small", input="text", encoding_format="float"
            )
            assert answer.data[0].embedding == [0.25, -1.0]
            with pytest.raises(
                openai.BadRequestError,
                match="cannot be compared, so they do not cascade; name one of small, large",
            ):
                await found.client.embeddings.create(model="cascadia", input="text")

    run(main)


def test_responses_of_a_stage_and_of_the_cascade() -> None:
    async def main() -> None:
        async with both() as found:
            found.small.answer, found.large.answer = says("weak"), says("strong")
            answer = await found.client.responses.create(model="cascadia", input="What is 2+2?")
            stream = await found.client.responses.create(model="cascadia", input="What is 2+2?", stream=True)
            events = [event async for event in stream]
            straight = await found.client.responses.create(
                model="small", input="and then?", previous_response_id="r-1"
            )
            with pytest.raises(openai.BadRequestError) as refused:
                await found.client.responses.create(
                    model="cascadia", input="and then?", previous_response_id="r-1"
                )
        assert (answer.output_text, straight.output_text) == ("strong", "weak")
        assert events[-1].type == "response.completed"
        assert refused.value.code == "not_cascaded"

    run(main)


async def _broken(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    send(writer, 500, b"{}")


async def _refuses(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    send(writer, 422, b'{"error": {"message": "no", "type": "x", "param": "n", "code": "c"}}')


async def _busy(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    send(writer, 429, b"{}", more="retry-after: 30\r\n")


ERRORS: dict[str, tuple[Callable[[Both], Any], dict[str, Any], type[openai.APIStatusError], str | None]] = {
    "no such model": (lambda f: None, {"model": "gpt-4"}, openai.NotFoundError, "model_not_found"),
    "a bad limit": (
        lambda f: None, {"extra_body": {"deadline_ms": -1}}, openai.BadRequestError, "invalid_value",
    ),
    "the engine refuses": (
        lambda f: setattr(f.small, "answer", _refuses), {"model": "small"}, openai.UnprocessableEntityError, "c",
    ),
    "the engine fails": (
        lambda f: setattr(f.small, "answer", _broken), {"model": "small"}, openai.InternalServerError, "stage_failed",
    ),
    "overload": (lambda f: setattr(f.small, "answer", _busy), {"model": "small"}, openai.RateLimitError, "overloaded"),
    "too large": (
        lambda f: None, {"messages": [{"role": "user", "content": "x" * 5000}]},
        openai.APIStatusError, "body_too_large",
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", ERRORS)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_are_the_clients_own_exceptions(why: str, stream: bool) -> None:
    prepare, request, kind, code = ERRORS[why]

    async def main() -> None:
        async with both("fine", max_body_bytes=4000, queue_s=1.0) as found:
            prepare(found)
            body: Any = {"model": "cascadia", "messages": QUESTION, "stream": stream} | request
            with pytest.raises(kind) as raised:
                await found.client.chat.completions.create(**body)
        assert raised.value.code == code
        # What is too large is turned away before it is a request.
        assert raised.value.request_id or code == "body_too_large"

    run(main)


def test_a_stream_that_breaks_off_is_an_error_and_not_a_short_answer() -> None:
    async def cut(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        event(writer, delta("half"))
        await writer.drain()
        writer.close()

    async def main() -> None:
        async with both() as found:
            found.small.answer = cut
            stream = await found.client.chat.completions.create(model="small", messages=QUESTION, stream=True)
            first = await anext(stream)
            with pytest.raises(openai.APIError):
                await anext(stream)
        assert first.choices[0].delta.content == "half"

    run(main)


def test_the_clients_time_out_frees_the_engine() -> None:
    async def hang(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await engine.left.wait()

    async def main() -> None:
        async with both() as found:
            found.small.answer = hang
            with pytest.raises(openai.APITimeoutError):
                await found.client.chat.completions.create(model="small", messages=QUESTION, timeout=0.2)
            async with asyncio.timeout(60):
                await found.small.left.wait()

    run(main)


def test_the_clients_own_retries_wait_as_long_as_they_are_told() -> None:
    async def main() -> None:
        times = [1]

        async def first_busy(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
            if times[0]:
                times[0] -= 1
                send(writer, 500, b"{}")
            else:
                send(writer, 200, completion("fine"))

        async with both() as found, client_of(found.up, max_retries=1) as client:
            found.small.answer = first_busy
            answer = await client.chat.completions.create(model="small", messages=QUESTION)
        assert answer.choices[0].message.content == "fine"
        assert len(found.small.requests) == 2

    run(main)
