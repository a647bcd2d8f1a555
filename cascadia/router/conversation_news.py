"""Where conversations are, told to the other processes of this router: whichever gets the next turn knows.

What happens within `GATHER_S` is told at once. Who is not reached starts that conversation afresh.
"""

import asyncio
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from cascadia.router.app import Router

GATHER_S = 0.01


class ConversationNews:
    """Tells of all that `router` answers, and hears the others."""

    def __init__(self, router: "Router") -> None:
        self._router = router
        self._news: dict[str, str] = {}
        self._telling: set[asyncio.Task[object]] = set()
        router.siblings.answers["conversations"] = self._heard

    def follow(self) -> None:
        """From now on the conversations of the plan in force."""
        if self._router.siblings.count > 1:
            self._router.conversations.tell = self._tell

    def _tell(self, key: bytes, stage: str) -> None:
        if not self._news:
            asyncio.get_running_loop().call_later(GATHER_S, self._send)
        self._news[key.hex()] = stage

    def _send(self) -> None:
        news, self._news = self._news, {}
        task = asyncio.ensure_future(self._router.siblings.ask("conversations", orjson.dumps(news)))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _heard(self, news: bytes) -> bytes:
        now_s = asyncio.get_running_loop().time()
        for key, stage in orjson.loads(news).items():
            self._router.conversations.learn(bytes.fromhex(key), stage, now_s)
        return b"heard"
