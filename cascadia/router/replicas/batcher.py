"""Batches for a group of one-pass models on the same workers: what waits, which model takes it, and how many of it.

Each worker serves one batch at a time, so that its time can be told beforehand (RAMSIS, section 3). When one is free
the policy's table says which model takes how many of the earliest deadlines; a lane is what one policy decides about. A
batch goes out as one request with a list, and comes back as its parts. One that fails is retried in halves, so that an
input that no engine can take fails alone, for as long as the engine's breaker is closed; one whose worker is gone, or
has the wrong key or model, goes to another as it is. Who leaves is left out of its batch, or of what becomes of it.
"""

import asyncio
import math
from collections import deque
from collections.abc import Mapping, Sequence
from time import monotonic

from cascadia.domain.policy import Decision, Policies
from cascadia.policy.load import RateWindow
from cascadia.router.openai.batches import WIRES
from cascadia.router.openai.errors import ApiError, Overloaded, StageFailed
from cascadia.router.openai.one_pass import shares
from cascadia.router.replicas.batch_queue import Asks, Member, Queue, Said
from cascadia.router.replicas.replica import Call, Replica
from cascadia.router.replicas.results import Reply, refuse_status
from cascadia.router.replicas.stage import Stage
from cascadia.router.settings.model import GroupSettings, Limits
from cascadia.router.upstream.deadlines import TICK_S
from cascadia.router.upstream.errors import NOT_CONNECTED, UpstreamError
from cascadia.router.upstream.said import Said as Words
from cascadia.router.upstream.told_failure import ToldFailure

LOOKS_S = 0.02
"""How often those that wait are looked at while no worker can take them."""
RESETS_MAX = 2
"""So many engines may break off over one member alone before it is taken for its doing, or over a batch as it is."""
_ANOTHER = NOT_CONNECTED | {"busy", "unhealthy"}
"""What says nothing about what was sent: the batch goes to another worker as it is."""


class Lane:
    """`policies` decide about what waits here. `extra` is on top of the engine's path."""

    __slots__ = ("in_flight", "most", "name", "policies", "queue", "rate")

    def __init__(self, policies: Policies, workers: int) -> None:
        self.name = policies.group
        self.most = max(max(row.batch) for level in policies.levels for row in level.rows)
        """Members of its largest batch."""
        self.policies = policies
        self.queue = Queue(workers if policies.queue == "worker" else 0)
        self.rate = RateWindow()
        self.in_flight = 0

    def members(
        self,
        items: Sequence[bytes],
        asks: Asks,
        came_s: float,
        deadline_s: float,
        *,
        given: bool = False,
        truncate: bytes = b"",
    ) -> list[Member]:
        """A request's inputs as members. `given`: the request brought its deadline; else they are due within the
        group's time, those of a second batch within twice of it, and so on, so that a long list keeps nobody waiting.
        """
        slo_s, most = self.policies.slo_s, self.most
        return [
            Member(
                raw,
                asks,
                slot,
                deadline_s if given else min(deadline_s, came_s + slo_s * (1 + slot // most)),
                deadline_s,
                truncate=truncate,
            )
            for slot, raw in enumerate(items)
        ]

    def load(self, now_s: float) -> float:
        if self.policies.index == "rate":
            return self.rate.rate_rps(now_s)
        return self.queue.count + self.in_flight

    def decide(self, worker: int, now_s: float) -> tuple[Decision, float] | None:
        """Model and batch for what `worker` may take, and how long to wait where that is none; None where nothing
        waits."""
        earliest = self.queue.earliest(worker)
        if earliest is None:
            return None
        waiting, slack_s = self.queue.waiting(worker), earliest.due_s - now_s
        policy = self.policies.at(self.load(now_s))
        decision = policy.decide(waiting, slack_s)
        return decision, policy.wait_s(waiting, slack_s) if decision.batch == 0 else 0.0


class _Batch:
    __slots__ = ("lane", "members", "model", "replica", "task", "wanted")

    def __init__(self, lane: Lane, model: str, members: list[Member]) -> None:
        self.lane, self.model, self.members = lane, model, members
        self.replica = ""
        """That it is with."""
        self.wanted = 0
        """Members that somebody waits for, while it is with a worker."""
        self.task: asyncio.Task[None] | None = None

    def left(self) -> None:
        """One that all have left is broken off."""
        self.wanted -= 1
        if not self.wanted and self.task is not None:
            self.task.cancel()


class Batcher:
    """`stages` by name, all of one task; each has a replica at each of the `urls` of the workers. `lanes` by name."""

    def __init__(
        self, urls: Sequence[str], stages: Mapping[str, Stage], policies: Sequence[Policies], limits: Limits
    ) -> None:
        self.urls = tuple(urls)
        self.stages = stages
        self.limits = limits
        self.wire = WIRES[next(iter(stages.values())).settings.task]
        self.lanes = {each.group: Lane(each, len(urls)) for each in policies}
        self._free = dict.fromkeys(range(len(urls)))
        """In the order in which they became free."""
        self._again: deque[_Batch] = deque()
        self._running: dict[asyncio.Task[None], _Batch] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        return sum(lane.queue.count for lane in self.lanes.values())

    def add(self, lane: Lane, members: Sequence[Member]) -> None:
        """Queues `members`, and sends what can go. Raises `Overloaded` where there is no place for them now, and
        `ApiError` where there never is."""
        if len(members) > self.limits.max_queue:
            most = self.limits.max_queue
            message = (
                f"The request has {len(members)} inputs, and at most {most} wait here; send it in parts."
            )
            raise ApiError(413, "too_many_inputs", message, param="input")
        if self.waiting + len(members) > self.limits.max_queue:
            raise Overloaded(lane.name, 1)
        now_s = monotonic()
        for member in members:
            member.came_s = now_s
            lane.rate.arrival(now_s)
            lane.queue.add(member)
        if self._free:
            self._dispatch()

    def leave(self, member: Member) -> None:
        """Marks a member that nobody waits for any more. A batch whose members have all left is broken off."""
        member.left = True
        if member.queue is not None:
            member.queue.leave(member)
        if member.batch is not None:
            batch, member.batch = member.batch, None
            batch.left()

    def _dispatch(self) -> None:
        """Gives each free worker a batch, where there is one for it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_s, soonest_s = monotonic(), float("inf")
        for worker in list(self._free):
            at = self._usable(worker, now_s)
            if at is None:
                soonest_s = min(soonest_s, LOOKS_S)
                continue
            batch = self._retried() or self._formed(worker, now_s)
            if isinstance(batch, _Batch):
                self._send(worker, batch)
            elif batch is not None:
                soonest_s = min(soonest_s, batch)
        if not self._again and not self.waiting:
            return
        # While one worker still serves there is hope: it may take them when it is free.
        if len(self._free) == len(self.urls):
            self._give_up(now_s)
        if soonest_s < float("inf"):
            # uvloop's clock counts milliseconds: sooner would find the same again at once.
            self._timer = asyncio.get_running_loop().call_later(max(soonest_s, 0.001), self._dispatch)

    def _usable(self, worker: int, now_s: float) -> bool | None:
        """True where every model can be asked there; None where the worker is down."""
        replicas = (self._replica(stage, worker) for stage in self.stages.values())
        usable = all(replica.usable(now_s) for replica in replicas)
        if not usable:
            for lane in self.lanes.values():
                if len(self.urls) > 1:
                    lane.queue.spread(worker)
        return True if usable else None

    def _others(self, worker: int) -> bool:
        """Tells whether another than `worker` may be asked."""
        now_s = monotonic()
        return any(self._usable(other, now_s) for other in range(len(self.urls)) if other != worker)

    def _replica(self, stage: Stage, worker: int) -> Replica:
        """That of `stage` at `worker`. Where a newer plan has none there, those who wait under this one go to its
        replicas of now."""
        url, now = self.urls[worker], stage.replicas
        for replica in now:
            if replica.identity[0] == url:
                return replica
        return now[worker % len(now)]

    def _retried(self) -> _Batch | None:
        while self._again:
            batch = self._again.popleft()
            batch.members = [member for member in batch.members if not member.left]
            if batch.members:
                return batch
        return None

    def _formed(self, worker: int, now_s: float) -> "_Batch | float | None":
        """The batch of the lane with the earliest deadline that does not wait; else for how long they all do."""
        best: tuple[float, Lane, Decision] | None = None
        waits_s: float | None = None
        for lane in self.lanes.values():
            found = self._late_dropped(lane, worker, now_s)
            if found is None:
                continue
            decision, wait_s = found
            if decision.batch == 0:
                waits_s = wait_s if waits_s is None else min(waits_s, wait_s)
                continue
            earliest = lane.queue.earliest(worker)
            assert earliest is not None
            if best is None or earliest.due_s < best[0]:
                best = earliest.due_s, lane, decision
        if best is None:
            return waits_s
        _, lane, decision = best
        members = lane.queue.take(worker, decision.batch)
        if decision.refuses:
            self._refuse(lane, lane.queue.take(worker, lane.queue.count))
        return self._alike(_Batch(lane, decision.model, members))

    def _alike(self, batch: _Batch) -> _Batch:
        """`batch` as far as all ask the same of long texts as the first; others go next, as batches of their own."""
        if not any(member.truncate for member in batch.members):
            return batch
        by: dict[bytes, list[Member]] = {}
        for member in batch.members:
            by.setdefault(member.truncate, []).append(member)
        first, *others = (_Batch(batch.lane, batch.model, members) for members in by.values())
        self._again.extend(others)
        return first

    def _late_dropped(self, lane: Lane, worker: int, now_s: float) -> tuple[Decision, float] | None:
        """The lane's decision, once those that nobody waits for, or that are to be dropped, are gone."""
        while (earliest := lane.queue.earliest(worker)) is not None:
            if earliest.deadline_s > now_s and not lane.policies.lost(earliest.due_s - now_s):
                break
            self._refuse(lane, lane.queue.take(worker, 1))
        return lane.decide(worker, now_s)

    def _refuse(self, lane: Lane, members: Sequence[Member]) -> None:
        """Tells members that are out of the queue that their time is too short."""
        for member in members:
            member.asks.failed(member.slot, StageFailed(lane.name, "deadline"))

    def _give_up(self, now_s: float) -> None:
        """No worker takes anything: who waits for none that could come back, or too long, is told."""
        workers = range(len(self.urls))
        replicas = [self._replica(stage, worker) for stage in self.stages.values() for worker in workers]
        hope = any(replica.state in ("ready", "starting") for replica in replicas)
        rests_s = [
            r.rests_until_s - now_s for r in replicas if r.state == "ready" and r.rests_until_s > now_s
        ]
        # 429 and not 503: engines that ask to be left alone will be back.
        after_s = math.ceil(min(rests_s)) if rests_s else None
        for lane in self.lanes.values():
            every = [member for member in lane.queue.every() if not member.left]
            self._tell_late(lane, every, now_s, hope, after_s)
        for batch in self._again:
            members = [each for each in batch.members if not each.left]
            self._tell_late(batch.lane, members, now_s, hope, after_s)

    def _tell_late(
        self, lane: Lane, members: Sequence[Member], now_s: float, hope: bool, after_s: int | None
    ) -> None:
        """`after_s`: when an engine that rests may be asked again; None where none rests."""
        for member in members:
            late = member.deadline_s <= now_s
            if not late and hope and now_s - member.came_s < self.limits.queue_s:
                continue
            member.left = True
            error = StageFailed(lane.name, "deadline" if late else "no-replica")
            if after_s is not None and not late:
                error = Overloaded(lane.name, after_s)
            member.asks.failed(member.slot, error)

    def _send(self, worker: int, batch: _Batch) -> None:
        del self._free[worker]
        batch.lane.in_flight += len(batch.members)
        task = asyncio.get_running_loop().create_task(self._serve(worker, batch))
        self._running[task] = batch
        batch.task, batch.wanted = task, len(batch.members)
        for member in batch.members:
            member.batch = batch
        task.add_done_callback(lambda task: self._ended(task, worker))

    def _ended(self, task: "asyncio.Task[None]", worker: int) -> None:
        batch = self._running.pop(task)
        for member in batch.members:
            member.batch = None
        batch.lane.in_flight -= len(batch.members)
        self._free[worker] = None
        if not task.cancelled() and (error := task.exception()) is not None:
            # A fault of ours is told to each of the batch, and goes no further.
            for member in batch.members:
                if not member.left:
                    member.asks.failed(member.slot, StageFailed(batch.lane.name, type(error).__name__))
        self._dispatch()

    async def _serve(self, worker: int, batch: _Batch) -> None:
        stage = self.stages[batch.model]
        replica = self._replica(stage, worker)
        batch.replica = replica.name
        members, limits, started_s = batch.members, self.limits, monotonic()
        stage.metrics.queue.observe(started_s - members[0].came_s)
        items = [member.raw for member in members]
        body = self.wire.body(stage.settings.model, items, members[0].truncate)
        # The last of them: who is late before is told by a timer of its own, and the others keep their batch.
        latest_s = max(member.deadline_s for member in members)
        call = Call(self.wire.path, body, b"", len(body) // 4, None, latest_s, most_output=0)
        done = stage.attempts.given(replica, call, started_s).done
        try:
            left_s = max(0.001, min(latest_s - started_s, limits.total_s))
            connection = await replica.begin(replica.request(call), limits.first_byte_s, left_s)
            try:
                connection.hold(limits.idle_s, parts=False)
                content = await connection.whole()
                answer = connection.answer
                status, found = answer.status, None
                if status == 200:
                    try:
                        found = self.wire.parts(answer.content_type, content, len(members))
                    except ToldFailure as told:
                        status, content = told.status, told.body
                if found is None:
                    several, key = len(members) > 1, replica.api_key
                    status = refuse_status(status, answer.retry_after, content, key, several=several)
                    done(True)
                    self._refused(batch, Reply(status, answer.content_type, content))
                    return
                usage, parts, exits = found
            finally:
                replica.pool.release(connection)
        except UpstreamError as error:
            slower = error.kind in ("total", "first-byte")
            late = slower and monotonic() + TICK_S >= latest_s
            if slower:
                stage.admission.times.outlasted(monotonic() - started_s)
            if error.kind == "busy":
                replica.rest(monotonic(), error.after_s)
            done(None if late or error.kind in ("busy", "exhausted") else False)
            stage.metrics.upstream_error(error.kind)
            self._broke_off(worker, batch, error, late=late, well=replica.breaker.closed)
            return
        except BaseException:
            done(None)
            raise
        done(True)
        stage.counted(usage)
        stage.metrics.left(exits)
        stage.metrics.batch.observe(len(members))
        stage.admission.times.took(monotonic() - started_s)
        sizes = [len(member.raw) for member in members]
        for member, raw, tokens in zip(members, parts, shares(usage.input_tokens, sizes), strict=True):
            if not member.left:
                member.asks.answered(member.slot, Said(raw, tokens, stage.name, replica.name))

    def _refused(self, batch: _Batch, reply: "Reply[None]") -> None:
        """The engine's own 4xx: of one member it is its answer, of more one of them is to blame."""
        if len(batch.members) > 1:
            # First: once one is found, the others of its request need not be looked at.
            self._again.extendleft(reversed(_halves(batch)))
            return
        (member,) = batch.members
        if not member.left:
            member.asks.refused(member.slot, reply)

    def _broke_off(self, worker: int, batch: _Batch, error: UpstreamError, *, late: bool, well: bool) -> None:
        """`well`: whether the engine did well with others of late; else no half of the batch would do better."""
        several = len(batch.members) > 1
        if late or error.kind == "exhausted":
            self._fail(batch, "deadline" if late else error.kind)
        elif error.kind in _ANOTHER or error.stale:
            self._again.append(batch)
        elif several and well and not error.ours:
            # Behind the others: those that do well keep the breaker closed.
            self._again.extend(_halves(batch))
        else:
            for member in batch.members:
                member.resets += 1
            # What is no member's doing goes as it is to another worker, where one may be asked.
            blameless = several or error.ours
            if batch.members[0].resets >= RESETS_MAX or (blameless and not self._others(worker)):
                self._fail(batch, error.kind, error.said)
            else:
                self._again.append(batch)

    def _fail(self, batch: _Batch, kind: str, said: Words | None = None) -> None:
        for member in batch.members:
            if not member.left:
                member.asks.failed(member.slot, StageFailed(batch.model, kind, said))


def _halves(batch: _Batch) -> list[_Batch]:
    half = len(batch.members) // 2
    parts = (batch.members[:half], batch.members[half:])
    return [_Batch(batch.lane, batch.model, members) for members in parts]


def batcher_of(group: GroupSettings, stages: Mapping[str, Stage], limits: Limits) -> Batcher:
    """The batcher of a group whose stages are among `stages`."""
    members = {name: stages[name] for name in group.stages}
    urls = [replica.url for replica in next(iter(members.values())).settings.replicas]
    policies = [*group.stages.values(), *([group.policies] if group.policies else [])]
    return Batcher(urls, members, policies, limits)
