"""The cascade: stage after stage, each answer scored, until one is good enough.

Stage i's answer is accepted iff its score >= h_i; the last stage that the request may reach always accepts. A stage
that fails is passed over; where nothing further can be had (failure, overload, deadline) the best earlier answer is
returned and marked. Nothing here writes to a client.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from time import monotonic
from typing import Any

from cascadia.router.cascade.budget import budgeted
from cascadia.router.cascade.decision import Ask, Decision, Held
from cascadia.router.cascade.eligible import route, too_long, unfit
from cascadia.router.cascade.scoring import READERS, Scoring
from cascadia.router.cascade.sessions import Conversations
from cascadia.router.cascade.thinking import left_at, may_leave, thought
from cascadia.router.gates.usage import counted
from cascadia.router.openai.answers import Usage
from cascadia.router.openai.bounded import turn_after
from cascadia.router.openai.errors import ApiError, Overloaded, StageFailed, kept
from cascadia.router.openai.stream_usage import estimated
from cascadia.router.replicas.results import LACKING, Reply
from cascadia.router.replicas.stage import Stage
from cascadia.router.settings.model import ACCEPTS_ALL, ACCEPTS_NONE_ABOVE
from cascadia.router.telemetry.stage_record import Step, begun

_BY_MERIT = frozenset({"accepted", "score", "threshold", "context", "media"})


class Cascade:
    """`stages` from small to large."""

    def __init__(
        self,
        stages: Sequence[Stage],
        scoring: Scoring,
        conversations: Conversations | None = None,
        *,
        in_usd: bool = False,
        refuses: bool = False,
    ) -> None:
        """`in_usd`: the stages' costs are dollars for a million tokens. `refuses`: who would have to wait in the
        lightest gear is turned away."""
        self._refuses = refuses
        self.stages = stages
        self.prices = _prices(stages, in_usd=in_usd)
        """Dollars of a million tokens read, and written, of the stages whose price is known."""
        self.scoring = scoring
        self.conversations = conversations
        self.max_judged_choices = stages[0].limits.max_judged_choices

    def usd(self, steps: Sequence[Step]) -> float | None:
        """Dollars that the engines' tokens of a request cost; None where no price is known. The judge's are not
        counted.
        """
        if len(self.prices) < len(self.stages):
            return None
        return sum(step.usd(*self.prices[step.stage]) for step in steps)

    async def decide(self, ask: Ask) -> Decision:
        """Raises `ApiError` where no stage has an answer."""
        if ask.session is None or self.conversations is None:
            return await self._decided(ask)
        key, now = ask.session.key, asyncio.get_running_loop().time
        known = self.conversations.stage_of(key, now()) if ask.session.known else None
        gear = ask.gear
        # A conversation begins where it was answered last, unless this request's gear does without that
        # stage.
        places = [
            at
            for at, stage in enumerate(self.stages)
            if stage.name == known and (gear is None or known in gear.stages)
        ]
        start = min(ask.last, max([ask.first, *places]))
        decision = await self._decided(replace(ask, first=start))
        # Who answered because others had failed says nothing of how hard the conversation is.
        if decision.stage is not None and all(step.outcome in _BY_MERIT for step in decision.steps):
            self.conversations.answered(key, decision.stage.name, now())
        return decision

    async def _decided(self, ask: Ask) -> Decision:
        ask = replace(ask, other=self.scoring.takes_other())
        decision = Decision(steps=ask.steps)
        best: Held | None = None
        failure: StageFailed | None = None
        way, beyond = await route(ask, self.stages, self.max_judged_choices)
        if self._refuses and way[0].crowded and (ask.gear is None or ask.gear.max_in_flight is None):
            error = way[0].admission.overloaded
            way[0].metrics.escalated(error.kind)
            raise error.api_error()
        largest = way[-1]
        way, bold = self._in_time(ask, way)
        # Whoever answers instead of a larger stage that would be late says so.
        stopped = "deadline" if way[-1] is not largest else None
        await turn_after(ask.body)
        skipped = await self.scoring.skipped(ask, way[:-1])
        for stage in way:
            last = stage is way[-1]
            if best is not None and stage.name not in bold and self._too_late(ask, stage):
                return self._settled(decision, best, "deadline")
            if stage.name in skipped:
                stage.metrics.escalated("predicted")
                continue
            if stage.settings.on_overload == "escalate" and stage.crowded and _some_has_room(way, stage):
                stage.metrics.escalated("busy")
                continue
            stage.metrics.requests.inc()
            step = begun(stage.name)
            step.other = ask.other
            ask.steps.append(step)
            try:
                # Nothing can be taken back from a client: only the stage that always accepts may stream to it.
                if last and ask.fields.stream:
                    held = None
                    await self._live(ask, stage, decision, step)
                else:
                    held = await self._held(ask, stage, decision, last, step)
            except StageFailed as error:
                failure = kept(error)
                step.ended(error.kind)
                stage.metrics.escalated(error.kind)
                waits = stage.settings.on_overload == "wait"
                turned_away = isinstance(error, Overloaded) and stage is way[0] and waits
                if turned_away or error.kind == "exhausted":
                    # Who is turned away at the door must not fall on the larger stages instead; nor what this router
                    # has no room for.
                    break
                if last and best is None and not isinstance(error, Overloaded) and error.kind != "deadline":
                    way += beyond
                    beyond = []
                continue
            if decision.live is not None:
                decision.stopped = stopped
                return decision
            if decision.refused is not None:
                others = not last or beyond or best is not None
                why = await unfit(decision.refused, ask.body) if others else None
                step.ended(why or "refused")
                if why is not None:
                    decision.refused = None
                    stage.metrics.escalated(why)
                    if last:
                        way += beyond
                        beyond = []
                    continue
                return decision
            assert held is not None
            accepted, reason = (True, "") if held.good else self.scoring.accepts(ask, held, last)
            step.ended("accepted" if accepted else reason)
            if accepted:
                stage.metrics.accepted.inc()
                decision.stage, decision.held = stage, held
                decision.stopped = stopped if last else None
                return decision
            stage.metrics.escalated(reason)
            # `>=`: of equal scores the larger stage's answer.
            if best is None or (held.score or 0.0) >= (best.score or 0.0):
                best = held
        if best is not None:
            late = failure is not None and failure.kind == "deadline"
            over = isinstance(failure, Overloaded)
            return self._settled(decision, best, "deadline" if late else "overloaded" if over else "failed")
        raise failure.api_error() if failure else ApiError(503, "no_stage", "No stage can take this request.")

    def _too_late(self, ask: Ask, stage: Stage) -> bool:
        """Tells whether the stage's answer is likely to pass the deadline."""
        return ask.deadline_s - monotonic() < stage.admission.finish_s(ask.fields.output_limit)

    def _in_time(self, ask: Ask, way: list[Stage]) -> tuple[list[Stage], set[str]]:
        """Stages of `way` that are likely to be in time (RAMSIS, section 4.3.1); where none is, the fastest. Beside
        them the names of those that are likely to be late.

        Raises `ApiError` where none is and who is late is refused.
        """
        left_s, most = ask.deadline_s - monotonic(), ask.fields.output_limit
        late = {stage.name for stage in way if stage.admission.finish_s(most) > left_s}
        if not late:
            return way, late
        found = [stage for stage in way if stage.name not in late or stage.admission.looks(left_s)]
        if not found and self._refuses:
            raise StageFailed(way[0].name, "deadline").api_error()
        if not found:
            found = [min(way, key=lambda stage: stage.admission.finish_s(most))]
        for stage in way:
            if stage not in found:
                stage.metrics.escalated("deadline")
        return found, late

    async def _live(self, ask: Ask, stage: Stage, decision: Decision, step: Step) -> None:
        """The stage's stream, or its refusal, for `decision`."""
        live = await stage.opened(self.scoring.call(ask, stage, step, gated=False))
        decision.stage = stage
        if live.reply is not None:
            live.close(True)
            decision.refused = _of_the_client(stage, live.reply)
            return
        step.first_at_s = monotonic()
        stage.metrics.ttft.observe(step.first_at_s - step.started_at_s)
        stage.metrics.accepted.inc()
        step.ended("accepted")
        decision.live = live

    async def _held(self, ask: Ask, stage: Stage, decision: Decision, last: bool, step: Step) -> Held | None:
        """The stage's answer with its score; None where `decision.refused` was set instead."""
        threshold = self.scoring.threshold(ask, stage)
        # A verdict that cannot change the decision is not asked for: it would cost a judge's time.
        gated = not last and ACCEPTS_ALL < threshold <= ACCEPTS_NONE_ABOVE
        step.threshold = threshold if gated else None
        read = READERS[ask.api == "responses", bool(ask.fields.stream)]
        if may_leave(ask, stage, self.scoring):
            return await self._thought(ask, stage, decision, gated, step)
        asks = gated or bool(ask.fields.stream)
        call = self.scoring.call(ask, stage, step, gated=asks, wanted=gated)
        reply = await stage.buffered(call, read)
        if reply.found is None and gated and not too_long(reply):
            # What is refused may be what the gate wants, of which the client knows nothing.
            bare = self.scoring.call(ask, stage, step, gated=asks, wanted=False)
            reply = await stage.buffered(bare, read) if bare.body != call.body else reply
        step.answered_at_s = monotonic()
        stage.metrics.seconds.observe(step.answered_at_s - step.started_at_s)
        if reply.found is None:
            decision.refused = _of_the_client(stage, reply)
            return None
        # Held until the decision: many long answers that wait for verdicts must not exhaust the router.
        if not ask.holding.take(len(reply.body)):
            raise StageFailed(stage.name, "exhausted")
        written = reply.found
        if ask.explain:
            step.answer = written.choices[0].text if written.choices else ""
        stage.counted(written.usage, step)
        took = written.usage
        if not took.output_tokens:
            told = estimated(call.body, sum(choice.length for choice in written.choices))
            stage.learn(step, told.output_tokens)
            took = took if any(took) else told
        decision.total = decision.total.plus(took)
        step.used(*took)
        if reply.first_at_s is not None:
            step.first_at_s = reply.first_at_s
            stage.metrics.ttft.observe(reply.first_at_s - step.started_at_s)
            if len(written.choices) == 1 and step.tpot_s is not None:
                stage.metrics.tpot.observe(step.tpot_s)
        if gated:
            await turn_after(reply.body)
            with counted() as spent:
                step.score = await self.scoring.score(ask, stage, written, step)
            for usage in spent:
                decision.total = decision.total.plus(usage)
        alternatives = self.scoring.alternatives(ask, gated=gated)
        return Held(stage, reply.body, written, step.score, alternatives=alternatives)

    async def _thought(
        self, ask: Ask, stage: Stage, decision: Decision, gated: bool, step: Step
    ) -> Held | None:
        """The answer of a stage that may leave at one of its exits, with its score; None where `refused` was set."""
        with counted() as spent:
            try:
                if stage.settings.budget_field is None:
                    found = await thought(ask, stage, step, self.scoring, gated=gated)
                else:
                    found = await budgeted(ask, stage, step, self.scoring)
            except StageFailed:
                decision.total = decision.total.plus(Usage(step.input_tokens, step.output_tokens))
                raise
            step.answered_at_s = monotonic()
            if found.exit_tokens is None and found.score is None and found.body and gated:
                found.score = await self.scoring.score(ask, stage, found.written, step)
        stage.metrics.seconds.observe(step.answered_at_s - step.started_at_s)
        for usage in (found.spent, *spent):
            decision.total = decision.total.plus(usage)
        if not found.body:
            decision.refused = _of_the_client(stage, found.reply)
            return None
        if not ask.holding.take(len(found.body)):
            raise StageFailed(stage.name, "exhausted")
        stage.metrics.left(left_at(stage, found))
        step.used(*found.spent)
        step.score = found.score
        step.threshold = found.threshold if found.good else step.threshold
        alternatives = self.scoring.alternatives(ask, gated=True)
        return Held(
            stage,
            found.body,
            found.written,
            found.score,
            exit_tokens=found.exit_tokens,
            good=found.good,
            alternatives=alternatives,
        )

    def _settled(self, decision: Decision, best: Held, why: str) -> Decision:
        best.stage.metrics.accepted.inc()
        decision.stage, decision.held, decision.stopped = best.stage, best, why
        return decision


def _some_has_room(way: Sequence[Stage], stage: Stage) -> bool:
    """Tells whether one of the larger stages on the way could answer at once."""
    return any(not larger.crowded for larger in way[way.index(stage) + 1 :])


def _of_the_client(stage: Stage, refused: Reply[Any]) -> Reply[Any]:
    """Raises `StageFailed` where the stage's engines lack the API that is asked for: another stage's may have it."""
    if refused.status in LACKING:
        raise StageFailed(stage.name, "elsewhere")
    return refused


def _prices(stages: Sequence[Stage], *, in_usd: bool) -> dict[str, tuple[float, float]]:
    found = {}
    for stage in stages:
        told = stage.settings
        # One figure for what is read and written, where no API charges for each.
        cost = (told.cost, told.cost) if in_usd and told.cost is not None else None
        if (price := told.price or cost) is not None:
            found[stage.name] = price
    return found
