"""The embedding judge with exits: a verdict by its ramp where that is certified to be near the whole judge's.

A share of the cases, drawn before they are looked at, has both verdicts and gets the whole one: evidence. Where nothing
is in force only those are looked at early. Who does not leave begins anew with the whole judge, at the cost of the part
before the ramp; its verdict is the same as without exits, bit for bit.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from prometheus_client import CollectorRegistry, Gauge

from cascadia.domain.plan import ExitPromise
from cascadia.exits.certify import Promise
from cascadia.exits.controller import Controller
from cascadia.exits.copies import Recent
from cascadia.exits.readings import Floats
from cascadia.files.exit_state import SharedExits
from cascadia.judge_service.ramp import EarlyEncoder, JudgeRamp, columns_of, doubt_of, seen_by
from cascadia_judge.embedding import Case, EmbeddingJudge, Verdict
from cascadia_judge.head.features import Seen
from cascadia_judge.head.head import Head
from cascadia_judge.injection.normalise import is_blank

COUNTS = {
    "taken": "Verdicts given at the ramp.",
    "whole": "Verdicts given by the whole judge.",
    "shadowed": "Of those, as evidence.",
    "disagreed": "Of the evidence, verdicts that the setting in force would have had differ.",
    "certified": "Setting in force, counted from 1; 0: none.",
    "settings": "Settings on the path.",
    "fed_back": "Verdicts that the certificate rests on.",
    "withdrawn": "Times that settings were withdrawn for drift.",
}

_logger = logging.getLogger("cascadia.judge")


class Early(NamedTuple):
    """Verdict by the ramp, and how much it is to be doubted (0-1)."""

    verdict: Verdict
    doubt: float


class JudgeExits:
    """Exits of one judge. `state`: the file of their evidence, which judges of one file share. Thread-safe."""

    def __init__(
        self,
        early: EarlyEncoder,
        ramp: JudgeRamp,
        promised: ExitPromise,
        rng: Random | None = None,
        state: Path | None = None,
    ) -> None:
        self._early, self._ramp, self._shadow, self._rng = early, ramp, promised.shadow, rng or Random()
        self._controller = Controller(Promise(promised.risk, promised.confidence), ramp.path)
        # Without a file what is certified ends with the process.
        self._shared = None
        if state is not None:
            self._shared = SharedExits(self._controller, state, ramp.digest, _logger.warning)
        self._lock, self._recent = Lock(), Recent()
        self.counts = dict.fromkeys(("taken", "whole", "shadowed", "disagreed"), 0)

    @property
    def digest(self) -> str:
        return self._ramp.digest[:16]

    @property
    def state(self) -> dict[str, int]:
        one = self._controller
        told = {"certified": one.certified + 1, "settings": one.path.settings}
        return self.counts | told | {"fed_back": one.inputs, "withdrawn": one.withdrawn}

    def scores(self, judge: EmbeddingJudge, cases: Sequence[Case]) -> list[Verdict]:
        """Verdicts in order. Raises `BadVerdict` as the judge does."""
        with self._lock:
            if self._shared is not None:
                self._shared.look()
            limit = float(self._controller.thresholds[0])
            drawn = [self._rng.random() < self._shadow for _ in cases]
        looked = [at for at in range(len(cases)) if drawn[at] or limit > 0.0]
        early = dict(zip(looked, self._looked(judge, [cases[at] for at in looked]), strict=True))
        leave = {at for at, one in early.items() if one.doubt < limit}
        goes_on = [at for at in range(len(cases)) if drawn[at] or at not in leave]
        whole = dict(zip(goes_on, judge.scores([cases[at] for at in goes_on]), strict=True))
        with self._lock:
            self.counts["whole"] += len(whole)
            self.counts["taken"] += len(cases) - len(whole)
            for at in goes_on:
                if drawn[at]:
                    self._learn(cases[at], early[at], whole[at], at in leave)
        return [whole[at] if at in whole else early[at].verdict for at in range(len(cases))]

    def _learn(self, case: Case, early: Early, whole: Verdict, left: bool) -> None:
        differs = abs(early.verdict.score - whole.score) > self._ramp.points
        self.counts["shadowed"] += 1
        self.counts["disagreed"] += int(left and differs)
        lost, doubts = np.array([int(differs)]), np.array([early.doubt])
        key = repr((case.question, case.answer)).encode()
        if self._shared is None:
            self._controller.feed(lost, doubts, 0, self._recent.has(key))
        else:
            self._shared.feed(lost, doubts, 0, key)

    def close(self) -> None:
        """Keeps what is left to keep."""
        with self._lock:
            if self._shared is not None:
                self._shared.close()

    def _looked(self, judge: EmbeddingJudge, cases: Sequence[Case]) -> list[Early]:
        if not cases:
            return []
        told = self._ramp.mapped(seen_by(self._early, judge, cases))
        heads = np.array([judge.heads.index(judge.head_for(case)) for case in cases])
        found: dict[int, Early] = {}
        for head in np.unique(heads).tolist():
            rows = np.flatnonzero(heads == head)
            some = self._told(judge, head, told.take(rows), [cases[at] for at in rows.tolist()])
            found |= zip(rows.tolist(), some, strict=True)
        return [found[at] for at in range(len(cases))]

    def _told(self, judge: EmbeddingJudge, head: int, told: Seen, cases: Sequence[Case]) -> list[Early]:
        score, columns = judge.heads[head].score(told), columns_of(judge, head, told)[1]
        weights: Floats | None = self._ramp.doubts.get(head)
        doubt = np.ones(len(cases)) if weights is None else doubt_of(weights, columns)
        found = []
        for at, case in enumerate(cases):
            blank = case.answer is not None and is_blank(case.answer)
            quality = 0.0 if blank else float(score.quality[at])
            verdict = Verdict(quality, float(score.certainty[at]), int(told.tokens[at]))
            found.append(Early(verdict, float(doubt[at])))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class ExitingJudge:
    """`judge`, whose verdicts may come from its ramp."""

    judge: EmbeddingJudge
    exits: JudgeExits

    @property
    def about(self) -> dict[str, Any]:
        return self.judge.about

    @property
    def digest(self) -> str:
        return f"{self.judge.digest}-{self.exits.digest}"

    @property
    def wants_certainty(self) -> bool:
        return self.judge.wants_certainty

    def head_for(self, case: Case) -> Head:
        return self.judge.head_for(case)

    def scores(self, cases: Sequence[Case]) -> list[Verdict]:
        return self.exits.scores(self.judge, cases)


def add_exits(registry: CollectorRegistry, exits: JudgeExits) -> None:
    for name, about in COUNTS.items():
        gauge = Gauge(f"cascadia_judge_exits_{name}", about, registry=registry)
        gauge.set_function(partial(_count, exits, name))


def _count(exits: JudgeExits, name: str) -> float:
    return float(exits.state[name])
