"""Exits as a plan writes them down, and as it is read back on a table of points."""

from dataclasses import replace

import numpy as np

from cascadia.domain.plan import ExitPlan, ForesightPlan, Plan
from cascadia.domain.points import Points
from cascadia.domain.problem import Problem
from cascadia.domain.quality import QualityTable
from cascadia.planner.routing.points import Setting, folded, left_at
from cascadia.planner.routing.routings import ACCEPTS_ALL, ACCEPTS_NONE, decided


def with_exits_written(problem: Problem, plan: Plan, setting: Setting) -> Plan:
    """`plan` with the exits of `setting`, and which share of the requests leaves at each under its own thresholds."""
    assert problem.points is not None
    points, table = problem.points, folded(problem.points, setting)
    deployed = np.array([stage.deployed for stage in plan.stages])
    found = decided(table, deployed, plan.thresholds, plan.skip_below or None)
    here = found.answered_by == np.arange(len(deployed))[:, None]
    at, own = left_at(points, setting), np.append(plan.thresholds, ACCEPTS_ALL)
    stages = []
    for s, (stage, planned) in enumerate(zip(problem.stages, plan.stages, strict=True)):
        exits = []
        for row, exit_ in zip(points.rows(s), stage.exits, strict=False):
            last = row == setting.ends[s]
            if deployed[s] and (last or setting.levels[row] < ACCEPTS_NONE):
                left = float((here[s] & (at[s] == row))[problem.workload.row].mean())
                threshold = float(own[s]) if last else setting.levels[row]
                exits.append(
                    ExitPlan(exit_.thinking_tokens, threshold, left, last, None if last else exit_.foreseen)
                )
        field = stage.budget_field if exits else None
        stages.append(replace(planned, exits=tuple(exits), budget_field=field))
    told, looks = problem.foresight, any(stage.looks for stage in stages)
    foresight = ForesightPlan(told.digest, told.latency_s) if looks and told is not None else plan.foresight
    return replace(plan, stages=tuple(stages), foresight=foresight)


def folded_as_planned(plan: Plan, points: Points) -> QualityTable:
    """Table of the plan's stages, of one whose points are the exits that the plan uses."""
    levels, ends = np.full(len(points.stage), ACCEPTS_NONE), []
    for s, stage in enumerate(plan.stages):
        rows = points.rows(s)
        ends.append(rows[-1])
        for row, exit_ in zip(rows, stage.exits, strict=False):
            if exit_.last:
                ends[-1] = row
            else:
                levels[row] = exit_.threshold
    shadow = 0.0 if plan.exits is None else plan.exits.shadow
    return folded(points, Setting(tuple(levels.tolist()), tuple(ends)), shadow)
