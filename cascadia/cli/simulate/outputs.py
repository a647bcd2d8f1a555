"""Outputs of `cascadia simulate`: tables in a terminal, one JSON document, a page of plots."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cascadia.domain.objective import Level
from cascadia.domain.plan import Plan, Quantiles
from cascadia.files.text import write_whole
from cascadia.planner.deployment.measures import (
    attainment,
    latencies_s,
    queues,
    stage_latencies_s,
    window_means,
    windows,
)
from cascadia.planner.deployment.simulation import quantile_s
from cascadia.planner.replay.replay import Replay
from cascadia.report import pictures, words
from cascadia.report.charts import Series, line_chart
from cascadia.report.data import LatencySamples, LoadOverTime, QueueLength, Swing
from cascadia.report.numbers import percent, plural, rate, seconds
from cascadia.report.page import Section, page


def tables(plan: Plan, result: Replay, slo_s: float | None) -> Iterator[object]:
    """Quantiles end to end and per stage, beside what the plan predicted."""
    from rich.table import Table

    p = result.predicted
    table = Table(title=f"{result.requests:,} requests at {rate(p.rate_rps)}", title_justify="left")
    for name in ("", "reached", "p50", "p95", "p99", "TTFT p95", "TPOT p95", "load"):
        table.add_column(name, justify="left" if not name else "right")
    for stage in p.stages:
        if stage.reached > 0:
            shown = _row(stage.latency, stage.ttft, stage.tpot)
            table.add_row(stage.name, percent(stage.reached), *shown, words.load(stage))
    if p.judge is not None:
        load = words.load(p.judge) if plan.judge.replicas else "-"
        table.add_row("judge", percent(p.judge.reached), *_row(p.judge.latency, p.judge.ttft, None), load)
    table.add_row("end to end", "", *_row(p.e2e, p.ttft, p.tpot), "", end_section=True, style="bold")
    planned = plan.predicted
    table.add_row("as planned", "", *_row(planned.e2e, planned.ttft, planned.tpot), "", style="dim")
    yield table
    for level in p.levels:
        name = Level(level.metric, level.quantile, level.max_s).name
        yield (
            f"{name}: {seconds(level.reached_s)}, at most {seconds(level.max_s)} is asked for;"
            f" {percent(level.attained, 1)} of requests keep it"
        )
    if (gears := _gears(plan, result)) is not None:
        yield gears
        yield f"the gear changed {plural(result.switches, 'time')}"
    if not result.certificate.holds:
        yield f"these requests are not carried for as long as they go on: {result.certificate.why}"
    if slo_s is not None:
        yield f"{percent(within(result, slo_s), 1)} of requests are done within {seconds(slo_s)}"


def _gears(plan: Plan, result: Replay) -> object | None:
    """Table of the requests that each gear served; None where no ladder was played."""
    from rich.table import Table

    if result.gear is None:
        return None
    table = Table(title="gears", title_justify="left")
    for name in ("under way", "asks", "requests", "as planned", "p95"):
        table.add_column(name, justify="left" if name == "asks" else "right")
    for gear, served in zip(plan.gears, _served(plan, result), strict=True):
        table.add_row(
            "beyond" if gear.max_in_flight is None else f"up to {gear.max_in_flight:,.0f}",
            ", ".join(gear.stages),
            f"{served['requests']:,} ({percent(served['request_share'], 1)})",
            "" if gear.predicted is None else percent(gear.predicted.request_share, 1),
            "-" if served["p95_s"] is None else seconds(served["p95_s"]),
        )
    return table


def _served(plan: Plan, result: Replay) -> list[dict[str, Any]]:
    """Requests that each gear served, the heaviest first; none where no ladder was played."""
    if result.gear is None:
        return []
    latency = latencies_s(result.run)
    of_each = [latency[result.gear == g] for g in range(len(plan.gears))]
    return [
        {
            "max_in_flight": gear.max_in_flight,
            "stages": gear.stages,
            "requests": len(own),
            "request_share": len(own) / len(latency),
            "p95_s": quantile_s(own, 0.95) if len(own) else None,
        }
        for gear, own in zip(plan.gears, of_each, strict=True)
    ]


def within(result: Replay, slo_s: float) -> float:
    return float(np.mean(latencies_s(result.run) <= slo_s))


def as_json(plan: Plan, result: Replay, slo_s: float | None) -> dict[str, Any]:
    curve = attainment(latencies_s(result.run))
    return {
        "requests": result.requests,
        "rounds": result.rounds,
        "predicted": result.predicted,
        "slo": None if slo_s is None else {"limit_s": slo_s, "attainment": within(result, slo_s)},
        "attainment": {"limit_s": curve.limit_s, "share": curve.share},
        "queues": queues(result.problem, result.run),
        "gears": _served(plan, result),
        "switches": result.switches,
        "preemptions": result.run.preemptions,
        "notes": result.notes,
        "stability": result.certificate.stability,
        "holds": result.certificate.holds,
        "why": result.certificate.why,
    }


def write_plots(path: Path, plan: Plan, result: Replay, trace_name: str, slo_s: float | None = None) -> None:
    latency = latencies_s(result.run)
    samples = LatencySamples(latency, stage_latencies_s(result.problem, result.run))
    curve = attainment(latency)
    lengths = tuple(
        QueueLength(q.name, q.time_s, q.waiting, q.peak, q.peak_s) for q in queues(result.problem, result.run)
    )
    sla = line_chart(
        [Series("attainment", curve.limit_s, curve.share * 100)],
        title="SLO attainment",
        x_label="limit, seconds",
        y_label="% of requests done within it",
        log_x=True,
        h_lines=((95.0, "95 %"),),
    )
    loads = tuple((s.name, words.load(s)) for s in result.predicted.stages if s.reached > 0)
    sections = (
        *_gears_section(plan, result, slo_s),
        Section("Latency", body=pictures.latency_curves(plan, samples) + sla),
        Section("Queues", body=pictures.queues(plan, lengths)),
        Section("Load", columns=("stage", "of what its replicas sustain"), rows=loads),
    )
    write_whole(path, page(f"{trace_name} on a plan of {plan.gpus} GPUs", sections))


def _gears_section(plan: Plan, result: Replay, slo_s: float | None) -> Iterator[Section]:
    """The part on gears; nothing where no ladder was played."""
    if result.gear is None:
        return
    rows = tuple(
        (
            "beyond" if served["max_in_flight"] is None else f"up to {served['max_in_flight']:,.0f}",
            ", ".join(served["stages"]),
            f"{served['requests']:,} ({percent(served['request_share'], 1)})",
            "-" if served["p95_s"] is None else seconds(served["p95_s"]),
        )
        for served in _served(plan, result)
    )
    yield Section(
        "Gears",
        lead=f"The gear changed {plural(result.switches, 'time')}.",
        body="".join(pictures.swing(_swing(plan, result, slo_s))),
        columns=("under way", "asks", "requests", "p95"),
        rows=rows,
    )


def _swing(plan: Plan, result: Replay, slo_s: float | None) -> Swing:
    """The trace on the plan's gears. Late is beyond `slo_s`, or the plan's bound, or what it predicts."""
    assert result.gear is not None
    deadline = plan.objective.deadline
    bound_s = slo_s or (deadline.max_s if deadline else plan.predicted.objective_s)
    found = windows(result.run, bound_s)
    late_share = 1.0 - within(result, bound_s)
    return Swing(
        time_s=found.time_s,
        rate_rps=found.rate_rps,
        gear=window_means(result.run, result.gear.astype(float)),
        switches=result.switches,
        bound_s=bound_s,
        on_gears=LoadOverTime(found.in_flight, found.late, late_share, result.predicted.quality.lower),
        alone=None,
    )


def _row(latency: Quantiles, ttft: Quantiles, tpot: Quantiles | None) -> tuple[str, ...]:
    whole = seconds(latency.p50_s), seconds(latency.p95_s), seconds(latency.p99_s)
    return *whole, seconds(ttft.p95_s), "-" if tpot is None else seconds(tpot.p95_s)
