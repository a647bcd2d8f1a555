"""Outputs of `cascadia compare`."""

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cascadia.domain.problem import Problem
from cascadia.files.text import write_whole
from cascadia.planner.baselines.compare import Comparison, Outcome
from cascadia.report.charts import Series, line_chart
from cascadia.report.numbers import figures, rate, seconds, span, usd
from cascadia.report.page import Section, page

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS = ("", "SLO scale", "p", "TTFT", "TPOT", "max req/s", "$/1k", "quality", "≥", "GPUs", "deployment")
DRAWN = ("cascadia", "stand-alone", "cascadeserve", "uniform")


def table(problem: Problem, found: Comparison) -> "Table":
    from rich.table import Table

    goal = problem.objective
    shown = Table(
        title=f"{rate(problem.workload.rate_rps)}, {problem.cluster.gpus} GPUs, quality ≥ {goal.quality_min or 0:g};"
        f" SLO scale 1 is {seconds(found.slo_base_s)}",
        title_justify="left",
    )
    for at, name in enumerate(columns(problem)):
        shown.add_column(name, justify="right" if 0 < at < 10 else "left")
    for outcome in found.outcomes:
        shown.add_row(*row(outcome), style="bold" if outcome.name == "cascadia" else None)
    return shown


def columns(problem: Problem) -> tuple[str, ...]:
    return tuple(f"p{problem.objective.quantile * 100:g}" if c == "p" else c for c in COLUMNS)


def row(o: Outcome) -> tuple[str, ...]:
    said = "; ".join(text for text in (o.why, o.assumed) if text)
    if not isfinite(o.latency_s):
        return (o.name, "-", "-", "-", "-", _figure(o.max_rate_rps), "-", "-", "-", "-", said)
    text = f"{o.deployment} ({said})" if said else o.deployment
    latency = seconds(o.latency_s)
    if o.error_range is not None:
        latency += f"\n({span(o.error_range.fast_s, o.error_range.slow_s)})"
    first, each = (seconds(s) if isfinite(s) else "-" for s in (o.ttft_s, o.tpot_s))
    speed = _figure(o.slo_scale), latency, first, each, _figure(o.max_rate_rps)
    quality = f"{o.quality_mean:.1f}", f"{o.quality_lower:.1f}"
    return (o.name, *speed, usd(o.usd_per_1k_requests), *quality, str(o.gpus), text)


def as_json(problem: Problem, found: Comparison) -> dict[str, Any]:
    return {
        "rate_rps": problem.workload.rate_rps,
        "gpus": problem.cluster.gpus,
        "quality_min": problem.objective.quality_min,
        "quantile": problem.objective.quantile,
        "slo_base_s": found.slo_base_s,
        "systems": found.outcomes,
        "gates": found.gates,
        "notes": problem.notes,
    }


def write_plots(path: Path, problem: Problem, found: Comparison) -> None:
    curves = [
        Series(o.name, o.curve.limit_s / found.slo_base_s, o.curve.share * 100)
        for o in found.outcomes
        if o.curve is not None and o.name.startswith(DRAWN)
    ]
    chart = line_chart(
        curves,
        title="SLO attainment",
        x_label="SLO scale",
        y_label="% of requests done within it",
        log_x=True,
        h_lines=((95.0, "95 %"),),
    )
    rows = tuple(row(o) for o in found.outcomes)
    write_whole(
        path,
        page(
            f"Systems at {rate(problem.workload.rate_rps)}",
            (
                Section("Table", columns=columns(problem), rows=rows),
                Section("Attainment", body=chart),
            ),
        ),
    )


def _figure(value: float) -> str:
    return figures(value) if isfinite(value) else "-"
