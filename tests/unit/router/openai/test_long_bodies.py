"""Long bodies say what short ones say, and are read in turns of the event loop that each look through them once."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from msgspec import UNSET, Raw

from cascadia.router.openai.answers import EVENTS, Usage, read_document, read_usage, usage_of_reply
from cascadia.router.openai.bounded import LONG_BYTES, MOST_VALUES, SMALL_BYTES
from cascadia.router.openai.errors import ApiError
from cascadia.router.openai.one_pass import CLASSES_MAX, margin, part_of, parts_of
from cascadia.router.openai.questions import asked_of
from cascadia.router.openai.requests import Fields, read_fields, rewritten
from cascadia.router.openai.responses import final_usage, read_response_events
from cascadia.router.openai.rewrite import NOTES_MAX, Noting, with_logprobs
from cascadia.router.openai.stream_usage import StreamUsage
from cascadia.router.upstream.errors import UpstreamError

T = TypeVar("T")
GIVEN = {
    "model": "small",
    "stream": True,
    "n": 2,
    "max_tokens": None,
    "messages": [{"role": "user", "content": "é"}],
    "tools": [{"type": "function"}],
    "logprobs": True,
    "min_stage": "large",
    "deadline_ms": 12.5,
    "priority": None,
    "stream_options": {"include_usage": True},
    "unknown": {"a": [1]},
}


def told(fields: Fields) -> dict[str, Any]:
    values = {name: getattr(fields, name) for name in Fields.__struct_fields__}
    return {name: bytes(value) if isinstance(value, Raw) else value for name, value in values.items()}


def turns_of(work: Coroutine[Any, Any, T]) -> tuple[T, int]:
    """What `work` finds, and how often others had their turn meanwhile."""

    async def main() -> tuple[T, int]:
        task, turns = asyncio.ensure_future(work), 0
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        return await task, turns

    return asyncio.run(main())


def test_a_long_body_has_the_fields_of_a_short_one() -> None:
    short = json.dumps(GIVEN, ensure_ascii=False).encode()
    long = json.dumps(GIVEN | {"more": "é" * LONG_BYTES}, ensure_ascii=False).encode()
    assert told(read_fields(long)) == told(read_fields(short))
    assert read_fields(long).user is UNSET


@pytest.mark.parametrize(
    ("more", "param"),
    [
        (b'"n":"a"', "n"),
        (b'"model":3', "model"),
        (b'"min_stage":"%b"' % (b"a" * SMALL_BYTES), "min_stage"),
        (b'"n":2,' * MOST_VALUES + b'"a":0', None),
        (b'"a":', None),
    ],
)
def test_what_is_wrong_with_a_long_body_is_told(more: bytes, param: str | None) -> None:
    body = b'{"model":"small","messages":"%b",%b}' % (b"a" * LONG_BYTES, more)
    with pytest.raises(ApiError) as refused:
        read_fields(body)
    assert refused.value.status == 400
    assert refused.value.param == param


def test_a_long_body_without_a_model_is_told_so() -> None:
    with pytest.raises(ApiError) as refused:
        read_fields(b'{"messages":"%b"}' % (b"a" * LONG_BYTES))
    assert refused.value.code == "missing_model"


def test_log_probabilities_are_taken_out_of_a_long_answer_in_several_turns() -> None:
    def answer(text: str) -> bytes:
        choice = {"index": 0, "message": {"content": text}, "logprobs": {"content": [{"logprob": -1}]}}
        return json.dumps({"id": "a", "choices": [choice], "usage": None}).encode()

    for text, least in (("a", 0), ("a" * LONG_BYTES, 2)):
        found, turns = turns_of(with_logprobs(answer(text), None))
        assert json.loads(found)["choices"][0]["logprobs"] is None
        assert json.loads(found)["choices"][0]["message"]["content"] == text
        assert turns >= least


def test_a_long_body_is_not_read_through_again_to_be_written_for_an_engine() -> None:
    body = json.dumps(GIVEN | {"members": 1, "more": "a" * LONG_BYTES}).encode()
    known = read_fields(body).all_members
    assert rewritten(b"", "m", {"n": 3}, "chat", known) == rewritten(body, "m", {"n": 3}, "chat")
    assert not read_fields(json.dumps(GIVEN).encode()).all_members


def test_the_question_of_a_long_body_is_read_in_turns() -> None:
    message = {"role": "user", "content": "a" * LONG_BYTES}
    for given in ({"messages": [message]}, {"input": [message]}):
        found, turns = turns_of(asked_of(read_fields(json.dumps({"model": "m"} | given).encode())))
        assert found.question == message["content"]
        assert turns > 1


def test_a_long_answer_is_read_in_one_turn_and_sent_in_another() -> None:
    text = b"a" * LONG_BYTES
    body = b'{"choices":[{"index":0,"message":{"content":"%b"}}],"usage":{"prompt_tokens":2}}' % text
    found, turns = turns_of(read_usage(b"application/json", body))
    assert found == Usage(2)
    assert turns > 1


def test_a_responses_long_last_event_is_read_in_turns_and_once_for_its_usage() -> None:
    part = {"type": "output_text", "text": "a" * LONG_BYTES}
    response = {"output": [{"type": "message", "content": [part]}], "usage": {"output_tokens": 3}}
    data = json.dumps({"response": response, "type": "response.completed"}).encode()
    found, turns = turns_of(read_response_events(EVENTS, b"data: " + data + b"\n\n"))
    assert (found.choices[0].text, found.usage) == (part["text"], Usage(0, 3))
    assert turns > 1
    assert final_usage(data) == Usage(0, 3)
    assert final_usage(data.replace(b"completed", b"text.done")) is None
    noted = Noting(lambda usage: {"usage": usage.output_tokens}, response=True).part(
        b"data: " + data + b"\n\n"
    )
    assert noted == b"data: " + data[:-1] + b',"cascadia":{"usage":3}}\n\n'


@pytest.mark.parametrize("usage", [b"5", b"[]", b'{"output_tokens":"a"}', b"null"])
def test_a_responses_usage_that_cannot_be_read_is_none(usage: bytes) -> None:
    assert final_usage(b'{"type":"response.incomplete","response":{"usage":%b}}' % usage) == Usage()
    assert final_usage(b'{"type":"response.incomplete","response":null}') == Usage()


def test_what_is_counted_in_the_beginning_of_a_long_part_stands_for_all_of_it() -> None:
    counted, count = StreamUsage(), 20_000
    counted.add(b'data: {"a":0}\n\n' * count)
    assert counted.written == pytest.approx(count, rel=0.01)


def test_so_many_usage_events_of_a_stream_get_a_note_and_no_more() -> None:
    noting = Noting(lambda usage: {"usage": usage.output_tokens})
    event = b'data: {"choices":[],"usage":{"completion_tokens":3}}\n\n'
    out = noting.part(event * (NOTES_MAX + 5)) + noting.part(event)
    assert out.count(b'"cascadia":{"usage":3}') == NOTES_MAX
    assert out.count(b"completion_tokens") == NOTES_MAX + 6


def test_classifications_are_read_in_turns_and_no_class_without_end() -> None:
    parts = [b'{"probs":[0.25,0.75,%b]}' % b",".join([b"0.0"] * 1000)] * 100
    found, turns = turns_of(parts_of(parts))
    assert [part.margin for part in found] == [50.0] * 100
    assert turns >= sum(map(len, parts)) // (2 * SMALL_BYTES)
    with pytest.raises(UpstreamError):
        part_of(b'{"probs":[0%b]}' % (b",0" * (CLASSES_MAX + 1)))


@pytest.mark.parametrize(
    ("probabilities", "expected"),
    [
        ([], 100.0),
        ([0.3], 100.0),
        ([0.5, 0.5], 0.0),
        ([0.1, 0.7, 0.2], 50.0),
        ([0.9, 0.0, 0.1], 80.0),
        ([2, 0], 100.0),
    ],
)
def test_a_margin_is_that_of_the_two_greatest(probabilities: list[float], expected: float) -> None:
    assert margin(probabilities) == pytest.approx(expected)


@pytest.mark.parametrize("size", [0, LONG_BYTES])
@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ('{"prompt_tokens":3,"completion_tokens":4}', Usage(3, 4)),
        ("null", Usage()),
        ('{"prompt_tokens":3,"a":"%s"}' % ("b" * SMALL_BYTES), None),
    ],
)
def test_a_long_answer_has_the_usage_of_a_short_one(size: int, usage: str, counted: Usage | None) -> None:
    """One that is longer than any is not read, where the answer is long."""
    choices = '{"choices":[{"index":0,"message":{"content":"a"}}]'
    told = f'{choices},"usage":{usage},"b":"{"c" * size}"}}'
    expected = counted if counted is not None else Usage() if size else Usage(3, 0)
    assert usage_of_reply(b"application/json", told.encode()) == expected
    assert asyncio.run(read_document(b"application/json", told.encode())).usage == expected


@pytest.mark.parametrize("name", ["usage", "choices", "a"])
def test_a_long_answer_of_more_members_than_are_read_is_none(name: str) -> None:
    """Each takes the event loop as long as one that is known, be it the same again and again."""
    members = ",".join([f'"{name}":[]'] * LONG_BYTES)
    body = f'{{"choices":[{{"index":0,"message":{{"content":"a"}}}}],{members}}}'.encode()
    with pytest.raises(UpstreamError, match="JSON"):
        usage_of_reply(b"application/json", body)
    with pytest.raises(UpstreamError, match="JSON"):
        asyncio.run(read_document(b"application/json", body))
