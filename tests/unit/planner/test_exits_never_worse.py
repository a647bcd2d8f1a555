"""Exits never make a plan worse: over tables, objectives and promises drawn at random, of stages with exits anywhere.

By what the objective makes small, of whole plans after a short search. `bench_exit_plans` has longer searches, and
`bench_properties` draws other examples, and more of them.
"""

import os
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia.domain.cluster import Pool
from cascadia.domain.errors import Infeasible
from cascadia.domain.objective import Objective
from cascadia.domain.plan import ExitPromise
from cascadia.domain.points import Exit, Points
from cascadia.domain.problem import Problem
from cascadia.domain.quality import QualityTable
from cascadia.planner.plan import NO_CLIMB, PlanResult, plan
from cascadia.planner.refinement.refine import effort_for
from tests.benchmarks.bench_exit_plans import reached
from tests.unit.planner.problems import LARGE, SMALL, problem, traffic

PROMPTS, REQUESTS = 40, 24
EXAMPLES = 12 if "CASCADIA_LONG" in os.environ else 2
"""One takes about four CPU seconds, and twice that where a refusal is explained: so objectives are easy."""


class Drawn(NamedTuple):
    """How many exits the small stage has, and the large one, and how much of an answer is chance; whether the small
    stage's are budgets, or have a trial where the question promises much."""

    seed: int
    small: int
    large: int
    noise: float
    promise: ExitPromise | None
    told: Literal["answer", "question", "both"] = "answer"


def pointed(drawn: Drawn, objective: Objective, gpus: int) -> Problem:
    rng = np.random.default_rng(drawn.seed)
    exits = [sorted(rng.choice(np.arange(50, 900, 50), count, replace=False)) for count in drawn[1:3]]
    names, stage, wrote, trials = [], [], [], []
    for s, thoughts in enumerate(exits):
        trial = float(rng.integers(1, 120))
        for thought in thoughts:
            names.append(f"s{s}@{thought}")
            wrote.append(np.full(PROMPTS, thought + trial))
            trials.append(np.full(PROMPTS, trial))
        names.append(f"s{s}")
        wrote.append(np.rint(rng.uniform(100, 2500, PROMPTS)))
        trials.append(np.zeros(PROMPTS))
        stage += [s] * (len(thoughts) + 1)
    # Later points are no better for certain: exits that are worth nothing, or more than the end, come too.
    ability = np.cumsum(rng.normal(0.4, 0.5, len(names)))[:, None]
    ease = rng.normal(size=PROMPTS)
    quality = 100 / (1 + np.exp(-(ability + ease + drawn.noise * rng.normal(size=(len(names), PROMPTS)))))
    score = np.clip(quality + 30 * drawn.noise * rng.normal(size=quality.shape), 0, 100).round(-1)
    table = QualityTable(
        tuple(f"p{at}" for at in range(PROMPTS)),
        tuple(names),
        score,
        quality=quality,
        input_tokens=np.full(quality.shape, 300.0),
        output_tokens=np.array(wrote),
    )
    ends = [len(exits[0]), len(names) - 1]
    whole = replace(
        table,
        stages=("s0", "s1"),
        score=score[ends],
        quality=quality[ends],
        input_tokens=table.input_tokens[ends],
        output_tokens=table.output_tokens[ends],
    )
    ids = tuple(f"p{at}" for at in rng.integers(PROMPTS, size=REQUESTS))
    trace = replace(traffic(REQUESTS, float(rng.uniform(2, 20)), drawn.seed), prompt_id=ids)
    pools = (Pool("h100-sxm", "h100-sxm", 1, gpus, 2.5),)
    made = problem((SMALL, LARGE), pools=pools, objective=objective, table=whole, trace=trace)
    stages = tuple(
        replace(one, exits=tuple(Exit(int(at)) for at in thoughts))
        for one, thoughts in zip(made.stages, exits, strict=True)
    )
    points = Points(table, tuple(stage), np.array(trials))
    rows = tuple(range(drawn.small))
    if drawn.told == "both":
        tried = {row: rng.random(PROMPTS) < drawn.noise / 2 for row in rows}
        scores = [np.where(tried[row], score[row], 0.0) for row in rows]
        table = replace(
            table, score=np.concatenate([np.reshape(scores, (-1, PROMPTS)), score[drawn.small :]])
        )
        points = Points(table, tuple(stage), np.array(trials), tried=tried)
    if drawn.told == "question":
        told = 100 - np.maximum(
            0, quality[drawn.small] - quality[: drawn.small] + 5 * rng.normal(size=PROMPTS)
        )
        table = replace(table, score=np.concatenate([np.clip(told, 0, 100), score[drawn.small :]]))
        points = Points(
            table, tuple(stage), np.where(np.isin(range(len(names)), rows)[:, None], 0, trials), rows
        )
        stages = (replace(stages[0], budget_field="thinking_token_budget"), *stages[1:])
    return replace(made, stages=stages, points=points, exits=drawn.promise)


def planned(given: Problem) -> PlanResult | None:
    try:
        return plan(given, effort=replace(effort_for(given.cluster), **NO_CLIMB))
    except Infeasible:
        return None


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(
    drawn=st.builds(
        Drawn,
        st.integers(0, 10_000),
        st.integers(1, 3),
        st.integers(0, 1),
        st.sampled_from((0.1, 0.5, 2.0)),
        st.sampled_from((None, None, ExitPromise(0.01, 0.9, 0.1))),
        st.sampled_from(("answer", "question", "both")),
    ),
    objective=st.sampled_from(
        (
            Objective("cost", 0.95, 40.0, 40.0),
            Objective("cost", 0.95, 45.0, 30.0),
            Objective("latency", 0.5, 40.0),
            Objective("latency", 0.95, 45.0),
            Objective("quality", 0.95, None, 30.0),
            Objective("quality", 0.5, None, 15.0),
        )
    ),
    gpus=st.integers(3, 4),
)
def test_no_plan_is_worse_for_exits(drawn: Drawn, objective: Objective, gpus: int) -> None:
    given_ = pointed(drawn, objective, gpus)
    without, exiting = planned(replace(given_, points=None, exits=None)), planned(given_)
    if without is None:
        return
    assert exiting is not None, "exits made a problem that has a plan infeasible"
    assert reached(exiting, objective) <= reached(without, objective)
