"""`cascadia simulate` of a plan of models that answer in one pass."""

from typing import TYPE_CHECKING, Any

from rich.table import Table

from cascadia.report.numbers import figures, percent, quality, rate, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cascadia.domain.plan import Plan, Predicted, Quantiles
    from cascadia.planner.policies.played import Outcome


def table(plan: "Plan", predicted: "Predicted", outcome: "Outcome", requests: int) -> Table:
    """The table of which model answers how many, and how soon, beside what the plan predicted."""
    shown = Table(title=f"{requests:,} requests at {rate(predicted.rate_rps)}", title_justify="left")
    for name in ("", "answers", "p50", "p95", "p99"):
        shown.add_column(name, justify="left" if not name else "right")
    for stage in predicted.stages:
        times = _times(stage.latency) if stage.accepted else ("–",) * 3
        shown.add_row(stage.name, percent(stage.accepted, 1), *times)
    shown.add_row("end to end", "", *_times(predicted.e2e), style="bold")
    shown.add_row("as planned", "", *_times(plan.predicted.e2e), style="dim")
    planned = plan.predicted.quality.mean
    shown.caption = (
        f"right {quality(outcome.accuracy)} of 100 in time (planned {quality(planned)}), "
        f"late {percent(outcome.late, 2)}, workers busy {percent(outcome.busy)}, "
        f"{figures(outcome.batch)} inputs a batch"
    )
    return shown


def rounds_played(rounds: int) -> "Iterator[str]":
    """A note on a trace that is too short to be played once."""
    if rounds > 1:
        yield f"the trace is short: the figures are of {rounds:,} rounds of it, as a plan's are"


def _times(told: "Quantiles") -> tuple[str, ...]:
    return tuple(seconds(each) for each in (told.p50_s, told.p95_s, told.p99_s))


def document(predicted: "Predicted", outcome: "Outcome") -> dict[str, Any]:
    return {"predicted": predicted, "outcome": outcome}
