"""Long bodies say what short ones say, and are read in turns of the event loop that each look through them once."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from msgspec import UNSET, Raw

from cascadia.router.openai.answers import Usage, read_document, usage_of_reply
from cascadia.router.openai.bounded import LONG_BYTES, MOST_VALUES, SMALL_BYTES
from cascadia.router.openai.errors import ApiError
from cascadia.router.openai.one_pass import CLASSES_MAX, margin, part_of, parts_of
from cascadia.router.openai.requests import Fields, read_fields
from cascadia.router.openai.rewrite import NOTES_MAX, Noting, without_logprobs
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
        found, turns = turns_of(without_logprobs(answer(text)))
        assert json.loads(found)["choices"][0]["logprobs"] is None
        assert json.loads(found)["choices"][0]["message"]["content"] == text
        assert turns >= least


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
