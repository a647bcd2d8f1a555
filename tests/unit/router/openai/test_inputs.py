"""Inputs of a request to classify: as they were written, and without a value made for each of millions of tokens."""

import asyncio
import json
import tracemalloc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from cascadia.router.openai.bounded import FEW
from cascadia.router.openai.errors import ApiError
from cascadia.router.openai.one_pass import classified_in, inputs_of, ranked_in
from cascadia.router.openai.requests import messages_and, read_fields
from cascadia.router.upstream.errors import UpstreamError

MIB = 2**20
LONG = {
    "tokens": b"[" + b"1," * (MIB // 2) + b"1]",
    "lists of tokens": b"[" + b",".join([b"[" + b"1," * 500 + b"1]"] * FEW) + b"]",
    "texts": b"[" + b'"",' * (MIB // 3) + b'""]',
    "numbers behind a text": b'["a"' + b",1" * (MIB // 2) + b"]",
    "lists": b"[" + b"[]," * (MIB // 3) + b"[]]",
}


def body(given: bytes) -> bytes:
    return b'{"model":"intent","input":%b}' % given


@pytest.mark.parametrize("name", list(LONG))
def test_a_megabyte_of_inputs_takes_no_more_memory_than_a_few_of_it(name: str) -> None:
    fields = read_fields(body(LONG[name]))
    tracemalloc.start()
    try:
        found = len(inputs_of(fields))
    except ApiError as error:
        found = error.status
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == {"tokens": 1, "lists of tokens": FEW}.get(name, 400)
    assert peak_bytes < 8 * MIB


async def ranked(content_type: bytes, body: bytes, _: int) -> object:
    return ranked_in(content_type, body)


@pytest.mark.parametrize("read", [classified_in, ranked])
def test_so_does_what_an_engine_makes_of_them(read: Callable[..., Coroutine[Any, Any, object]]) -> None:
    answer = b'{"data":%b,"results":%b}' % ((b"[" + b"{}," * (MIB // 4) + b"{}]",) * 2)
    tracemalloc.start()
    with pytest.raises(UpstreamError):
        asyncio.run(read(b"application/json", answer, 1))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 8 * MIB


@pytest.mark.parametrize("given", [[], [{"role": "user", "content": "a"}], [{}, {"content": "[ "}], None])
def test_a_message_is_put_behind_the_others(given: list[object] | None) -> None:
    more = {"role": "assistant", "content": 'so "far"'}
    document = {"model": "m"} | ({} if given is None else {"messages": given})
    fields = read_fields(json.dumps(document, indent=1).encode())
    assert json.loads(bytes(messages_and(fields, more))) == [*(given or []), more]


def test_a_message_behind_half_a_million_makes_none_of_them() -> None:
    fields = read_fields(b'{"model":"m","messages":[' + b"{}," * (MIB // 3) + b"{}]}")
    tracemalloc.start()
    found = messages_and(fields, {"role": "assistant", "content": "so far"})
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(bytes(found)) > MIB
    assert peak_bytes < 8 * MIB


def test_messages_that_are_no_list_are_the_clients_mistake() -> None:
    with pytest.raises(ApiError, match="is a list"):
        messages_and(read_fields(b'{"model":"m","messages":5}'), {})


@pytest.mark.parametrize("size", [1, FEW, FEW + 1, 20_000])
def test_a_list_of_tokens_is_one_input_however_long(size: int) -> None:
    given = b"[" + b", ".join([b"31"] * size) + b"]"
    assert inputs_of(read_fields(body(given))) == [given]


@pytest.mark.parametrize("text", ['"a"', '"' + "b" * 40 + '"'])
@pytest.mark.parametrize("count", [1, FEW, FEW + 1])
def test_as_many_texts_are_taken_as_an_answer_has_parts(text: str, count: int) -> None:
    fields = read_fields(body(b"[" + b",".join([text.encode()] * count) + b"]"))
    if count <= FEW:
        assert inputs_of(fields) == [text.encode()] * count
    else:
        with pytest.raises(ApiError) as caught:
            inputs_of(fields)
        assert (caught.value.status, caught.value.code) == (400, "invalid_value")
