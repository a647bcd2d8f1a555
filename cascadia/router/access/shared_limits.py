"""Limits per key over several routers, through Redis.

What requests ask of Redis within one round trip goes together in the next, so that there is one exchange at a time,
however many requests there are. Nobody waits for longer than `timeout_s`: then, and for `again_s` after, each router
holds the whole limits by itself, which is counted.

What a router has under way is told to Redis as a number, not as a difference: a message that is lost is made good by
the next. It is told again before Redis stops believing it.
"""

import asyncio
import math
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cascadia.router.access.keys import Key
from cascadia.router.access.rate_limits import Kind, Usage, Verdict
from cascadia.router.access.shared_script import SETTLE, TAKE, Taken
from cascadia.router.telemetry.internal_errors import tell
from cascadia.router.telemetry.outages import Outage

TIMEOUT_S = 0.1
AGAIN_S = 2.0
BELIEVED_S = 15.0
TOLD_AGAIN_S = 5.0
MOST_IN_ONE = 512
MOST_WAITING = 2048
"""Who comes then is not kept waiting: about what Redis takes in `TIMEOUT_S`."""
_REFUSED: tuple[Kind | None, ...] = (None, "requests", "tokens", "concurrent")


class Store(Protocol):
    """Runs scripts, each on a key with its arguments, in order and in one exchange. Raises `StoreFailed`."""

    async def run(self, calls: Sequence[tuple[str, str, Sequence[str | int]]]) -> list[Any]: ...

    async def close(self) -> None: ...


class StoreFailed(Exception):
    """`kind` is for metrics: `timeout`, `connection`, `refused`, `unreadable`."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    key: Key
    usage: Usage
    tokens: int
    answer: "asyncio.Future[Verdict | None]"


class SharedLimits:
    """`failed` is told of each request that was decided without Redis, and why; `outage` when Redis is lost, and when
    it is back. `running`: keys' ids with what they have under way, whoever let that in.
    """

    def __init__(
        self,
        store: Store,
        failed: Callable[[str], None],
        outage: Outage,
        running: Callable[[], Iterable[tuple[str, Usage]]] = tuple,
        again_s: float = AGAIN_S,
    ) -> None:
        self._store = store
        self._failed = failed
        self._outage = outage
        self._running = running
        self._again_s = again_s
        self._me = secrets.token_hex(8)
        self._down_until_s = 0.0
        self._waiting: list[_Waiting] = []
        self._back: dict[str, tuple[Usage, int]] = {}
        self._told: dict[str, Usage] = {}
        self._worker: asyncio.Task[None] | None = None
        self._teller: asyncio.TimerHandle | None = None

    @property
    def up(self) -> bool:
        return self._down_until_s == 0.0

    async def take(self, key: Key, usage: Usage, tokens: int) -> Verdict | None:
        """Verdict of the shared limits; None where Redis cannot be asked."""
        loop = asyncio.get_running_loop()
        # After that time one exchange tries again; the others wait for it, and learn with it.
        if self._down_until_s and loop.time() < self._down_until_s:
            self._failed("down")
            return None
        if len(self._waiting) >= MOST_WAITING:
            self._failed("busy")
            return None
        one = _Waiting(key, usage, tokens, loop.create_future())
        self._waiting.append(one)
        self._work()
        return await one.answer

    def settle(self, key: Key, usage: Usage, given_back: int) -> None:
        """A request of `key` has ended, which `usage.running` shows already."""
        _, before = self._back.get(key.id, (usage, 0))
        self._back[key.id] = usage, before + given_back
        if self.up:
            self._work()

    async def close(self) -> None:
        """Tells Redis what is left to tell, and leaves."""
        if self._teller is not None:
            self._teller.cancel()
        if self._worker is not None:
            await self._worker
        await self._store.close()

    def _work(self) -> None:
        if self._worker is None or self._worker.done():
            self._worker = asyncio.get_running_loop().create_task(self._exchanges())

    async def _exchanges(self) -> None:
        while self._waiting or (self._back and self.up):
            if not self.up:
                # What was let in meanwhile Redis has not heard of, and what it was told before it may have lost.
                for key, usage in self._running():
                    self._told[key] = usage
                    self._back.setdefault(key, (usage, 0))
            back, self._back = self._back, {}
            asked, self._waiting = self._waiting[:MOST_IN_ONE], self._waiting[MOST_IN_ONE:]
            # What is given back goes first, so that it is there for those who ask in the same exchange.
            calls = [self._settled(key, usage, tokens) for key, (usage, tokens) in back.items()]
            calls += [self._asked(one) for one in asked]
            try:
                answers = await self._store.run(calls)
                verdicts = _verdicts(answers[len(back) :], len(asked))
            except StoreFailed as error:
                self._fail(error.kind, asked, back)
                return
            except Exception as error:  # noqa: BLE001 (whatever its client does: who waits is let in, or not)
                tell("the shared limits failed", error)
                self._fail("unreadable", asked, back)
                return
            except BaseException:
                for one in asked:
                    one.answer.cancel()
                raise
            self._down_until_s = 0.0
            self._outage.back()
            for one, taken in zip(asked, verdicts, strict=True):
                self._answer(one, taken)

    def _answer(self, one: _Waiting, taken: Taken) -> None:
        granted = taken.refused == 0
        if one.answer.cancelled():
            if granted:
                # Its client has left meanwhile: what it was given goes back.
                _, before = self._back.get(one.key.id, (one.usage, 0))
                self._back[one.key.id] = one.usage, before + one.tokens
            return
        if granted:
            one.usage.running += 1
            self._told[one.key.id] = one.usage
            self._tell_later()
        wait_s = math.inf if taken.wait_ms < 0 else taken.wait_ms / 1000.0
        refused = _REFUSED[taken.refused]
        one.answer.set_result(Verdict(refused, taken.requests_1000 / 1000.0, float(taken.tokens), wait_s))

    def _fail(self, kind: str, asked: Sequence[_Waiting], back: dict[str, tuple[Usage, int]]) -> None:
        """Everyone who waits decides alone.

        Tokens that were to be given back may have been: they are not offered twice. What runs is told again.
        """
        self._down_until_s = asyncio.get_running_loop().time() + self._again_s
        self._outage.lost(kind)
        for key, (usage, _) in back.items():
            self._back.setdefault(key, (usage, 0))
        # Those of the next exchange too: they would wait for another time-out.
        asked, self._waiting = [*asked, *self._waiting], []
        for one in asked:
            if not one.answer.done():
                self._failed(kind)
                one.answer.set_result(None)

    def _tell_again(self) -> None:
        self._teller = None
        self._told = {key: usage for key, usage in self._told.items() if usage.running}
        if self._told:
            for key, usage in self._told.items():
                self._back.setdefault(key, (usage, 0))
            self._tell_later()
            self._work()

    def _tell_later(self) -> None:
        if self._teller is None:
            self._teller = asyncio.get_running_loop().call_later(TOLD_AGAIN_S, self._tell_again)

    def _asked(self, one: _Waiting) -> tuple[str, str, Sequence[str | int]]:
        limits = one.key.limits
        rpm, tpm = limits.requests_per_minute or 0, limits.tokens_per_minute or 0
        believed_ms = int(BELIEVED_S * 1000)
        arguments = (rpm, tpm, limits.concurrent or 0, one.tokens, self._me, believed_ms)
        return TAKE, _place(one.key.id), arguments

    def _settled(self, key: str, usage: Usage, tokens: int) -> tuple[str, str, Sequence[str | int]]:
        return SETTLE, _place(key), (tokens, self._me, max(0, usage.running), int(BELIEVED_S * 1000))


def _verdicts(answers: Sequence[Any], count: int) -> list[Taken]:
    """Raises `StoreFailed` where these are no verdicts of the script's: who waits for one waits no longer."""
    try:
        found = [Taken(*map(int, answer)) for answer in answers]
    except (TypeError, ValueError):
        raise StoreFailed("unreadable") from None
    if len(found) != count or not all(0 <= each.refused < len(_REFUSED) for each in found):
        raise StoreFailed("unreadable")
    return found


def _place(key: str) -> str:
    return f"cascadia:limits:{{{key}}}"


async def within(seconds: float, what: Awaitable[Any]) -> Any:
    """Result of `what`. Raises `StoreFailed` after `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            return await what
    except TimeoutError:
        raise StoreFailed("timeout") from None
