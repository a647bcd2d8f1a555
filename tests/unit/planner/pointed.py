"""Problems of stages with exits, made up: a stage's answers at its exits are shorter and not as good."""

from dataclasses import replace

import numpy as np

from cascadia.domain.cluster import Pool
from cascadia.domain.objective import Objective
from cascadia.domain.points import Exit, Points
from cascadia.domain.problem import Problem
from cascadia.domain.quality import QualityTable
from tests.unit.planner.problems import LARGE, SMALL, problem, traffic

EXITS = (Exit(200), Exit(600))


def points(prompts: int = 150, seed: int = 0, levels: int = 8) -> Points:
    """`s0@200`, `s0@600`, `s0` and `s1`; a trial answer has 40 tokens."""
    rng = np.random.default_rng(seed)
    ease = rng.normal(size=prompts)
    ability = np.array([0.2, 0.6, 0.8, 1.6])[:, None]
    quality = 100 / (1 + np.exp(-2 * (ability + ease + 0.4 * rng.normal(size=(4, prompts)))))
    score = (
        np.round(np.clip(quality + 8 * rng.normal(size=quality.shape), 0, 100) / 100 * levels) * 100 / levels
    )
    wrote = np.array([240.0, 640.0, 0.0, 900.0])[:, None] * np.ones(prompts)
    wrote[2] = 700 + np.rint(1500 * rng.random(prompts))
    table = QualityTable(
        tuple(f"p{i}" for i in range(prompts)),
        ("s0@200", "s0@600", "s0", "s1"),
        score,
        quality=quality,
        input_tokens=np.full(quality.shape, 300.0),
        output_tokens=wrote,
    )
    trials = np.array([40.0, 40.0, 0.0, 0.0])[:, None] * np.ones(prompts)
    return Points(table, (0, 0, 0, 1), trials)


def with_exits(objective: Objective, seed: int = 0, requests: int = 120, rate_rps: float = 12.0) -> Problem:
    known = points(seed=seed)
    ends = [2, 3]
    table = replace(
        known.table,
        stages=("s0", "s1"),
        score=known.table.score[ends],
        quality=known.table.quality[ends],
        input_tokens=known.table.input_tokens[ends],
        output_tokens=known.table.output_tokens[ends],
    )
    trace = replace(
        traffic(requests, rate_rps),
        prompt_id=tuple(f"p{i}" for i in np.random.default_rng(seed).integers(len(table), size=requests)),
    )
    made = problem(
        (SMALL, LARGE),
        pools=(Pool("h100-sxm", "h100-sxm", 1, 4, 2.5),),
        objective=objective,
        table=table,
        trace=trace,
    )
    stages = (replace(made.stages[0], exits=EXITS), made.stages[1])
    return replace(made, stages=stages, points=known)
