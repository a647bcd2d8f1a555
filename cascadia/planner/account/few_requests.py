"""Notes on stages that keep up with the trace, but not with traffic of the quality table's questions.

Where a trace names no prompts each of its requests draws a question. Few draws may send a stage much less than all
questions would, and what looks lightest is chosen.
"""

from collections.abc import Iterator

from cascadia.domain.plan import Plan
from cascadia.domain.quality import Floats


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
