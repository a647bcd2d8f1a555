"""A problem, or a plan, whose engines are as those that serve: as fast as they were seen to be, and started alike."""

from collections.abc import Mapping
from dataclasses import replace

from cascadia.controller.move.state import JUDGE
from cascadia.domain.plan import Plan
from cascadia.domain.problem import Problem
from cascadia_sim.iteration.engine_config import EngineConfig


def problem_as_served(problem: Problem, learned: Mapping[str, Mapping[str, float]]) -> Problem:
    stages = tuple(replace(s, config=_with(s.config, learned.get(s.name))) for s in problem.stages)
    judge = problem.judge
    if judge.config is not None:
        judge = replace(judge, config=_with(judge.config, learned.get(JUDGE)))
    return replace(problem, stages=stages, judge=judge)


def plan_as_served(plan: Plan, learned: Mapping[str, Mapping[str, float]]) -> Plan:
    stages = tuple(replace(s, config=_with(s.config, learned.get(s.name))) for s in plan.stages)
    judge = replace(plan.judge, config=_with(plan.judge.config, learned.get(JUDGE)))
    return replace(plan, stages=stages, judge=judge)


def problem_as_started(problem: Problem, running: Plan) -> Problem:
    """The problem with as many tokens an iteration, and drafts, as the engines that run were started with: another
    number would restart each.
    """
    stages = tuple(
        stage
        if not by.deployed
        else replace(
            stage,
            config=_as_started(stage.config, by.config),
            searches_batch_tokens=False,
            may_draft=None,
        )
        for stage, by in zip(problem.stages, running.stages, strict=True)
    )
    judge = problem.judge
    if judge.config is not None and running.judge.replicas:
        config = _as_started(judge.config, running.judge.config)
        judge = replace(judge, config=config, searches_batch_tokens=False)
    return replace(problem, stages=stages, judge=judge)


def _as_started(config: EngineConfig, running: EngineConfig) -> EngineConfig:
    return replace(
        config, max_num_batched_tokens=running.max_num_batched_tokens, speculation=running.speculation
    )


def _with(config: EngineConfig, learned: Mapping[str, float] | None) -> EngineConfig:
    """The configuration with what was learnt; as it is where nothing was."""
    return config if not learned else replace(config, learned=tuple(sorted(learned.items())))
