"""Weaker judges and pairwise ones in the gate (Cascadia, appendix K): quality stays GPT-4o's.

A weaker judge is made: the same answers scored lower by the paper's mean deviation, with noise. A pairwise judge is a
real one made coarse: of GPT-4o's scores the gate sees only whether the answer is worse than, like or better than the
answer of a reference model.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.errors import Infeasible
from cascadia.domain.quality import QualityTable
from cascadia.planner.plan import plan
from cascadia.planner.problem.read import read_problem
from cascadia.reproduce import cases
from cascadia.reproduce.grid import CASCADES

Floats = NDArray[np.float64]

CASCADE = CASCADES[1]
"""Phi-3-mini → Qwen1.5-72B-Chat, whose scores and qualities are GPT-4o's."""
BAR, RATE_RPS = 65.5, 21.0
NOISES = (10.0, 25.0)
"""Standard deviations of what a weaker judge errs by, points of 100."""
REFERENCE = "gpt-3.5-turbo-0125"
LIKE = 100 / 18
"""Scores that differ by less than half a step of WildBench's ten are a tie."""

Scores = Callable[[Floats], Floats]


def weaker(lower: float, noise_std: float, seed: int = 0) -> Scores:
    """Lower by `lower` (0-1) on average, with noise."""

    def score(of: Floats) -> Floats:
        noise = noise_std * np.random.default_rng(seed).normal(size=of.shape)
        return np.clip(np.rint((1 - lower) * of + noise), 0, 100)

    return score


def pairwise(table: QualityTable) -> QualityTable:
    """Worse, a tie or better than the reference's answer, as 0, 50 and 100."""
    reference = cases.wildbench((REFERENCE,), ("reference",))
    of = dict(zip(reference.prompt_ids, reference.score[0].tolist(), strict=True))
    kept = [i for i, prompt in enumerate(table.prompt_ids) if prompt in of]
    theirs = np.array([of[table.prompt_ids[i]] for i in kept])
    score = 50.0 + 50.0 * np.sign(table.score[:, kept] - theirs) * (
        np.abs(table.score[:, kept] - theirs) >= LIKE
    )
    columns = {name: getattr(table, name)[:, kept] for name in ("quality", "input_tokens", "output_tokens")}
    return QualityTable(tuple(table.prompt_ids[i] for i in kept), table.stages, score=score, **columns)


def tables() -> dict[str, QualityTable]:
    table = CASCADE.table()
    made = {
        f"{name}, noise {noise:g}": replace(table, score=weaker(lower, noise)(table.score))
        for noise in NOISES
        for name, lower in (("GPT-4o-mini", 0.094), ("Llama3.1-70B", 0.086))
    }
    return {"GPT-4o": table, **made, "pairwise": pairwise(table)}


def measured(folder: Path) -> dict[str, Any]:
    """Figures by judge: mean score, share of the larger model, p95, quality; or an error where no plan keeps it."""
    return {name: _planned(table, folder) for name, table in tables().items()}


def _planned(table: QualityTable, folder: Path) -> dict[str, Any]:
    case = cases.case(
        folder,
        table,
        CASCADE.stages,
        rate_rps=RATE_RPS,
        judge=CASCADE.judge,
        objective={"minimize": "latency", "quantile": 0.95, "quality_min": BAR},
        max_requests=3000,
    )
    score = float(table.score[0].mean())
    try:
        made = plan(read_problem(case.path)).plan
    except Infeasible as error:
        return {"score": score, "error": str(error)}
    return {
        "score": score,
        "larger": made.predicted.stages[-1].reached,
        "p95_s": made.predicted.e2e.p95_s,
        "quality": made.predicted.quality.mean,
        "lower": made.predicted.quality.lower,
    }
