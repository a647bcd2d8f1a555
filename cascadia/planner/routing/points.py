"""Routings over points as routings over stages.

Over points, a routing is what it is over stages: a level for each point that is used, and who reaches it is answered
there. What differs is load: who leaves a stage at an exit has written less there. Each trial answer waits for a
verdict, which reads nothing of the thinking before it; the whole answer waits for one more. So what a routing does
within stages (a *setting*) turns the table of points into one of stages, in which each prompt has the answer and the
length that it leaves its stage with; everything behind works on that. A budget that the question alone decides about
has no trial, and no verdict on who leaves there; nor has an exit a trial of whom the question promises too little.

What a prompt writes at a stage that it leaves at point j: o_j + sum over exits i in use before j of w_i, with o what
stands in the table and w the trial answer that is thrown away.
"""

from dataclasses import dataclass, replace

import numpy as np

from cascadia.domain.points import Points
from cascadia.domain.quality import Asked, Bools, Floats, QualityTable
from cascadia.planner.routing.routings import ACCEPTS_ALL, ACCEPTS_NONE, Ints, Routings

LEFT = 100.0
"""Score of an answer that left at an exit: every gate accepts it."""


@dataclass(frozen=True, slots=True)
class Setting:
    """`levels` (P) of the exits in use, `ACCEPTS_NONE` at all other points; `ends` (S): each stage's last point in
    use, at which the stage's own threshold decides. It is an exit where nobody thinks on.
    """

    levels: tuple[float, ...]
    ends: tuple[int, ...]

    @staticmethod
    def plain(points: Points) -> "Setting":
        """Setting without exits."""
        ends = tuple(points.rows(stage)[-1] for stage in range(points.stages))
        return Setting((ACCEPTS_NONE,) * len(points.stage), ends)

    @staticmethod
    def of(points: Points, routings: Routings, k: int) -> "Setting":
        """Setting of routing k over points. A stage that it does not use has none."""
        deployed, thresholds = routings.deployed[k], np.append(routings.thresholds[k], ACCEPTS_ALL)
        levels, ends = np.full(len(points.stage), ACCEPTS_NONE), []
        for stage in range(points.stages):
            rows = points.rows(stage)
            used = [at for at in rows if deployed[at]]
            ends.append(used[-1] if used else rows[-1])
            levels[used[:-1]] = thresholds[used[:-1]]
        return Setting(tuple(levels.tolist()), tuple(ends))


def left_at(points: Points, setting: Setting) -> Ints:
    """(S, m): the point at which each prompt leaves each stage, were it sent there."""
    score, found = points.table.score, []
    for stage, end in enumerate(setting.ends):
        at = np.full(len(points.table), end)
        for row in reversed([row for row in points.rows(stage) if row < end]):
            at[score[row] >= setting.levels[row]] = row
        found.append(at)
    return np.array(found, dtype=np.int64)


def folded(points: Points, setting: Setting, shadow: float = 0.0) -> QualityTable:
    """Table of stages (S, m) under `setting`; a share `shadow` of the requests is drawn as evidence.

    These have a trial and a verdict at each exit in use on their way, and a verdict on the answer at its end; where no
    gate is behind them, that one only after a trial to hold it against. That it may be refused is left out.
    """
    at, table = left_at(points, setting), points.table
    ends = np.array(setting.ends)
    whole = np.array([points.rows(stage)[-1] for stage in range(points.stages)])
    column, left = np.arange(len(table)), at != ends[:, None]
    output, drawn = table.output_tokens[at, column], table.output_tokens[ends]
    all_on = np.repeat(ends[:, None], len(table), axis=1)
    ahead = np.zeros(points.stages, np.bool_)
    for row in np.flatnonzero(np.array(setting.levels) < ACCEPTS_NONE).tolist():
        stage = points.stage[row]
        thrown_away = np.where(points.tries(row), points.trial_tokens[row], 0.0)
        output[stage] += np.where(at[stage] > row, thrown_away, 0.0)
        drawn[stage] += thrown_away
        ahead[stage] |= row in points.tried
        if row in points.budgets:
            # Its evidence is an answer of its own, wherever some setting up to this one would choose it.
            drawn[stage] += np.where(table.score[row] >= setting.levels[row], table.output_tokens[row], 0.0)
            ahead[stage] = True
    return replace(
        table,
        stages=tuple(table.stages[row] for row in whole),
        score=np.where(left, LEFT, table.score[ends]),
        quality=table.quality[at, column],
        input_tokens=table.input_tokens[whole],
        output_tokens=output,
        foreseen=None,
        left=left,
        verdicts=_asked(points, setting, at, output, drawn=False),
        whole_tokens=table.output_tokens[whole],
        drawn_tokens=drawn if shadow > 0 else None,
        drawn_verdicts=_asked(points, setting, all_on, drawn, drawn=True) if shadow > 0 else None,
        shadow=shadow,
        ahead=ahead if ahead.any() else None,
    )


def _asked(points: Points, setting: Setting, at: Ints, wrote: Floats, *, drawn: bool) -> Asked:
    """Verdicts on those who leave `at` these points, having written so much; on `drawn` ones as evidence."""
    tried, read = _trials(points, setting, at, last_too=True, drawn=drawn)
    before, read_before = _trials(points, setting, at, last_too=False, drawn=drawn)
    # Who has no trial where it leaves has thought to the end: its answer is judged.
    whole = (points.trial_tokens[at, np.arange(at.shape[1])] <= 0) & ~np.isin(at, points.budgets)
    free, free_part = before, np.minimum(read_before / np.maximum(wrote, 1.0), 1.0)
    if drawn:
        # The last answer is scored where there is one before it to hold against it.
        free, free_part = before + (before > 0), np.where(before > 0, _part(read, wrote, whole), 0.0)
    return Asked(tried + whole, _part(read, wrote, whole), free, free_part)


def _part(read: Floats, wrote: Floats, whole: Bools) -> Floats:
    return np.where(whole, 1.0, np.minimum(read / np.maximum(wrote, 1.0), 1.0))


def _trials(
    points: Points, setting: Setting, at: Ints, *, last_too: bool, drawn: bool
) -> tuple[Ints, Floats]:
    """(S, m) each: trial answers of those who leave `at` these points, and how many tokens verdicts on them read;
    whether that at a stage's last exit, where everybody leaves, is one of them.

    Who has thought to the end before an exit has no trial there, nor has who is not to have one. At budgets those
    `drawn` alone have one.
    """
    tried, read = np.zeros(at.shape, np.int64), np.zeros(at.shape)
    for row in points.exits:
        stage = points.stage[row]
        opened = setting.levels[row] < ACCEPTS_NONE and row != setting.ends[stage]
        if row in points.budgets:
            here = drawn & opened & (points.table.score[row] >= setting.levels[row])
            wrote = points.table.output_tokens[row]
        elif opened or (last_too and row == setting.ends[stage]):
            here, wrote = (at[stage] >= row) & (points.trial_tokens[row] > 0), points.trial_tokens[row]
            here &= points.tries(row) | (row == setting.ends[stage])
        else:
            continue
        tried[stage] += here
        read[stage] += np.where(here, wrote, 0.0)
    return tried, read


def over_points(points: Points, routings: Routings, setting: Setting) -> Routings:
    """`routings` of `folded(points, setting)` written with a level for each point; loads are left out."""
    thresholds = np.full((len(routings), len(points.stage)), ACCEPTS_NONE)
    own = np.column_stack([routings.thresholds, np.full(len(routings), ACCEPTS_ALL)])
    for stage, end in enumerate(setting.ends):
        on = routings.deployed[:, stage]
        for row in points.rows(stage):
            if row < end:
                thresholds[on, row] = setting.levels[row]
        thresholds[on, end] = own[on, stage]
    last = routings.deployed.shape[1] - 1 - routings.deployed[:, ::-1].argmax(axis=1)
    thresholds[np.arange(len(routings)), np.array(setting.ends)[last]] = ACCEPTS_ALL
    return Routings(
        thresholds[:, :-1],
        thresholds < ACCEPTS_NONE,
        np.zeros(thresholds.shape),
        mean=routings.mean,
        lower=np.zeros(len(routings)),
        exact=routings.exact,
    )
