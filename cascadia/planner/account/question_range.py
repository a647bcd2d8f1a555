"""Range of a plan's latency by the chance in its quality table: the same traffic with other questions of the kind.

Of the draws of `stability/other_questions.py` those at both ends of the confidence, by the mean latency that the plan's
stages give them, are simulated: several, and the farthest counts, where a trace has so few requests that it matters
which of them asks what.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import ceil, floor

import numpy as np

from cascadia.domain.gear import Ladder
from cascadia.domain.plan import Plan, Predicted, QuestionRange
from cascadia.domain.problem import Problem
from cascadia.domain.workload import Floats, Ints
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.deployment.simulation import Simulator, quantile_s
from cascadia.planner.gears.played import Decided, Played, play
from cascadia.planner.routing.routings import Routings
from cascadia.planner.stability.certificate import certify
from cascadia.planner.stability.other_questions import OtherQuestions, alike

REQUESTS, MOST = 50_000, 8
"""Simulated in all, where that is not one draw an end, and draws an end at most."""

Play = Callable[[Simulator], Played]
"""How a simulator's requests go, whatever they ask."""


def question_range(
    simulator: Simulator,
    deployment: Deployment,
    goes: Play,
    predicted: Predicted,
    visits: Floats,
    *,
    carries: float,
) -> QuestionRange | None:
    """The objective's quantile for other questions, `predicted` for these; None where all take the same way, or
    a share of them is drawn as evidence of exits.

    `visits` as of `visits_of`. `carries`: so many times the rate is known to be carried, so nobody need ask whether
    that much more work is.
    """
    problem = simulator.problem
    if alike(problem, visits):
        return None
    takes_s = np.array([stage.latency.mean_s if stage.reached else 0.0 for stage in predicted.stages])
    ends_s, holds = [predicted.objective_s], True
    for rows in _ends(problem, takes_s @ visits):
        other = Simulator.of(_asking(problem, rows))
        played = goes(other)
        ends_s.append(quantile_s(other.latency_s(played.run), problem.objective.quantile))
        more = max(
            (
                sent / stage.reached
                for sent, stage in zip(played.decided.reached.mean(axis=1), predicted.stages, strict=True)
                if stage.reached
            ),
            default=1.0,
        )
        holds = holds and (more <= carries or certify(other, deployment, played.decided, {}).holds)
    return QuestionRange(min(ends_s), max(ends_s), problem.confidence, holds)


def played_by(deployment: Deployment, routings: Routings, gears: Sequence[int], ladder: Ladder) -> Play:
    """By `gears` of these routings, the heaviest first; by one alone, on a ladder without borders."""

    def on(simulator: Simulator) -> Played:
        of = Decided(routings, simulator)
        return play(simulator, deployment, [of(k) for k in gears], ladder)

    return on


def question_notes(plan: Plan) -> Iterator[str]:
    """Notes on a bound, or a capacity, that is kept with the table's questions and may not be with others."""
    found, deadline, questions = (
        plan.question_range,
        plan.objective.deadline,
        plan.predicted.quality.questions,
    )
    if found is None:
        return
    if not found.high_holds:
        yield (
            f"this plan keeps up with the table's {questions:,} questions, and may not with others of their kind: so"
            " many more could go on to larger models that waiting grows without end; measure more questions, or leave"
            " more room"
        )
    elif deadline is not None and found.high_s > deadline.max_s >= plan.predicted.objective_s:
        room = deadline.max_s * plan.predicted.objective_s / found.high_s
        yield (
            f"p{plan.objective.quantile * 100:g} keeps {deadline.max_s:.3g} s with the table's {questions:,} questions;"
            f" with others of their kind it is {found.low_s:.3g} to {found.high_s:.3g} s"
            f" ({100 * found.confidence:.3g} % confidence at either end): more questions tell it better, and a bound of"
            f" {room:.2g} s leaves room"
        )


def _asking(problem: Problem, rows: Ints) -> Problem:
    """The same requests with other questions: with their lengths, where lengths are the table's."""
    w = replace(problem.workload, row=rows)
    if w.told_by_table:
        # Of all requests with a question the lengths are the same.
        first = np.zeros(len(problem.quality), np.int64)
        first[problem.workload.row[::-1]] = np.arange(len(rows))[::-1]
        by = first[rows]
        read = w.input_tokens[:, by]
        # What a prompt shares with those before it is its request's own, as far as another is as long.
        prefix = np.minimum(w.prefix_tokens, read.min(axis=0) - 1)
        w = replace(w, input_tokens=read, output_tokens=w.output_tokens[:, by], prefix_tokens=prefix)
    return replace(problem, workload=w)


def _ends(problem: Problem, takes_s: Floats) -> list[Ints]:
    """Rows of the requests in draws at both ends, the shorter first. `takes_s` (m): of each question."""
    others = OtherQuestions.of(problem)
    order = np.argsort(others.means(takes_s), kind="stable").tolist()
    last, each = others.draws - 1, min(MOST, max(1, REQUESTS // (2 * len(problem.workload))))
    found: list[Ints] = []
    for end in (floor((1.0 - problem.confidence) * last), ceil(problem.confidence * last)):
        first = min(max(0, end - (each - 1) // 2), last + 1 - each)
        found += (others.rows(at) for at in order[first : first + each])
    return found
