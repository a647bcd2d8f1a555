"""What is decoded of others' JSON ends at a number of values, and says the same as decoding all of it where it fits."""

import asyncio
import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia.router.openai import bounded, requests
from cascadia.router.openai.bounded import MOST_VALUES, SMALL_BYTES, members_of, slices
from cascadia.router.openai.questions import asked_of
from cascadia.router.openai.requests import leading_of, read_fields
from cascadia.router.openai.texts import text_of
from tests.examples import examples

LONG = "x, y; " * SMALL_BYTES


def test_as_many_members_as_there_may_be_are_read_and_no_more() -> None:
    def document(count: int) -> bytes:
        return json.dumps({f"a{i}": "b" * 20 for i in range(count)}).encode()

    assert len(members_of(document(MOST_VALUES))) == MOST_VALUES
    with pytest.raises(msgspec.ValidationError, match="more than"):
        members_of(document(MOST_VALUES + 1))


@given(st.binary(max_size=200).map(lambda text: text * 300))
@settings(derandomize=True, max_examples=examples(30))
def test_slices_are_whole_lines_and_nothing_is_lost(text: bytes) -> None:
    parts = list(slices(text))
    assert b"".join(parts) == text
    assert all(part.endswith(b"\n") for part in parts[:-1])


MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["system", "user", "assistant"]),
            "content": st.text(alphabet='ab"\\[]{},é \n', max_size=60).map(lambda text: text * 20),
        }
    ),
    min_size=1,
    max_size=12,
)


@given(MESSAGES)
@settings(derandomize=True, max_examples=examples(60), deadline=None)
def test_how_a_conversation_begins_is_the_same_however_long_it_has_become(
    messages: list[dict[str, str]],
) -> None:
    body = json.dumps({"model": "m", "messages": messages}).encode()
    fields = read_fields(body)
    known = leading_of(fields)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requests, "SMALL_BYTES", 0)
        assert leading_of(fields) == known
        patch.setattr(bounded, "SMALL_BYTES", 0)
        assert leading_of(read_fields(body)) == known


def test_a_long_text_among_the_parts_is_read_whole() -> None:
    content = [{"type": "text", "text": LONG}, {"type": "image_url", "image_url": {"url": "data:"}}]
    assert text_of(json.dumps(content).encode()) == LONG + "\n[image_url]"
    fields = read_fields(
        json.dumps({"model": "m", "messages": [{"role": "user", "content": content}]}).encode()
    )
    assert asyncio.run(asked_of(fields)) == (LONG + "\n[image_url]",) * 2


def test_of_more_messages_than_are_read_at_once_nothing_is_asked_of_a_judge() -> None:
    def fields(count: int) -> requests.Fields:
        messages = [{"role": "user", "content": "a"}] * count
        return read_fields(json.dumps({"model": "m", "messages": messages}).encode())

    assert asyncio.run(asked_of(fields(MOST_VALUES))).said == "a"
    assert asyncio.run(asked_of(fields(MOST_VALUES + 1))) == ("", None)
