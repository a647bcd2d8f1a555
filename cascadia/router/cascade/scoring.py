"""Scoring of a stage's answer, and whether it is good enough: gate, thresholds, verifiers, and skips by
foresight.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count
from time import monotonic
from typing import Any

from msgspec import structs

from cascadia.dispatch.turns import takes_other
from cascadia.domain.plan import ASKS_NONE
from cascadia.domain.points import Exit
from cascadia.router.cascade.decision import Ask, Held
from cascadia.router.cascade.eligible import gear_threshold
from cascadia.router.examiner.examiner import Examiner
from cascadia.router.gates.base import Gate, JudgeFailed, judged, within
from cascadia.router.gates.context import ASKED, GateContext
from cascadia.router.gates.embedding import EmbeddingGate
from cascadia.router.gates.probe import SKIP_BELOW
from cascadia.router.gates.rules import refusal
from cascadia.router.gates.usage import spend
from cascadia.router.openai.answers import Choice, Written, read_document, read_events
from cascadia.router.openai.bounded import turn_after
from cascadia.router.openai.errors import StageFailed
from cascadia.router.openai.logprobs import ALL, alternatives_of, beside
from cascadia.router.openai.questions import asked_of, questions_of
from cascadia.router.openai.requests import drawn_anew, most_written, rewritten
from cascadia.router.openai.responses import read_response, read_response_events
from cascadia.router.replicas.replica import Call
from cascadia.router.replicas.stage import Stage
from cascadia.router.settings.model import ACCEPTS_ALL, ACCEPTS_NONE_ABOVE, JudgeSettings, MixtureSettings
from cascadia.router.telemetry.counters import Spread
from cascadia.router.telemetry.stage_record import Step, begun
from cascadia.router.telemetry.trace_context import FORWARDED

READERS = {
    (False, False): read_document,
    (False, True): read_events,
    (True, False): read_response,
    (True, True): read_response_events,
}
"""By whether it is a response, and a stream."""


class Scoring:
    """`gate` None only where no threshold asks for a score. `seconds`: of verdicts."""

    def __init__(
        self,
        gate: Gate | None,
        judge: JudgeSettings | None,
        seconds: Spread,
        *,
        examiner: Examiner,
        foresight: EmbeddingGate | None = None,
        foresight_told: JudgeSettings | None = None,
        mixture: MixtureSettings | None = None,
    ) -> None:
        self.examiner = examiner
        self.gate = gate
        self.judge = judge
        self.seconds = seconds
        self.foresight = foresight
        self.foresight_told = foresight_told or judge
        self._mixture = mixture
        self._turns = count()

    def takes_other(self) -> bool:
        """Tells whether the next request goes by the mixture's thresholds: requests are counted as they come."""
        return self._mixture is not None and takes_other(next(self._turns), self._mixture.share)

    def threshold(self, ask: Ask, stage: Stage) -> float:
        own = stage.settings.threshold
        if ask.gear is not None:
            own = gear_threshold(ask.gear, stage)
        elif ask.other and self._mixture is not None:
            own = self._mixture.thresholds.get(stage.name, own)
        return max(own, ask.score_min)

    def _skip_below(self, ask: Ask, stage: Stage) -> float | None:
        if ask.gear is not None and stage.name in ask.gear.skip_below:
            return ask.gear.skip_below[stage.name] or None
        if ask.other and self._mixture is not None:
            return self._mixture.skip_below.get(stage.name) or None
        return stage.settings.skip_below

    def accepts(self, ask: Ask, held: Held, last: bool) -> tuple[bool, str]:
        threshold = self.threshold(ask, held.stage)
        if last or threshold <= ACCEPTS_ALL:
            return True, ""
        if held.score is not None:
            return held.score >= threshold, "score"
        if threshold > ACCEPTS_NONE_ABOVE:
            return False, "threshold"
        return self.judge is not None and self.judge.on_failure == "accept", "judge"

    async def skipped(self, ask: Ask, stages: Sequence[Stage]) -> frozenset[str]:
        """Stages whose answer, by the question alone, is likely to be of no use (all are asked at once), and
        those that this request's routing does without.
        """
        least = {stage.name: self._skip_below(ask, stage) for stage in stages}
        never = frozenset(name for name, told in least.items() if told is not None and told >= ASKS_NONE)
        asked = [stage for stage in stages if least[stage.name] is not None and stage.name not in never]
        if not asked or self.foresight is None:
            return never
        # Side by side: the request waits for the slowest alone.
        told = await asyncio.gather(*(self._skips(ask, stage, self.foresight) for stage in asked))
        return never | frozenset(stage.name for stage, skips in zip(asked, told, strict=True) if skips)

    async def _skips(self, ask: Ask, stage: Stage, foresight: EmbeddingGate) -> bool:
        """Tells whether foresight skips the stage; not known is no."""
        least = self._skip_below(ask, stage)
        if least is None:
            return False
        expected = await self._expected(ask, stage, stage.name, foresight)
        return expected is not None and expected < least

    async def foreseen(self, ask: Ask, stage: Stage) -> dict[int, float]:
        """Scores (0-100) by the question alone of the stage's budgets, or of the exits that want one: 100 less what is
        lost, in points of quality, where it thinks no longer. Empty where that is not known.
        """
        if self.foresight is None:
            return {}
        exits = stage.settings.exits
        wanted = {at: Exit(exits[at].thinking_tokens).row(stage.name) for at in stage.settings.asking}
        if not wanted:
            return {}
        told = await asyncio.gather(
            *(self._expected(ask, stage, name, self.foresight) for name in (*wanted.values(), stage.name))
        )
        whole, found = told[-1], dict[int, float]()
        for at, expected in zip(wanted, told[:-1], strict=True):
            if whole is None or expected is None:
                return {}
            found[at] = 100.0 - max(0.0, whole - expected)
        return found

    async def _expected(self, ask: Ask, stage: Stage, name: str, foresight: EmbeddingGate) -> float | None:
        """What the question alone promises of the answer that tables call `name`; None where it is not known."""
        if self.foresight_told is None:
            return None
        asked = await asked_of(ask.fields)
        token = ASKED.set(GateContext(name, asked.said))
        try:
            expected = partial(foresight.expected, asked.question)
            return await within(expected, self.foresight_told.timeout_s, ask.deadline_s)
        except JudgeFailed as error:
            stage.metrics.judge_failed(error.kind)
            return None
        finally:
            ASKED.reset(token)

    async def score(self, ask: Ask, stage: Stage, written: Written, step: Step) -> float | None:
        """The lowest of the choices' scores, since the client gets them all; None where there is no verdict."""
        proven = await self.proven(ask, stage, written)
        await turn_after(ask.body)
        if proven is not None:
            stage.metrics.score.observe(proven)
            return proven
        assert self.gate is not None and self.judge is not None  # noqa: PT018 (no test)
        step.judged_at_s = monotonic()
        asked = await asked_of(ask.fields)
        await turn_after(ask.body)
        if ask.trace is not None:
            FORWARDED.set(ask.trace.forwarded(step, judge=True))
        # Another answer to several prompts would be to the first of them.
        again = partial(self._again, ask, stage, step) if ask.fields.prompts == 1 else None
        context = GateContext(stage.name, asked.said, again)
        token = ASKED.set(context)
        try:
            timeout_s, deadline_s = self.judge.timeout_s, ask.deadline_s
            questions = questions_of(ask.fields, asked, len(written.choices))
            verdicts = [
                judged(self.gate, question, choice, timeout_s, deadline_s)
                for question, choice in zip(questions, written.choices, strict=True)
            ]
            scores = [await verdicts[0]] if len(verdicts) == 1 else await asyncio.gather(*verdicts)
        except JudgeFailed as error:
            stage.metrics.judge_failed(error.kind)
            step.judge_failure = error.kind
            return None
        finally:
            step.judge_s = monotonic() - step.judged_at_s
            self.seconds.observe(step.judge_s)
            ASKED.reset(token)
        score = min(scores)
        stage.metrics.score.observe(score)
        return score

    async def proven(self, ask: Ask, stage: Stage, written: Written) -> float | None:
        """The score where rules and the stage's verifiers decide alone; None where the judge does."""
        for choice in written.choices:
            if await refusal(ask.fields, choice, self.examiner) is not None:
                return 0.0
        texts = [choice.text for choice in written.choices]
        for verifier in stage.settings.verifiers:
            if not await self.examiner.passes(verifier, texts):
                return 0.0
        accepts = bool(stage.settings.verifiers) and stage.settings.verified == "accept"
        return ACCEPTS_NONE_ABOVE if accepts else None

    def _wanted(self, ask: Ask) -> dict[str, Any]:
        # A response's log-probabilities are asked for in words of its own, which few engines know.
        wants = self.gate.wants(ask.api) if self.gate is not None and ask.api != "responses" else {}
        return beside(ask.fields, ask.api, wants) if wants else {}

    def alternatives(self, ask: Ask, *, gated: bool) -> int | None:
        """Alternatives of each token that the client gets of an answer; None: no log-probabilities."""
        asked = alternatives_of(ask.fields, ask.api)
        return asked if asked is None or (gated and self._wanted(ask)) else ALL

    def call(
        self,
        ask: Ask,
        stage: Stage,
        step: Step | None,
        *,
        gated: bool,
        wanted: bool = True,
        more: Mapping[str, Any] | None = None,
    ) -> Call:
        """`step` None: on behalf of the judge, with `more` changes. `wanted`: whether a gate gets what it wants of the
        answer beside what the client asks for."""
        changes = stage.told(ask.priority, ask.fields, ask.api, ask.tokens)
        if gated and wanted:
            changes |= self._wanted(ask)
        if (
            gated
            and ask.api == "chat"
            and self.judge is not None
            and "probe" in {j.kind for j in self.judge.all}
        ):
            least = self._skip_below(ask, stage)
            changes |= {SKIP_BELOW: least} if least is not None and self.foresight is None else {}
        changes |= ask.fields.telling_usage(ask.api, refused=stage.refuses_usage)
        changes |= more or {}
        body = rewritten(ask.body, stage.settings.model, changes, ask.api, ask.fields.all_members)
        headers = ask.headers if ask.trace is None else ask.trace.forwarded(step) if step else FORWARDED.get()
        return Call(
            ask.path,
            body,
            headers,
            tokens=ask.tokens,
            prefix=ask.prefix,
            deadline_s=ask.deadline_s,
            priority=ask.priority,
            step=step,
            most_output=most_written(ask.fields, changes),
            answers=ask.fields.answers,
            adds_usage=ask.fields.adds_usage(ask.api),
            # What broke off the engines of one stage may break those of the next.
            resets_max=1 if any(each.outcome == "reset" for each in ask.steps) else 2,
        )

    async def _again(
        self, ask: Ask, stage: Stage, step: Step, changes: Mapping[str, Any], number: int
    ) -> Choice:
        """Answer `number` of `stage` to the same request, but for `changes`. Raises `JudgeFailed`."""
        more = {**changes, **drawn_anew(ask.fields, number)}
        tried = begun(stage.name)
        call = self.call(ask, stage, None, gated=bool(ask.fields.stream), more=more)
        call = structs.replace(call, step=tried)
        try:
            reply = await stage.buffered(call, READERS[ask.api == "responses", bool(ask.fields.stream)])
        except StageFailed as error:
            raise JudgeFailed(error.kind) from None
        except asyncio.CancelledError:
            # Its client has left, or the judge's time is over: its engine has read the prompt all the same.
            step.again(step.input_tokens if tried.tries else 0, 0)
            raise
        if reply.found is None:
            raise JudgeFailed(f"status-{reply.status}")
        spend(reply.found.usage)
        step.again(*reply.found.usage)
        stage.counted(reply.found.usage)
        return reply.found.choices[0]
