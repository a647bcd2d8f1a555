"""Shadow evaluation of a few requests: all stages answer, the judge scores them all, and quality tables stay
fresh.

It begins when the client has its answer, goes on only where stages and judge have room to spare, ends at once where a
client has to wait for a replica, and keeps within a number of tokens per hour. One look at a time, but for the ten
minutes after a controller has asked for more: traffic has changed, and scores of before say nothing of it. What they
cost is of the hours to come.
"""

import asyncio
import random
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

from msgspec import structs

from cascadia.clients.cluster.evaluations_asked import asked_s
from cascadia.router.cascade.cascade import Cascade
from cascadia.router.cascade.decision import Ask
from cascadia.router.cascade.records import Record
from cascadia.router.gates.base import Gate, JudgeFailed, judged
from cascadia.router.gates.context import ASKED, GateContext
from cascadia.router.observers.samples import Samples
from cascadia.router.observers.samples_rows import Row
from cascadia.router.openai.answers import Choice, Written, read_document
from cascadia.router.openai.errors import StageFailed
from cascadia.router.openai.questions import answer, asked_of
from cascadia.router.openai.requests import drawn_anew, rewritten, tokens_of
from cascadia.router.openai.texts import prompt_tokens_of
from cascadia.router.replicas.replica import Call
from cascadia.router.replicas.results import Reply
from cascadia.router.replicas.stage import Stage
from cascadia.router.settings.model import JudgeSettings, ShadowSettings
from cascadia.router.telemetry.metrics import Metrics
from cascadia.router.ui.evaluations import Evaluations

HOUR_S = 3600.0
BURST_S = 600.0
WATCHED_S = 1.0


class _GivenUp(Exception):
    """Says why, as the metric has it."""


class Cascaded(Protocol):
    """A router whose stages may be asked once more. `judge` has its engines, where it has some."""

    @property
    def stages(self) -> list[Stage]: ...

    @property
    def all_stages(self) -> list[Stage]: ...

    @property
    def judge(self) -> Stage | None: ...

    @property
    def cascade(self) -> Cascade: ...

    @property
    def draining(self) -> bool: ...

    @property
    def metrics(self) -> Metrics: ...


class Shadow:
    """Shadow evaluation for `router`, under whatever plan it has by then. What it learns goes to `samples`, and as
    numbers to `evaluations`."""

    def __init__(
        self, settings: ShadowSettings, samples: Samples, router: Cascaded, evaluations: Evaluations
    ) -> None:
        self.settings = settings
        self.samples = samples
        self.router = router
        self.evaluations = evaluations
        self.budget = Budget(settings.tokens_per_hour)
        self._rng = random.Random()
        self._looking: set[asyncio.Task[None]] = set()
        self._crowded: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None
        self._asked_s = 0.0

    def start(self) -> None:
        if self.settings.burst_hours > 0:
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    def done(self, record: Record) -> None:
        """An observer of requests."""
        burst = self._bursts()
        ratio = self.settings.burst_ratio if burst else self.settings.ratio
        if record.ask is None or record.answered is None or self._rng.random() >= ratio:
            return
        if record.ask.fields.prompts > 1:
            # A row of a quality table is one question and one answer.
            return
        if len(self._looking) >= (self.settings.burst_at_once if burst else 1) or self.router.draining:
            self._count("busy")
            return
        request_id = record.entry["request_id"].encode()
        self._looking.add(asyncio.get_running_loop().create_task(self._look(record.ask, request_id)))

    async def stop(self) -> None:
        ending = [*self._looking, *([self._watching] if self._watching else [])]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    async def _watch(self) -> None:
        folder = self.samples.settings.folder
        while True:
            self._asked_s = await asyncio.to_thread(asked_s, folder)
            await asyncio.sleep(WATCHED_S)

    def _bursts(self) -> bool:
        return 0.0 <= time.time() - self._asked_s < BURST_S

    def _count(self, outcome: str) -> None:
        self.router.metrics.shadows.labels(outcome).inc()

    def _yield(self) -> None:
        """A client has to wait: what is asked for here is dropped."""
        self._crowded |= self._looking
        for looking in self._looking:
            looking.cancel()

    async def _look(self, ask: Ask, request_id: bytes) -> None:
        stages, shared = list(self.router.stages), self.router.all_stages
        this = asyncio.current_task()
        assert this is not None
        for stage in shared:
            stage.admission.when_crowded = self._yield
        try:
            rows = await self._rows(ask, request_id, stages)
            self.samples.quality(rows)
            self.evaluations.add(rows)
            self._count("done")
        except _GivenUp as error:
            self._count(str(error))
        except (StageFailed, JudgeFailed):
            self._count("failed")
        except asyncio.CancelledError:
            if this not in self._crowded:
                raise
            self._count("crowded")
        finally:
            self._looking.discard(this)
            self._crowded.discard(this)
            if not self._looking:
                for stage in shared:
                    stage.admission.when_crowded = None

    async def _rows(self, ask: Ask, request_id: bytes, stages: list[Stage]) -> list[Row]:
        """One a stage. Raises `_GivenUp`, `StageFailed` or `JudgeFailed`."""
        scoring = self.router.cascade.scoring
        gate, judge = scoring.gate, scoring.judge
        if (
            gate is None
            or judge is None
            or ask.api == "responses"
            or ask.fields.prompts > 1
            or ask.fields.unwritten
        ):
            raise _GivenUp("unfit")
        estimate = len(stages) * tokens_of(ask.body, ask.fields, ask.api)
        now_s = asyncio.get_running_loop().time()
        if not self.budget.has(estimate, now_s, self.settings.burst_hours if self._bursts() else 0.0):
            raise _GivenUp("budget")
        judges = [self.router.judge] if self.router.judge else []
        prompt_id, asked = self.samples.hashed(request_id), (await asked_of(ask.fields)).question
        rows: list[Row] = []
        for stage in stages:
            if not all(self._has_room(one) for one in (stage, *judges)):
                raise _GivenUp("busy")
            started_s = asyncio.get_running_loop().time()
            reply = await stage.buffered(self._call(ask, stage, gate), read_document)
            seconds = asyncio.get_running_loop().time() - started_s
            written = self._written(reply)
            row: Row = {
                "prompt_id": prompt_id,
                "stage": stage.name,
                "score": await self._score(ask, stage, written, gate, judge, asked),
                "input_tokens": written.usage.input_tokens,
                "output_tokens": written.usage.output_tokens,
                "at_s": time.time(),
                "seconds": seconds,
                "gear": None if ask.gear is None else ask.gear.number,
            }
            if self.samples.settings.text:
                row |= {"question": asked, "answer": answer(written.choices[0])}
            rows.append(row)
        return rows

    def _call(self, ask: Ask, stage: Stage, gate: Gate) -> Call:
        changes: dict[str, Any] = {"stream": False, "n": 1, "stream_options": None, **gate.wants(ask.api)}
        if not (ask.fields.max_tokens or ask.fields.max_completion_tokens):
            changes["max_tokens"] = self.settings.max_tokens
        body = rewritten(ask.body, stage.settings.model, changes, ask.api, ask.fields.all_members)
        deadline_s = asyncio.get_running_loop().time() + stage.limits.total_s
        most = ask.fields.output_limit or self.settings.max_tokens
        tokens = prompt_tokens_of(body)
        return Call(ask.path, body, b"", tokens, ask.prefix, deadline_s, most_output=most)

    def _written(self, reply: Reply[Written]) -> Written:
        """Spends its tokens. An engine that refuses, or does not count, has nothing to put into a table."""
        written = reply.found
        if written is None:
            raise _GivenUp("unfit")
        usage = written.usage
        self.budget.spend(usage.input_tokens + usage.output_tokens)
        self.router.metrics.shadow_tokens.inc(usage.input_tokens + usage.output_tokens)
        if not (usage.input_tokens and usage.output_tokens):
            raise _GivenUp("unfit")
        return written

    async def _score(
        self, ask: Ask, stage: Stage, written: Written, gate: Gate, judge: JudgeSettings, asked: str
    ) -> float:
        """Score as the cascade would give it, had it asked."""
        proven = await self.router.cascade.scoring.proven(ask, stage, written)
        if proven is not None:
            return proven
        choice = written.choices[0]
        deadline_s = asyncio.get_running_loop().time() + judge.timeout_s
        again = partial(self._again, ask, stage, gate)
        token = ASKED.set(GateContext(stage.name, (await asked_of(ask.fields)).said, again))
        try:
            return await judged(gate, asked, choice, judge.timeout_s, deadline_s)
        finally:
            ASKED.reset(token)

    async def _again(
        self, ask: Ask, stage: Stage, gate: Gate, changes: Mapping[str, Any], number: int
    ) -> Choice:
        call = self._call(ask, stage, gate)
        changes = {**changes, **drawn_anew(ask.fields, number)}
        call = structs.replace(call, body=rewritten(call.body, stage.settings.model, changes, ask.api))
        return self._written(await stage.buffered(call, read_document)).choices[0]

    def _has_room(self, stage: Stage) -> bool:
        """Tells whether nobody waits, and after this one there is still room for a client's next."""
        ready = [replica for replica in stage.replicas if replica.state == "ready"]
        room = sum(replica.max_concurrency for replica in ready)
        running = sum(replica.running for replica in ready)
        return not len(stage.wait_queue) and running + 1 < room and running < self.settings.busy * room


class Budget:
    """`per_hour` tokens, at most an hour's saved up; an hour's are there at the start."""

    def __init__(self, per_hour: float) -> None:
        self.per_hour = per_hour
        self._left = float(per_hour)
        self._at_s: float | None = None

    def has(self, tokens: float, now_s: float, ahead_hours: float = 0.0) -> bool:
        """`ahead_hours`: whose tokens may be spent before they are earned."""
        if self._at_s is not None:
            earned = (now_s - self._at_s) * self.per_hour / HOUR_S
            self._left = min(self.per_hour, self._left + earned)
        self._at_s = now_s
        return self._left + ahead_hours * self.per_hour >= tokens

    def spend(self, tokens: float) -> None:
        self._left -= tokens
