"""The page of one router shows all that share its Redis, as one."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cascadia.router.access.keys import Keyring
from cascadia.router.live import other_routers
from cascadia.router.settings.model import KeySettings
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import Running, ScriptedGate, run, running, until
from tests.unit.router.access.test_keys import made
from tests.unit.router.redis_servers import fake_redis, nobody
from tests.unit.router.ui.test_ui import shown

GATE = ScriptedGate({"weak": 30.0})


def with_two(url: str, look: Callable[[list[Running], dict[str, str]], Awaitable[None]]) -> None:
    async def main() -> None:
        small, large = FakeEngine("weak"), FakeEngine("strong")
        key, header = made(scopes=("inference", "metrics"))
        keys = KeySettings(Path("keys.json"), redis_url=url)
        async with AsyncExitStack() as until_end:
            await until_end.enter_async_context(started(small, large))
            ups: list[Running] = []
            for number in range(2):
                # In one process here: what tells them apart is their host.
                def prepare(router: Any, number: int = number) -> None:
                    router.load._host = f"host-{number}"

                told = replace(shown(small, large, (1.0, 10.0)), keys=keys)
                up = running(told, GATE, keyring=Keyring([key]), prepare=prepare)
                ups.append(await until_end.enter_async_context(up))
            await look(ups, header)

    run(main)


async def state(up: Running, header: dict[str, str]) -> dict[str, Any]:
    found = await up.client.get("/ui/state?window=all", headers=header)
    assert found.status_code == 200, found.text
    told: dict[str, Any] = found.json()
    return told


def test_requests_of_both_routers_are_added_up_on_either_page() -> None:
    async def look(ups: list[Running], header: dict[str, str]) -> None:
        listening = [up.router.others._all.listening.is_set for up in ups]
        await until(lambda: all(each() for each in listening))
        await until(lambda: all(up.router.others._mine.listening.is_set() for up in ups))
        for up, times in zip(ups, (1, 3), strict=True):
            for _ in range(times):
                await up.chat(headers=header)
        for up in ups:
            seen = await state(up, header)
            assert (seen["routers"], seen["processes"]) == (2, 2)
            assert seen["requests"]["statuses"] == {"200": 4}
            assert [stage["reached"] for stage in seen["stages"]] == [4, 4]
            assert len(seen["recent"]) == 4
            assert {each["name"] for each in seen["replicas"]} == {"small-0", "large-0"}
        assert [(await state(up, header))["routers"] for up in ups] == [2, 2]

    with fake_redis() as url:
        with_two(url, look)


def test_a_router_of_another_version_is_not_asked_for_what_it_counts_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def look(ups: list[Running], _: dict[str, str]) -> None:
        await until(lambda: all(up.router.others._mine.listening.is_set() for up in ups))
        before = other_routers.__version__
        question = b"nobody %b elsewhere 1m" % before.encode()
        ups[0].router.others._asked(question)
        assert len(ups[0].router.others._answering) == 1
        await asyncio.wait(ups[0].router.others._answering)
        monkeypatch.setattr(other_routers, "__version__", "other")
        for wrong in (question, b"", b"a b"):
            ups[0].router.others._asked(wrong)
        assert not ups[0].router.others._answering

    with fake_redis() as url:
        with_two(url, look)


def test_without_redis_the_page_shows_its_own_router() -> None:
    async def look(ups: list[Running], header: dict[str, str]) -> None:
        await ups[0].chat(headers=header)
        seen = await state(ups[0], header)
        assert (seen["routers"], seen["requests"]["statuses"]) == (1, {"200": 1})

    with nobody() as url:
        with_two(url, look)


@pytest.mark.parametrize(
    "share", [b"", b"[]", b'{"later": 1}', b'[0, [], [], [[1, [2]]], {"ready": true}, []]']
)
def test_a_share_of_another_form_is_left_out_and_the_page_is_shown(share: bytes) -> None:
    async def look(ups: list[Running], header: dict[str, str]) -> None:
        async def elsewhere(_: bytes) -> list[tuple[str, bytes]]:
            return [("host", share)]

        page = ups[0].router.others._page
        assert page is not None
        page.elsewhere = elsewhere
        assert (await state(ups[0], header))["routers"] == 1
        assert await page.told(b"a window of another version") == b""

    with nobody() as url:
        with_two(url, look)
