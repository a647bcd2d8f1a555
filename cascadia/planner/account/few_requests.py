"""Notes on traces that are too short: for queues to settle, or to send each stage what traffic like the table would.

Where a trace names no prompts each of its requests draws a question. Few draws may send a stage much less than all
questions would, and what looks lightest is chosen.
"""

from collections.abc import Iterator
from math import ceil

from cascadia.domain.plan import Plan
from cascadia.domain.problem import Problem
from cascadia.domain.quality import Floats
from cascadia.planner.stability.certificate import MOST_ROUNDS, SETTLED


def short_trace_notes(problem: Problem, plan: Plan) -> Iterator[str]:
    """`problem`: with one round of the trace."""
    rounds = plan.stability.rounds if plan.stability else 1
    span_s = float(problem.workload.arrival_s[-1])
    if rounds == 1:
        return
    enough_s = SETTLED * plan.predicted.objective_s
    even = ""
    if rounds >= MOST_ROUNDS and span_s * rounds < enough_s:
        even = ", in which they don't settle either, so that it may take more GPUs than are needed"
    requests = ceil(enough_s / span_s * len(problem.workload))
    yield (
        f"the trace spans {span_s:.3g} s, too little beside its latencies for queues to settle: the plan is made for"
        f" {rounds} rounds of it, one after the other{even}; {requests:,} requests at this rate would do"
    )


def few_requests_notes(plan: Plan, by_table: Floats, requests: int, questions: int) -> Iterator[str]:
    """`by_table` (S): what part of the table's questions runs on each stage."""
    for stage, share in zip(plan.predicted.stages, by_table.tolist(), strict=True):
        if stage.load is None or stage.reached <= 0:
            continue
        load = stage.load * share / stage.reached
        if load > 1.0 >= stage.load:
            yield (
                f"{stage.name} gets {stage.reached:.0%} of the trace's {requests:,} requests, but of the quality"
                f" table's {questions:,} questions {share:.0%}: so many would be {load:.0%} of what it sustains, and"
                " its queue would grow; use a longer trace"
            )
