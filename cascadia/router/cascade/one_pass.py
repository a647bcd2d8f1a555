"""The cascade of models that answer in one pass: no judge, since each says itself how sure it is.

An input goes on to the next stage where the margin of its two greatest probabilities is below the stage's threshold
(CascadeServe, section 3 and app. B), so of a list each input ends where its own answer is certain. A ranking goes on
as a whole, by the margin at its cut: between the last result that is returned and the first that is not. Where a stage
has an `earlier_weight`, its answer is pooled with what the stages before it said, and the margin is the pool's.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from secrets import token_hex
from time import monotonic
from types import MappingProxyType
from typing import Any

from msgspec import Raw

from cascadia.router.cascade.decision import Ask
from cascadia.router.cascade.eligible import route, too_long
from cascadia.router.cascade.gathered import Gathered
from cascadia.router.cascade.scoring import Scoring
from cascadia.router.openai.answers import Usage
from cascadia.router.openai.bounded import MOST_VALUES, turn_after
from cascadia.router.openai.errors import ApiError, Overloaded, StageFailed, kept
from cascadia.router.openai.one_pass import (
    Classified,
    Part,
    Ranked,
    answer_of,
    classified_in,
    first_of,
    inputs_of,
    listed,
    margin_at,
    parts_of,
    put_together,
    ranked_in,
    refused_at,
)
from cascadia.router.openai.pooled import pooled
from cascadia.router.openai.requests import rewritten
from cascadia.router.openai.stream_usage import estimated
from cascadia.router.replicas.batch_queue import Said
from cascadia.router.replicas.batcher import Batcher, Lane
from cascadia.router.replicas.replica import Call
from cascadia.router.replicas.results import Reply
from cascadia.router.replicas.stage import JSON_TYPE, Stage
from cascadia.router.telemetry.stage_record import Step, begun
from cascadia.router.upstream.errors import UpstreamError


@dataclass(slots=True)
class OnePassDecision:
    """`answer` is the client's, by `stage`, the last that said a part of it; `refused` an engine's 4xx instead. `score`
    is the least margin of what was accepted."""

    steps: list[Step]
    answer: Callable[[Mapping[str, Any]], bytes] | None = None
    stage: Stage | None = None
    score: float | None = None
    refused: Reply[Any] | None = None
    stopped: str | None = None
    total: Usage = field(default_factory=Usage)

    @property
    def attempts(self) -> int:
        return len(self.steps)


@dataclass(slots=True)
class _Settled:
    """An input's best answer so far, and whose."""

    part: Part
    stage: Stage
    accepted: bool


class OnePassCascade:
    """`stages` from small to large, all of one task; `scoring` knows their thresholds."""

    def __init__(
        self,
        stages: Sequence[Stage],
        scoring: Scoring,
        lanes: Mapping[str, tuple[Batcher, Lane]] = MappingProxyType({}),
    ) -> None:
        """`lanes` of the stages that are sent batches, by name."""
        self.stages = stages
        self.scoring = scoring
        self.lanes = lanes

    async def decide(self, ask: Ask) -> OnePassDecision:
        """Raises `ApiError` where no stage has an answer."""
        ask = replace(ask, other=self.scoring.takes_other())
        decision = await (self._classified(ask) if ask.api == "classify" else self._ranked(ask))
        if decision.stopped is not None and decision.stage is not None:
            # Nobody accepted it, and the client gets it all the same.
            decision.stage.metrics.accepted.inc()
        return decision

    async def _classified(self, ask: Ask) -> OnePassDecision:
        items = inputs_of(ask.fields)
        await turn_after(ask.body)
        found: list[_Settled | None] = [None] * max(1, len(items))
        told: list[Part | None] = [None] * len(found)
        envelope: list[Classified] = []
        read = Usage()

        async def asked(stage: Stage, step: Step, last: bool) -> bool:
            nonlocal read
            pending = [at for at, one in enumerate(found) if one is None or not one.accepted]
            reply = await self._classify(ask, stage, step, [items[at] for at in pending] if items else [])
            if reply.found is None:
                several = len(items) > 1
                decision.refused = replace(reply, body=refused_at(reply.body, pending)) if several else reply
                return True
            if not envelope:
                # Each input was read once by the first stage: that is what the request itself is long.
                read = reply.found.usage
            envelope[:] = [reply.found]
            decision.total = decision.total.plus(Usage(step.input_tokens, step.output_tokens))
            weight, looked_at = stage.settings.earlier_weight, 0
            for at, own in zip(pending, reply.found.parts, strict=True):
                last_told = told[at]
                part = own if last_told is None or not weight else pooled(own, last_told, weight)
                told[at] = part
                looked_at += len(own.probs)
                if looked_at > MOST_VALUES:
                    # A thousand inputs of a hundred classes: others have their turn of the event loop.
                    looked_at = 0
                    await asyncio.sleep(0)
                accepted = self._accepts(ask, stage, step, part.margin, last)
                before = found[at]
                if accepted or before is None or part.margin >= before.part.margin:
                    found[at] = _Settled(part, stage, accepted)
            return all(one is not None and one.accepted for one in found)

        decision = OnePassDecision(ask.steps)
        failure = await self._through(ask, decision, asked)
        settled = [one for one in found if one is not None]
        if decision.refused is not None:
            return decision
        if not settled:
            raise failure.api_error() if failure else _NO_STAGE
        decision.stage = max((one.stage for one in settled), key=self.stages.index)
        decision.score = min(one.part.margin for one in settled)
        by = [one.stage.name for one in settled]

        def answer(note: Mapping[str, Any]) -> bytes:
            more = {"stages": by} if len(by) > 1 else {}
            parts = [one.part.raw for one in settled]
            return put_together(envelope[0].body, parts, read, {**note, **more})

        decision.answer = answer
        return decision

    async def _ranked(self, ask: Ask) -> OnePassDecision:
        """Gated stages are asked for one result more than the client wants: the first that it would not get."""
        # As in vLLM: none, 0 and less are all.
        wanted = max(ask.fields.top_n or 0, 0) or None
        cut = wanted or 1
        best: list[tuple[Ranked, Stage, float]] = []

        async def asked(stage: Stage, step: Step, last: bool) -> bool:
            changes = {"top_n": cut + 1} if wanted and not last else {}
            reply = await self._rank(ask, stage, step, changes)
            if reply.found is None:
                decision.refused = reply
                return True
            decision.total = decision.total.plus(Usage(step.input_tokens, step.output_tokens))
            margin = margin_at(reply.found.scores, cut)
            accepted = self._accepts(ask, stage, step, margin, last)
            if accepted or not best or margin >= best[0][2]:
                best[:] = [(reply.found, stage, margin)]
            return accepted

        decision = OnePassDecision(ask.steps)
        failure = await self._through(ask, decision, asked)
        if decision.refused is not None:
            return decision
        if not best:
            raise failure.api_error() if failure else _NO_STAGE
        ranked, decision.stage, decision.score = best[0]
        decision.answer = lambda note: first_of(ranked, wanted, note)
        return decision

    async def _through(
        self,
        ask: Ask,
        decision: OnePassDecision,
        asked: Callable[[Stage, Step, bool], Awaitable[bool]],
    ) -> StageFailed | None:
        """Asks one stage after another until `asked` says that all is decided; the last failure, where it was not."""
        way, beyond = await route(ask, self.stages, 1)
        await turn_after(ask.body)
        failure: StageFailed | None = None
        answered = False
        way = [*way, *beyond]
        for at, stage in enumerate(way):
            last = stage is way[-1]
            if answered and stage.admission.late(ask.deadline_s - monotonic(), None):
                decision.stopped = "deadline"
                return failure
            stage.metrics.requests.inc()
            step = begun(stage.name)
            step.other = ask.other
            ask.steps.append(step)
            try:
                done = await asked(stage, step, last)
            except StageFailed as error:
                failure = kept(error)
                step.ended(error.kind)
                if error.said is not None:
                    step.said = error.said.log
                stage.metrics.escalated(error.kind)
                # Turned away at the door: it must not fall on the larger stages instead.
                if isinstance(error, Overloaded) and at == 0:
                    return failure
                continue
            stage.metrics.seconds.observe(monotonic() - step.started_at_s)
            if decision.refused is not None:
                if (last and not answered) or not too_long(decision.refused):
                    step.ended("refused")
                    return None
                # As of chats: a larger model may read it, and what a smaller one said is an answer.
                decision.refused = None
                step.ended("context")
                stage.metrics.escalated("context")
                continue
            answered = True
            step.ended("accepted" if done else "score")
            if done:
                stage.metrics.accepted.inc()
                return None
            stage.metrics.escalated("score")
        decision.stopped = "failed" if answered else None
        return failure

    def _accepts(self, ask: Ask, stage: Stage, step: Step, margin: float, last: bool) -> bool:
        stage.metrics.score.observe(margin)
        threshold = self.scoring.threshold(ask, stage)
        if not last:
            step.threshold = threshold
        step.score = margin if step.score is None else min(step.score, margin)
        return last or margin >= threshold

    async def _classify(
        self, ask: Ask, stage: Stage, step: Step, items: Sequence[bytes]
    ) -> Reply[Classified]:
        if items and stage.name in self.lanes:
            return await self._batched(ask, stage, step, list(items))
        changes = {"input": listed(items) if len(items) > 1 else Raw(items[0])} if items else {}
        count = max(1, len(items))

        async def read(content_type: bytes, body: bytes) -> Classified:
            return await classified_in(content_type, body, count)

        call = self._call(ask, stage, step, changes)
        reply = await stage.buffered(call, read)
        if reply.found is not None:
            self._note(stage, step, reply.found.usage, call.body)
            stage.metrics.left(reply.found.exits)
        return reply

    async def _rank(self, ask: Ask, stage: Stage, step: Step, changes: Mapping[str, Any]) -> Reply[Ranked]:
        call = self._call(ask, stage, step, changes)
        if stage.name in self.lanes:
            said = await self._said(ask, stage, step, [call.body])
            if isinstance(said, Reply):
                return Reply(said.status, said.content_type, said.body)
            # The batcher has read it once, and counted it for the stage.
            found = ranked_in(JSON_TYPE, said[0].raw)
            _used(step, found.usage, call.body)
            return Reply(200, JSON_TYPE, found.body, found)
        reply = await stage.buffered(call, _ranked)
        if reply.found is not None:
            self._note(stage, step, reply.found.usage, call.body)
        return reply

    async def _said(
        self, ask: Ask, stage: Stage, step: Step, items: list[bytes]
    ) -> "list[Said] | Reply[None]":
        """Verdicts of engines on `items`, in batches of the stage's lane."""
        batcher, lane = self.lanes[stage.name]
        gathered = Gathered(batcher, lane)
        try:
            said = await gathered.all_said(items, ask.deadline_s, ask.fields.truncate)
        finally:
            step.input_tokens = sum(one.tokens for one in gathered.read)
            asked = gathered.batch or (gathered.read[-1] if gathered.read else None)
            if asked is not None:
                step.replica, step.tries = asked.replica, 1
        if not isinstance(said, Reply):
            step.answered_at_s = monotonic()
        return said

    async def _batched(self, ask: Ask, stage: Stage, step: Step, items: list[bytes]) -> Reply[Classified]:
        said = await self._said(ask, stage, step, items)
        if isinstance(said, Reply):
            return Reply(said.status, said.content_type, said.body)
        usage = Usage(sum(one.tokens for one in said), 0)
        try:
            parts = await parts_of(one.raw for one in said)
        except UpstreamError as error:
            raise StageFailed(stage.name, error.kind) from None
        # The batcher has counted for the stage what the batch took.
        _used(step, usage, b",".join(items))
        body = answer_of(token_hex(16).encode(), stage.settings.model, [], 0)
        return Reply(200, JSON_TYPE, body, Classified(parts, usage, body))

    def _note(self, stage: Stage, step: Step, usage: Usage, request: bytes) -> None:
        stage.counted(usage)
        _used(step, usage, request)
        step.answered_at_s = monotonic()

    def _call(self, ask: Ask, stage: Stage, step: Step, changes: Mapping[str, Any]) -> Call:
        body = rewritten(
            ask.body,
            stage.settings.model,
            {**stage.told(ask.priority, ask.fields, ask.api, ask.tokens), **changes},
            ask.api,
            ask.fields.all_members,
        )
        return Call(
            ask.path,
            body,
            ask.headers if ask.trace is None else ask.trace.forwarded(step),
            tokens=ask.tokens,
            prefix=None,
            deadline_s=ask.deadline_s,
            priority=ask.priority,
            step=step,
            most_output=0,
        )


def _used(step: Step, usage: Usage, request: bytes) -> None:
    """Notes what the turn took: by the length of the `request` where its engine does not tell."""
    step.used(*(usage if any(usage) else estimated(request, 0)))


async def _ranked(content_type: bytes, body: bytes) -> Ranked:
    return ranked_in(content_type, body)


_NO_STAGE = ApiError(503, "no_stage", "No stage can take this request.")
