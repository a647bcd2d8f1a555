"""Tokens of a prompt with pictures in it, as far as they are told before an engine has read them."""

import asyncio
import json
import time
from typing import Any

import pytest

from cascadia.router.openai.texts import MEDIA_TOKENS, MOST_MEDIA, prompt_tokens_of
from cascadia.testing.engines import FakeEngine, completion, send, started
from cascadia.testing.routers import run, running, stages, until

LETTERS = "QUJD" * 250_000
PICTURE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{LETTERS}"}}
SOUND = {"type": "input_audio", "input_audio": {"data": LETTERS, "format": "wav"}}
FILE = {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{LETTERS}"}}
TEXT = {"type": "text", "text": "What is on these?" * 4}


def asks(*parts: dict[str, Any]) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": [TEXT, *parts]}]}).encode()


@pytest.mark.parametrize("parts", [[PICTURE], [SOUND], [FILE], [PICTURE, SOUND, PICTURE]])
def test_what_is_encoded_counts_as_a_picture_does_and_not_for_its_letters(parts: list[Any]) -> None:
    body = asks(*parts)
    rest = (len(body) - len(LETTERS) * len(parts)) // 4
    assert prompt_tokens_of(body) == rest + MEDIA_TOKENS * len(parts)


@pytest.mark.parametrize(
    "text",
    [
        LETTERS,
        f'<img src="data:image/png;base64,{LETTERS}">',
        json.dumps({"data": LETTERS}),
        f"data:{LETTERS}",
        f"data:image/png;base64,{LETTERS}",
    ],
)
def test_what_is_a_text_counts_for_its_letters_whatever_it_looks_like(text: str) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "Look: " + text}]}).encode()
    assert prompt_tokens_of(body) == len(body) // 4


def test_a_body_of_marks_alone_is_looked_at_a_few_times_only() -> None:
    body = b'{"a":[' + b'"data:;base64,",' * 2_000_000 + b'"data"]}'
    began_s = time.process_time()
    assert prompt_tokens_of(body) == len(body) // 4
    assert prompt_tokens_of(asks(*[PICTURE] * 20)) < 21 * MEDIA_TOKENS < MOST_MEDIA * MEDIA_TOKENS
    assert time.process_time() - began_s < 0.5


def test_a_replica_with_a_picture_in_hand_gets_its_share_of_other_requests() -> None:
    """A megabyte would else keep it free of a thousand texts."""
    go = asyncio.Event()

    async def waits(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await go.wait()
        send(writer, 200, completion("seen"))

    async def main() -> None:
        engines = [FakeEngine(answer=waits) for _ in range(4)]
        async with started(*engines), running(stages(list(engines))) as up:
            seen = [{"role": "user", "content": [TEXT, PICTURE]}]
            asked = [asyncio.ensure_future(up.chat("small", messages=seen)) for _ in range(3)]
            await until(lambda: sum(len(engine.requests) for engine in engines) == 3)
            asked += [asyncio.ensure_future(up.chat("small")) for _ in range(45)]
            await until(lambda: sum(len(engine.requests) for engine in engines) == 48)
            assert max(len(engine.requests) for engine in engines) <= 20
            go.set()
            assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}

    run(main)
