"""Which stage's answer a request gets: stage after stage, each answer scored, until one is good enough.

Stage i's answer is accepted iff its score >= h_i; the last stage that the request may reach always accepts. A stage
that fails is passed over; where nothing further can be had (failure, overload, deadline) the best earlier answer is
returned and marked. Nothing here writes to a client.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Any

from msgspec import structs

from cascadia.router.answers import Choice, Usage, Written, read_document, read_events
from cascadia.router.conversations import Conversations, Session
from cascadia.router.failures import ApiError, Overloaded, StageFailed
from cascadia.router.gate_context import ASKED, Asked
from cascadia.router.gate_embedding import EmbeddingGate
from cascadia.router.gates import Gate, JudgeFailed, judged, within
from cascadia.router.metrics import Metrics
from cascadia.router.questions import last_said, question
from cascadia.router.replica import Call
from cascadia.router.requests import Api, Fields, rewritten
from cascadia.router.responses import read_response, read_response_events
from cascadia.router.rules import refusal
from cascadia.router.settings import ACCEPTS_ALL, ACCEPTS_NONE_ABOVE, JudgeSettings
from cascadia.router.spent import counted, spend
from cascadia.router.stage import Stage
from cascadia.router.stage_answers import MISSING, Live, Reply
from cascadia.router.steps import Step, begun
from cascadia.router.tracing_ids import FORWARDED, Trace

FEWEST_BYTES_PER_TOKEN = 6
"""A prompt of this few tokens is not to be had from ordinary text: what is too long even so is not tried."""
_NOT_TEXT = (b'"image_url"', b'"input_audio"', b'"video_url"', b'"file"')
_TOO_LONG = (b"context_length", b"context length", b"context size", b"exceed_context", b"max_model_len")


NOTHING = Usage()
_READERS = {
    (False, False): read_document,
    (False, True): read_events,
    (True, False): read_response,
    (True, True): read_response_events,
}
"""By whether it is a response, and a stream."""
_BY_MERIT = frozenset({"accepted", "score", "threshold", "context"})


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to the cascade. `first` and `last` bound the stages it may reach; `deadline_s` in the loop's time."""

    api: Api
    path: bytes
    body: bytes
    fields: Fields
    headers: bytes
    tokens: int
    prefix: int | None
    deadline_s: float
    first: int
    last: int
    quality_min: float = 0.0
    priority: int = 0
    session: Session | None = None
    steps: list[Step] = field(default_factory=list)
    """Filled as it goes."""
    trace: Trace | None = None
    """None: no spans are wanted."""


@dataclass(frozen=True, slots=True)
class Held:
    """An answer that no client has seen yet. `score` is None where nobody scored it."""

    stage: Stage
    body: bytes
    written: Written
    score: float | None


@dataclass(slots=True)
class Decision:
    """One of `held` (an accepted answer), `live` (a stream under way) and `refused` (the client's own mistake)."""

    stage: Stage | None = None
    held: Held | None = None
    live: Live | None = None
    refused: Reply[Any] | None = None
    stopped: str | None = None
    """Why a better answer was not sought: `deadline`, `overloaded`, `failed`."""
    total: Usage = NOTHING
    steps: list[Step] = field(default_factory=list)

    @property
    def attempts(self) -> int:
        return len(self.steps)


class Cascade:
    """`stages` from small to large; `gate` None only where no threshold asks for a score."""

    def __init__(
        self,
        stages: Sequence[Stage],
        gate: Gate | None,
        judge: JudgeSettings | None,
        metrics: Metrics,
        conversations: Conversations | None = None,
        foresight: EmbeddingGate | None = None,
    ) -> None:
        self.stages = stages
        self.gate = gate
        self.judge = judge
        self.conversations = conversations
        self.foresight = foresight
        self.judge_seconds = metrics.judge_seconds
        self.max_judged_choices = stages[0].limits.max_judged_choices

    async def decide(self, ask: Ask) -> Decision:
        """Raises `ApiError` where no stage has an answer."""
        if ask.session is None or self.conversations is None:
            return await self._decided(ask)
        key, now = ask.session.key, asyncio.get_running_loop().time
        known = self.conversations.stage_of(key, now()) if ask.session.known else None
        places = [i for i, stage in enumerate(self.stages) if stage.name == known]
        start = min(ask.last, max([ask.first, *places]))
        decision = await self._decided(replace(ask, first=start))
        # Who answered because others had failed says nothing of how hard the conversation is.
        if decision.stage is not None and all(step.outcome in _BY_MERIT for step in decision.steps):
            self.conversations.answered(key, decision.stage.name, now())
        return decision

    async def _decided(self, ask: Ask) -> Decision:
        decision = Decision(steps=ask.steps)
        best: Held | None = None
        failure: StageFailed | None = None
        route = self._route(ask)
        for stage in route:
            last = stage is route[-1]
            if best is not None and self._too_late(ask, stage):
                return self._settled(decision, best, "deadline")
            if not last and stage.settings.skip_below is not None and await self._skips(ask, stage):
                stage.metrics.escalated("predicted")
                continue
            stage.metrics.requests.inc()
            step = begun(stage.name)
            ask.steps.append(step)
            try:
                if last and ask.fields.stream:
                    return await self._live(ask, stage, decision, step)
                held = await self._held(ask, stage, decision, last, step)
            except StageFailed as error:
                failure = error
                step.ended(error.kind)
                stage.metrics.escalated(error.kind)
                if isinstance(error, Overloaded) and stage is route[0]:
                    # Who is turned away at the door must not fall on the larger stages instead.
                    break
                continue
            if decision.refused is not None:
                outcome = "refused"
                if not last and _too_long(decision.refused):
                    decision.refused, outcome = None, "context"
                    stage.metrics.escalated("context")
                step.ended(outcome)
                if outcome == "context":
                    continue
                return decision
            assert held is not None
            accepted, reason = self._accepts(ask, held, last)
            step.ended("accepted" if accepted else reason)
            if accepted:
                stage.metrics.accepted.inc()
                decision.stage, decision.held = stage, held
                return decision
            stage.metrics.escalated(reason)
            if best is None or (held.score or 0.0) >= (best.score or 0.0):
                best = held
        if best is not None:
            late = failure is not None and failure.kind == "deadline"
            over = isinstance(failure, Overloaded)
            return self._settled(decision, best, "deadline" if late else "overloaded" if over else "failed")
        raise failure.api_error() if failure else ApiError(503, "no_stage", "No stage can take this request.")

    def _route(self, ask: Ask) -> list[Stage]:
        stages = list(self.stages[ask.first : ask.last + 1])
        if (ask.fields.n or 1) > self.max_judged_choices:
            return stages[-1:]
        if any(mark in ask.body for mark in _NOT_TEXT):
            return stages
        wanted = ask.fields.output_limit or 1
        fewest = len(ask.body) // FEWEST_BYTES_PER_TOKEN + wanted
        route = []
        for stage in stages[:-1]:
            if fewest <= (stage.settings.max_model_len or fewest):
                route.append(stage)
            else:
                stage.metrics.escalated("context")
        return route + stages[-1:]

    def _too_late(self, ask: Ask, stage: Stage) -> bool:
        """Whether the deadline leaves less than this stage's answers took of late."""
        return ask.deadline_s - monotonic() < stage.typical_s

    async def _skips(self, ask: Ask, stage: Stage) -> bool:
        """Whether by the question alone this stage's answer is likely to be of no use. Not known is no."""
        foresight, judge, least = self.foresight, self.judge, stage.settings.skip_below
        if foresight is None or judge is None or least is None:
            return False
        token = ASKED.set(Asked(stage.name, last_said(ask.fields)))
        try:
            expected = partial(foresight.expected, question(ask.fields))
            return await within(expected, judge.timeout_s, ask.deadline_s) < least
        except JudgeFailed as error:
            stage.metrics.judge_failed(error.kind)
            return False
        finally:
            ASKED.reset(token)

    async def _again(self, ask: Ask, stage: Stage, changes: Mapping[str, Any]) -> Choice:
        """One more answer of `stage` to the same request, but for `changes`. Raises `JudgeFailed`."""
        call = self._call(ask, stage, None, gated=bool(ask.fields.stream))
        call = structs.replace(call, body=rewritten(call.body, stage.settings.model, changes))
        try:
            reply = await stage.buffered(call, _READERS[ask.api == "responses", bool(ask.fields.stream)])
        except StageFailed as error:
            raise JudgeFailed(error.kind) from None
        if reply.found is None:
            raise JudgeFailed(f"status-{reply.status}")
        spend(reply.found.usage)
        stage.metrics.input_tokens.inc(reply.found.usage.input_tokens)
        stage.metrics.output_tokens.inc(reply.found.usage.output_tokens)
        return reply.found.choices[0]

    def _call(self, ask: Ask, stage: Stage, step: Step | None, *, gated: bool) -> Call:
        """`step` None: on behalf of the judge."""
        changes = stage.told(ask.priority)
        # A response's log-probabilities are asked for in words of its own, which few engines know.
        if gated and self.gate is not None and ask.api != "responses":
            wants = self.gate.wants(ask.api)
            # What the client asked for itself stays, where it is enough for the gate.
            changes |= wants if not ask.fields.given("logprobs") else {}
            if "top_logprobs" in wants and ask.fields.given("logprobs") == b"true":
                changes["top_logprobs"] = max(int(wants["top_logprobs"]), ask.fields.top_logprobs or 0)
        if gated and ask.fields.stream and ask.api != "responses":
            changes["stream_options"] = {"include_usage": True}
        body = rewritten(ask.body, stage.settings.model, changes)
        headers = ask.headers if ask.trace is None else ask.trace.forwarded(step) if step else FORWARDED.get()
        return Call(ask.path, body, headers, ask.tokens, ask.prefix, ask.deadline_s, ask.priority, step)

    async def _live(self, ask: Ask, stage: Stage, decision: Decision, step: Step) -> Decision:
        live = await stage.opened(self._call(ask, stage, step, gated=False))
        decision.stage = stage
        if live.reply is not None:
            live.close(True)
            decision.refused = _of_the_client(stage, live.reply)
            step.ended("refused")
            return decision
        step.first_at_s = monotonic()
        stage.metrics.ttft.observe(step.first_at_s - step.started_at_s)
        stage.metrics.accepted.inc()
        step.ended("accepted")
        decision.live = live
        return decision

    async def _held(self, ask: Ask, stage: Stage, decision: Decision, last: bool, step: Step) -> Held | None:
        """The stage's answer with its score; None where `decision.refused` was set instead."""
        threshold = self._threshold(ask, stage)
        gated = not last and ACCEPTS_ALL < threshold <= ACCEPTS_NONE_ABOVE
        read = _READERS[ask.api == "responses", bool(ask.fields.stream)]
        call = self._call(ask, stage, step, gated=gated or bool(ask.fields.stream))
        reply = await stage.buffered(call, read)
        step.answered_at_s = monotonic()
        stage.metrics.seconds.observe(step.answered_at_s - step.started_at_s)
        if reply.found is None:
            decision.refused = _of_the_client(stage, reply)
            return None
        written = reply.found
        decision.total = decision.total.plus(written.usage)
        stage.metrics.input_tokens.inc(written.usage.input_tokens)
        stage.metrics.output_tokens.inc(written.usage.output_tokens)
        step.used(*written.usage)
        if reply.first_at_s is not None:
            step.first_at_s = reply.first_at_s
            stage.metrics.ttft.observe(reply.first_at_s - step.started_at_s)
            if len(written.choices) == 1 and step.tpot_s is not None:
                stage.metrics.tpot.observe(step.tpot_s)
        if gated:
            with counted() as spent:
                step.score = await self._score(ask, stage, written, step)
            for usage in spent:
                decision.total = decision.total.plus(usage)
        return Held(stage, reply.body, written, step.score)

    async def _score(self, ask: Ask, stage: Stage, written: Written, step: Step) -> float | None:
        """The lowest of the choices' scores, since the client gets them all; None where there is no verdict."""
        if any(refusal(ask.fields, choice) for choice in written.choices):
            stage.metrics.score.observe(0.0)
            return 0.0
        proven = by_verifiers(stage, written)
        if proven is not None:
            stage.metrics.score.observe(proven)
            return proven
        assert self.gate is not None and self.judge is not None  # noqa: PT018 (no test)
        step.judged_at_s = monotonic()
        asked = question(ask.fields)
        if ask.trace is not None:
            FORWARDED.set(ask.trace.forwarded(step, judge=True))
        context = Asked(stage.name, last_said(ask.fields), partial(self._again, ask, stage))
        token = ASKED.set(context)
        try:
            timeout_s, deadline_s = self.judge.timeout_s, ask.deadline_s
            verdicts = [judged(self.gate, asked, c, timeout_s, deadline_s) for c in written.choices]
            scores = [await verdicts[0]] if len(verdicts) == 1 else await asyncio.gather(*verdicts)
        except JudgeFailed as error:
            stage.metrics.judge_failed(error.kind)
            step.judge_failure = error.kind
            return None
        finally:
            step.judge_s = monotonic() - step.judged_at_s
            self.judge_seconds.observe(step.judge_s)
            ASKED.reset(token)
        score = min(scores)
        stage.metrics.score.observe(score)
        return score

    def _threshold(self, ask: Ask, stage: Stage) -> float:
        return max(stage.settings.threshold, ask.quality_min)

    def _accepts(self, ask: Ask, held: Held, last: bool) -> tuple[bool, str]:
        threshold = self._threshold(ask, held.stage)
        if last or threshold <= ACCEPTS_ALL:
            return True, ""
        if held.score is not None:
            return held.score >= threshold, "score"
        if threshold > ACCEPTS_NONE_ABOVE:
            return False, "threshold"
        return self.judge is not None and self.judge.on_failure == "accept", "judge"

    def _settled(self, decision: Decision, best: Held, why: str) -> Decision:
        best.stage.metrics.accepted.inc()
        decision.stage, decision.held, decision.stopped = best.stage, best, why
        return decision


def by_verifiers(stage: Stage, written: Written) -> float | None:
    """The score where the stage's verifiers decide alone; None where the judge does."""
    if not stage.settings.verifiers:
        return None
    passed = all(v.passes(choice.text) for v in stage.settings.verifiers for choice in written.choices)
    if passed and stage.settings.verified != "accept":
        return None
    return ACCEPTS_NONE_ABOVE if passed else 0.0


def _of_the_client(stage: Stage, refused: Reply[Any]) -> Reply[Any]:
    """Raises `StageFailed` where the stage's engines lack the API that is asked for: another stage's may have it."""
    if refused.status in MISSING:
        raise StageFailed(stage.name, "elsewhere")
    return refused


def _too_long(refused: Reply[Any]) -> bool:
    return refused.status in (400, 413, 422) and any(mark in refused.body.lower() for mark in _TOO_LONG)
