"""Stale scores: what a plan made on scores of before a change would give up, and whether they still tell what
that costs.
"""

from collections import Counter
from math import sqrt

import numpy as np

from cascadia.controller.detect.windows import Samples
from cascadia.controller.move.state import Desired, Kind, Observed, planned_stage
from cascadia.domain.workload import Floats

ALIKE = 1.0
"""Points: mean scores that differ by less, surely, are of questions as hard as before."""
SURE = 2.0
FEWEST = 100


def given_up(observed: Observed, desired: Desired) -> str:
    """The first stage that would have fewer GPUs, or accept lower scores; empty where none would."""
    now = _gpus(observed.ready_kinds())
    then = _gpus(Counter(desired.counts))
    for stage, gpus in now.items():
        if then[stage] < gpus:
            return f"{gpus - then[stage]} GPUs of {stage}"
    if observed.routing is None:
        return ""
    lower = dict(zip(desired.routing.stages, desired.routing.thresholds, strict=False))
    for stage, threshold in zip(observed.routing.stages, observed.routing.thresholds, strict=False):
        if lower.get(stage, threshold) < threshold:
            return f"scores of {stage} below {threshold:g}"
    return ""


def _gpus(counts: Counter[Kind]) -> Counter[str]:
    found: Counter[str] = Counter()
    for kind, count in counts.items():
        found[planned_stage(kind.stage)] += kind.gpus * count
    return found


def alike(before: Samples, since: Samples) -> bool:
    """Tells whether the first gate, which scores nearly everybody, shows that questions are as hard as they
    were.
    """
    stage = _most_scored(since)
    if stage is None or stage != _most_scored(before):
        return False
    old, new = _told(before, stage), _told(since, stage)
    if min(len(old), len(new)) < FEWEST:
        return False
    error = sqrt(old.var() / len(old) + new.var() / len(new))
    return bool(abs(new.mean() - old.mean()) + SURE * error <= ALIKE)


def _most_scored(samples: Samples) -> str | None:
    return max(samples.scores, key=lambda stage: len(_told(samples, stage)), default=None)


def _told(samples: Samples, stage: str) -> Floats:
    scores = samples.scores[stage]
    return scores[np.isfinite(scores)]
