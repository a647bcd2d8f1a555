"""Where a conversation's next turn starts."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cascadia.router.access.keys import Keyring
from cascadia.router.cascade.sessions import Conversations, session_of
from cascadia.router.openai.requests import read_fields
from cascadia.router.settings.model import ConversationSettings, KeySettings, RouterSettings
from cascadia.testing.engines import FakeEngine, send, started
from cascadia.testing.routers import QUICK, ScriptedGate, run, running, stages
from tests.unit.router.access.test_keys import made


def turns(*said: str) -> list[dict[str, str]]:
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": text} for i, text in enumerate(said)]


def sticky(*engines: FakeEngine) -> RouterSettings:
    """Escalates what scores below 50."""
    settings = ConversationSettings("sticky")
    both = stages(*engines, thresholds=(50.0,) * (len(engines) - 1))
    return RouterSettings(both, None, health=QUICK, conversations=settings)


def test_a_turn_starts_at_the_stage_that_answered_the_last_and_a_new_conversation_at_the_first() -> None:
    async def main() -> None:
        small, large = FakeEngine("weak"), FakeEngine("strong")
        async with started(small, large), running(sticky(small, large), ScriptedGate({"weak": 10.0})) as up:
            await up.chat(messages=turns("hard"))
            asked = len(small.requests)
            next_turn = await up.chat(messages=turns("hard", "strong", "and then?"))
            assert next_turn.headers["x-cascadia-attempts"] == "1"
            assert next_turn.headers["x-cascadia-stage"] == "large"
            assert len(small.requests) == asked
            # The same words from the start are another conversation.
            assert (await up.chat(messages=turns("hard"))).headers["x-cascadia-attempts"] == "2"
            other = await up.chat(messages=turns("other", "a", "b"))
            assert other.headers["x-cascadia-attempts"] == "2"
            by_another = await up.chat(messages=turns("hard", "strong", "and then?"), user="somebody else")
            assert by_another.headers["x-cascadia-attempts"] == "2"

    run(main)


def test_two_keys_sessions_of_one_name_or_beginning_are_two() -> None:
    async def main() -> None:
        small, large = FakeEngine("weak"), FakeEngine("strong")
        keys = [made(name) for name in ("a", "b")]
        mine, other = (headers for _, headers in keys)
        keyring = Keyring([key for key, _ in keys])
        later = turns("hard", "strong", "and then?")
        async with started(small, large):
            told = replace(sticky(small, large), keys=KeySettings(Path("keys.json")))
            async with running(told, ScriptedGate({"weak": 10.0}), keyring=keyring) as up:

                async def attempts(headers: dict[str, str], **more: Any) -> str:
                    return (await up.chat(headers=headers, **more)).headers["x-cascadia-attempts"]

                named = {"x-session-id": "s-1"}
                assert [await attempts(mine | named) for _ in range(2)] == ["2", "1"]
                assert await attempts(other | named) == "2"
                await attempts(mine, messages=turns("hard"))
                assert await attempts(other, messages=later) == "2"
                assert await attempts(mine, messages=later) == "1"

    run(main)


def test_the_clients_own_name_of_a_session_goes_before_its_words() -> None:
    async def main() -> None:
        small, large = FakeEngine("weak"), FakeEngine("strong")
        async with started(small, large), running(sticky(small, large), ScriptedGate({"weak": 10.0})) as up:
            named = {"x-session-id": "s-1"}
            assert (await up.chat(headers=named)).headers["x-cascadia-attempts"] == "2"
            assert (await up.chat(headers=named)).headers["x-cascadia-attempts"] == "1"
            streamed = await up.chat(headers=named, stream=True)
            assert streamed.headers["x-cascadia-stage"] == "large"
            bounded = await up.chat(headers=named, max_stage="small")
            assert bounded.headers["x-cascadia-stage"] == "small"

    run(main)


def test_a_stage_that_answered_because_another_failed_is_not_remembered() -> None:
    async def broken(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 500, b"{}")

    async def main() -> None:
        small, large = FakeEngine("fine", answer=broken), FakeEngine("strong")
        async with started(small, large), running(sticky(small, large), ScriptedGate({"fine": 90.0})) as up:
            named = {"x-session-id": "s-1"}
            assert (await up.chat(headers=named)).headers["x-cascadia-stage"] == "large"
            small.answer = None
            assert (await up.chat(headers=named)).headers["x-cascadia-stage"] == "small"

    run(main)


def test_without_being_asked_to_every_turn_starts_at_the_first_stage() -> None:
    async def main() -> None:
        small, large = FakeEngine("weak"), FakeEngine("strong")
        async with started(small, large):
            fresh = stages(small, large, thresholds=(50,))
            async with running(fresh, ScriptedGate({"weak": 10.0})) as up:
                for _ in range(2):
                    answer = await up.chat(headers={"x-session-id": "s-1"})
                    assert answer.headers["x-cascadia-attempts"] == "2"
                assert len(up.router.conversations) == 0

    run(main)


def test_memory_is_bounded_in_number_and_in_time() -> None:
    memory = Conversations(ConversationSettings("sticky", kept=3, kept_s=10.0))
    for k in range(5):
        memory.answered(b"%d" % k, "large", now_s=float(k))
    assert len(memory) == 3
    assert [memory.stage_of(b"%d" % k, 5.0) for k in range(5)] == [None, None, "large", "large", "large"]
    assert memory.stage_of(b"4", 13.9) == "large"
    assert memory.stage_of(b"4", 14.0) is None
    assert len(memory) == 2


@pytest.mark.parametrize(
    "body",
    [b'{"model": "m"}', b'{"model": "m", "messages": 3}', b'{"model": "m", "messages": [], "user": null}'],
)
def test_what_has_no_beginning_has_no_session(body: bytes) -> None:
    assert session_of(read_fields(body), None) is None
