"""Verdicts of engines on a request's inputs, for whoever waits for all of them."""

import asyncio
from dataclasses import replace
from time import monotonic

from cascadia.router.openai.errors import StageFailed
from cascadia.router.openai.one_pass import refused_at
from cascadia.router.replicas.batch_queue import Member, Said, Sent, in_hand
from cascadia.router.replicas.batcher import Batcher, Lane
from cascadia.router.replicas.results import Reply


class Gathered:
    """Inputs of one request as members of batches; `all_said` once. `read`: what engines have read by then, by its
    length where they did not say; `batch`: the one that failed."""

    def __init__(self, batcher: Batcher, lane: Lane) -> None:
        self.batcher = batcher
        self.lane = lane
        self._end: asyncio.Future[Reply[None] | None] = asyncio.get_running_loop().create_future()
        self.read: list[Said] = []
        self.batch: Sent | None = None
        self._said: list[Said | None] = []
        self._members: list[Member] = []
        self._given_up: list[Said] = []
        self._left = 0

    async def all_said(
        self, items: list[bytes], deadline_s: float, truncate: bytes = b""
    ) -> "list[Said] | Reply[None]":
        """An engine's refusal of one is that of all. Raises `StageFailed`; cancelled, it leaves all batches."""
        self._said = [None] * len(items)
        self._left = len(items)
        self._members = members = self.lane.members(items, self, monotonic(), deadline_s, truncate=truncate)
        self.batcher.add(self.lane, members)
        late = StageFailed(self.lane.name, "deadline")
        # A worker that hangs says nothing, and others of the batch may wait for longer.
        timer = asyncio.get_running_loop().call_later(deadline_s - monotonic(), self.failed, 0, late)
        try:
            refused = await self._end
        except asyncio.CancelledError:
            self._given_up = in_hand(members, self._said)
            raise
        finally:
            timer.cancel()
            self.read = [*(one for one in self._said if one is not None), *self._given_up]
            for member in members:
                if self._said[member.slot] is None:
                    self.batcher.leave(member)
        return refused if refused is not None else [one for one in self._said if one is not None]

    def answered(self, slot: int, said: Said) -> None:
        self._said[slot] = said
        self._left -= 1
        if not self._left and not self._end.done():
            self._end.set_result(None)

    def refused(self, slot: int, reply: "Reply[None]") -> None:
        if not self._end.done():
            self.batch = self._members[slot].batch
            several = len(self._said) > 1
            self._end.set_result(replace(reply, body=refused_at(reply.body, [slot])) if several else reply)

    def failed(self, slot: int, error: StageFailed) -> None:
        if not self._end.done():
            self.batch = self._members[slot].batch
            if error.kind == "deadline":
                self._given_up = in_hand(self._members, self._said)
            self._end.set_exception(error)
