"""A request to a group of one-pass models, or to one of its stages: its inputs are members of batches.

No task: each step is a callback of the one before, as on the fast path.
"""

import asyncio
from collections.abc import Sequence
from time import monotonic

from cascadia.router.cascade.records import Record
from cascadia.router.handlers.fast_path import Serves
from cascadia.router.http.exchange import CLIENT_LEFT, Exchange
from cascadia.router.openai.errors import ApiError, StageFailed
from cascadia.router.openai.one_pass import refused_at
from cascadia.router.replicas.batch_queue import Member, Said, Sent, in_hand
from cascadia.router.replicas.batcher import Batcher, Lane
from cascadia.router.replicas.results import Reply
from cascadia.router.telemetry.stage_record import Step


class Batched:
    """`begin`, and then one end, once: an answer, a refusal, a failure, or that the client left."""

    __slots__ = (
        "_ended",
        "_future",
        "_left",
        "_members",
        "_timer",
        "batcher",
        "exchange",
        "lane",
        "record",
        "said",
        "service",
        "step",
    )

    def __init__(
        self, service: Serves, exchange: Exchange, record: Record, batcher: Batcher, lane: Lane
    ) -> None:
        self.service = service
        self.exchange = exchange
        self.record = record
        self.batcher = batcher
        self.lane = lane
        self.step = Step(lane.name, exchange.started_s)
        self.said: list[Said | None] = []
        self._members: list[Member] = []
        self._left = 0
        self._ended = False
        self._future: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def begun(
        self, items: Sequence[bytes], deadline_s: float, *, given: bool, truncate: bytes = b""
    ) -> None:
        """`begin`, for a request that has a task already: it is closed by that, and leaves when it is cancelled."""
        self._future = asyncio.get_running_loop().create_future()
        self.begin(items, deadline_s, given=given, truncate=truncate)
        self.exchange.on_leaving = task.cancel if (task := asyncio.current_task()) else None
        try:
            await self._future
        finally:
            self._gave_up()

    def begin(self, items: Sequence[bytes], deadline_s: float, *, given: bool, truncate: bytes = b"") -> None:
        """`given`: whether the request brought `deadline_s` itself, or it is the router's. Raises `Overloaded`,
        and `ApiError` for more inputs than ever wait."""
        self.said = [None] * len(items)
        self._left = len(items)
        came_s = self.exchange.started_s
        self._members = self.lane.members(items, self, came_s, deadline_s, given=given, truncate=truncate)
        self.record.steps.append(self.step)
        self.exchange.on_leaving = self.left
        try:
            self.batcher.add(self.lane, self._members)
        except (StageFailed, ApiError):
            self.exchange.on_leaving = None
            self._of(self.lane.name)
            raise
        if given and not self._ended:
            # A worker that hangs says nothing, and others of the batch may wait for longer.
            self._timer = asyncio.get_running_loop().call_later(deadline_s - monotonic(), self._rang)

    def answered(self, slot: int, said: Said) -> None:
        self.said[slot] = said
        self._left -= 1
        if not self._left and not self._ended:
            self._ended = True
            self._no_timer()
            try:
                self._answer()
            except Exception as error:  # noqa: BLE001 (the boundary: a fault of ours becomes OpenAI's error)
                self.service.fault(self.exchange, self.record, error)
            self._close()

    def refused(self, slot: int, reply: "Reply[None]") -> None:
        blamed = self._members[slot].batch
        if self._end():
            body = refused_at(reply.body, [slot]) if len(self._members) > 1 else reply.body
            name = self.lane.name if blamed is None else blamed.model
            stage = self.batcher.stages.get(name)
            self._of(name, blamed)
            self.step.ended("refused")
            self.exchange.refusal(reply.status, body, [] if stage is None else [stage.header])
            self._close()

    def failed(self, slot: int, error: StageFailed) -> None:
        blamed = self._members[slot].batch
        if self._end(given_up=error.kind == "deadline"):
            self._of(error.stage, blamed)
            if error.said is not None:
                self.step.said = error.said.log
            self.record.entry["error"] = error.kind
            self.exchange.error(error.api_error())
            self._close()

    def _rang(self) -> None:
        self.failed(0, StageFailed(self.lane.name, "deadline"))

    def _no_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def left(self) -> None:
        if self._gave_up():
            self.exchange.status = CLIENT_LEFT
            self._close()

    def _close(self) -> None:
        if self._future is None:
            self.service.close(self.exchange, self.record)
        elif not self._future.done():
            self._future.set_result(None)

    def _gave_up(self) -> bool:
        """The client waits no more; False where that makes no difference."""
        ends = self._end(given_up=True)
        if ends:
            self._of(self.lane.name)
        return ends

    def _end(self, *, given_up: bool = False) -> bool:
        """Whoever waits of this request waits no more; False where that was said before. `given_up`: by the client, or
        by its deadline, and not for an engine's fault."""
        if self._ended:
            return False
        self._ended = True
        self._no_timer()
        # Those that were answered before the rest was given up have cost what they took, and those that are being
        # read what they take.
        read = in_hand(self._members, self.said) if given_up else []
        self._took([one for one in self.said if one is not None] + read)
        self.step.counted &= not read
        for member in self._members:
            if self.said[member.slot] is None:
                self.batcher.leave(member)
        return True

    def _of(self, name: str, batch: Sent | None = None) -> None:
        """Counts a request that has no answer for the stages that have worked for it, and for `name`, where that is
        one. `batch`: in which it failed."""
        stages = self.batcher.stages
        if name in stages and self.step.stage != name:
            if self.step.tries:
                self.step = Step(name, self.exchange.started_s)
                self.record.steps.append(self.step)
            self.step.stage = name
        if batch is not None:
            self.step.replica, self.step.tries = batch.replica, 1
        if self.step.stage in stages:
            self._count(self.step.stage)

    def _count(self, stage: str) -> None:
        """Counts the request for all stages that had part in it, `stage` the one that it is told to be of."""
        self.record.entry["stage"] = stage
        for each in self.record.steps:
            self.batcher.stages[each.stage].metrics.requests.value += 1.0

    def _took(self, said: Sequence[Said]) -> None:
        """Notes a step for each stage that read some of the inputs, the last one's last: each has its price."""
        by_stage: dict[str, int] = {}
        for one in said:
            by_stage[one.stage] = by_stage.pop(one.stage, 0) + one.tokens
        if not by_stage:
            return
        *others, last = by_stage
        for name in others:
            step = Step(name, self.step.started_at_s)
            step.used(by_stage[name], 0)
            self.record.steps.insert(-1, step)
        self.step.stage = last
        self.step.used(by_stage[last], 0)
        self.step.replica, self.step.tries = said[-1].replica, 1
        if self.exchange.reservation is not None:
            self.exchange.reservation.spent = sum(by_stage.values())

    def _answer(self) -> None:
        said = [one for one in self.said if one is not None]
        tokens = sum(one.tokens for one in said)
        self._took(said)
        exchange, stage = self.exchange, self.batcher.stages[said[-1].stage]
        for each in self.record.steps:
            each.ended("accepted")
        self._count(stage.name)
        stage.metrics.seconds.observe(monotonic() - exchange.started_s)
        parts = [one.raw for one in said]
        body = self.batcher.wire.answer(exchange.request_id, stage.settings.model, parts, tokens)
        exchange.reply(stage.head, body)
