"""Score of what a slot has just answered, and a watch on whether questions are still like those of training.

A question unlike them gets no score, so a change does no harm one question at a time. That there is a change, more of
them than training had, is told by the detector of exits (`cascadia.exits.drift`): at most one false alarm in `EVERY`
questions, in the mean. It withdraws nothing more: a few odd questions of one user would else shut the gate for all.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from cascadia.clients.engines.llama_slots import EngineFailed, LlamaSlots
from cascadia.exits.drift import Drift
from cascadia_judge.errors import BadVerdict
from cascadia_judge.probe.kv_state import read_kv_state
from cascadia_judge.probe.probe import Probe
from cascadia_judge.probe.reading import Reading

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
UNLIKE, UNREADABLE, OTHER = "unlike", "unreadable", "other"
"""Why there is no score: the question, the engine's cache, another request in the slot."""


@dataclass(frozen=True, slots=True)
class Scored:
    """`score` 0-100, or why there is none; `judge` tells the probe from one that was trained otherwise."""

    score: float | None = None
    failed: str | None = None
    judge: str = ""

    def document(self) -> dict[str, float | str]:
        if self.score is not None:
            return {"score": round(self.score, 3), "judge": self.judge}
        return {"failed": self.failed or UNREADABLE}


class Scoring:
    """`clock` in seconds."""

    def __init__(self, probe: Probe, engine: LlamaSlots, clock: Callable[[], float]) -> None:
        self.probe, self.engine, self.clock = probe, engine, clock
        self.registry = CollectorRegistry()
        self.scores = Counter("cascadia_probe_scores", "Answers scored.", registry=self.registry)
        self.failures = Counter(
            "cascadia_probe_failures", "Answers without a score, by reason.", ["kind"], registry=self.registry
        )
        self.skipped = Counter(
            "cascadia_probe_skipped", "Answers not begun, by skip_below.", registry=self.registry
        )
        self.drifts = Counter(
            "cascadia_probe_drifts",
            "Times that questions were unlike those of training more often than they may be.",
            registry=self.registry,
        )
        self.seconds = Histogram(
            "cascadia_probe_seconds", "Of a score.", buckets=SECONDS, registry=self.registry
        )
        evidence = Gauge(
            "cascadia_probe_drift_evidence",
            "Questions that a false alarm of the same evidence would take.",
            registry=self.registry,
        )
        evidence.set_function(lambda: self.drift.evidence)
        self.drift = Drift(probe.familiar.unlike_rate)

    async def answered(self, slot: int, prompt: int, written: int, headers: Mapping[str, str]) -> Scored:
        """Score of the answer of `written` tokens to a prompt of `prompt` that the slot has just ended."""
        started_s = self.clock()
        scored = await self._scored(slot, prompt, written, headers)
        self.seconds.observe(self.clock() - started_s)
        if scored.failed is None:
            self.scores.inc()
        else:
            self.failures.labels(scored.failed).inc()
        if scored.failed in (None, UNLIKE) and self.drift.feed(scored.failed == UNLIKE):
            self.drifts.inc()
            self.drift = Drift(self.probe.familiar.unlike_rate)
        return scored

    async def _scored(self, slot: int, prompt: int, written: int, headers: Mapping[str, str]) -> Scored:
        try:
            tokens, reading = await self._read(slot, prompt, headers)
        except (EngineFailed, BadVerdict):
            return Scored(failed=UNREADABLE)
        # The token drawn last is run through no layer, unless the engine was ahead of itself.
        if tokens not in (prompt + written - 1, prompt + written) or reading.answer is None:
            return Scored(failed=OTHER)
        score = self.probe.tell(reading)
        return Scored(failed=UNLIKE) if score is None else Scored(score, judge=self.probe.digest)

    async def expected(
        self, slot: int, chat: Mapping[str, object], headers: Mapping[str, str]
    ) -> tuple[float | None, int]:
        """Quality to be expected of an answer, None where nobody can tell, and the prompt's tokens. The engine has
        read the prompt then, and does not read it again."""
        try:
            prompt = await self.engine.prefilled(slot, chat, "", headers)
            _, reading = await self._read(slot, prompt, headers)
        except (EngineFailed, BadVerdict):
            return None, 0
        return self.probe.tell(Reading(reading.question, None)), prompt

    async def _read(self, slot: int, prompt: int, headers: Mapping[str, str]) -> tuple[int, Reading]:
        with await self.engine.saved(slot, headers) as content:
            state = read_kv_state(content)
            reading = self.probe.read(state, prompt)
            return state.tokens, reading
