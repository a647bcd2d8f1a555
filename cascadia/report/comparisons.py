"""The report's charts that set a plan beside others: baselines, other rates, other qualities."""

from collections.abc import Sequence

import numpy as np

from cascadia.domain.plan import Plan
from cascadia.report import words
from cascadia.report.charts import (
    Bars,
    Mark,
    Series,
    bar_chart,
    line_chart,
    scatter,
)
from cascadia.report.charts.scale import Format, Range, flattened, plain
from cascadia.report.charts.svg import Colour, Floats
from cascadia.report.data import FrontierPoint, KneePoint, ReportData
from cascadia.report.names import devices, printable
from cascadia.report.numbers import asked_for, lower_bound, percent, quality, rate, score, seconds, usd
from cascadia.report.pictures import colour_of

LOG_SCALE = ", log scale"


def frontier(plan: Plan, points: Sequence[FrontierPoint]) -> tuple[str, ...]:
    """Quality against latency, and against cost."""
    latency = [p.latency_s for p in points]
    dollars = [p.usd_per_1k_requests for p in points]
    bar, limit = plan.objective.quality_min, plan.objective.deadline
    name = words.quantile_name(plan)
    return (
        _quality_against(
            points,
            latency,
            "Quality against latency",
            x_label=f"{name} latency, seconds",
            bar=bar,
            limit=None if limit is None else limit.max_s,
            form=seconds,
        ),
        _quality_against(
            points,
            dollars,
            "Quality against cost",
            x_label="US dollars per 1,000 requests",
            bar=bar,
            limit=None,
            form=usd,
        ),
    )


def _quality_against(
    points: Sequence[FrontierPoint],
    x: Sequence[float],
    title: str,
    *,
    x_label: str,
    bar: float | None,
    limit: float | None,
    form: Format,
) -> str:
    ours = [(at, p.quality_lower) for p, at in zip(points, x, strict=True) if not p.baseline]
    marks = [
        Mark(
            at,
            p.quality_lower,
            printable(p.label),
            colour="ink" if p.chosen else "grey",
            shape="ring" if p.chosen else "diamond" if p.baseline else "dot",
            tip=f"{printable(p.label) or 'on the frontier'}: quality {lower_bound(p.quality_lower)} "
            f"(mean {quality(p.quality_mean)}), {form(at)}",
        )
        for p, at in zip(points, x, strict=True)
        if p.chosen or p.baseline or p.label
    ]
    log = flattened([x])
    return scatter(
        [at for at, _ in ours],
        [quality for _, quality in ours],
        title=title,
        x_label=x_label + LOG_SCALE * log,
        y_label="quality (lower bound)",
        log_x=log,
        frontier=True,
        colour="grey",
        points=marks,
        h_lines=((bar, f"asked for: {asked_for(bar)}"),) if bar else (),
        v_lines=((limit, f"at most {seconds(limit)}"),) if limit else (),
    )


def knee(plan: Plan, points: Sequence[KneePoint]) -> str:
    """Dollars against latency, both on log scales: where the curve flattens, more money buys little."""
    marks = [
        Mark(
            p.usd_per_hour,
            p.latency_s,
            "this plan" if p.chosen else "fastest" if p.fastest else "",
            colour="ink" if p.chosen else "grey",
            shape="ring" if p.chosen else "dot",
            tip=f"{usd(p.usd_per_hour)} an hour, {p.gpus} GPUs: {seconds(p.latency_s)}",
        )
        for p in points
    ]
    dollars, latency = [p.usd_per_hour for p in points], [p.latency_s for p in points]
    return line_chart(
        [Series("tried, and beaten by none", dollars, latency, "grey")],
        title="What latency costs",
        x_label="US dollars an hour, log scale",
        y_label=f"{words.quantile_name(plan)} latency, seconds",
        log_x=True,
        log_y=True,
        points=marks,
        legend=False,
    )


def attainment(data: ReportData) -> tuple[str, ...]:
    """The curves, and the least scale of each that 95 % of requests meet. Dashed and grey: below the bar."""
    curves = sorted(data.attainment, key=lambda c: not c.chosen)
    taken = len(data.plan.stages)
    below = [data.misses_bar(c.name) for c in curves]
    names = [
        printable(c.name) + (" (low quality)" if low else "") for c, low in zip(curves, below, strict=True)
    ]
    colours: list[Colour] = ["ink" if c.chosen else taken + i - 1 for i, c in enumerate(curves)]
    met = sorted(
        (low, c.scale_at_95, printable(c.name), "grey" if low else colour)
        for c, colour, low in zip(curves, colours, below, strict=True)
        if c.scale_at_95 is not None
    )
    lines = line_chart(
        [
            Series(name, c.scale, c.attainment, colour, bold=c.chosen, dashed=low)
            for c, name, colour, low in zip(curves, names, colours, below, strict=True)
        ],
        title="Requests done within the SLO",
        x_label="SLO scale",
        y_label="share of requests",
        x_range=_up_to(
            [c.scale for c in curves], max(scale for _, scale, _, _ in met) * 1.25 if met else np.inf
        ),
        y_range=(0.0, 1.0),
        y_format=percent,
        h_lines=((0.95, "95 %"),),
    )
    if not met:
        return (lines,)
    bars = bar_chart(
        [name for _, _, name, _ in met],
        [Bars("scale", [scale for _, scale, _, _ in met], colours=tuple(colour for *_, colour in met))],
        title="Least SLO scale that 95 % meet",
        y_label="smaller is better",
        horizontal=True,
        v_format=lambda value: f"{value:.2f}",
        apart=(sum(low for low, *_ in met), "below the quality asked for: no rivals"),
    )
    return lines, bars


def _up_to(scales: Sequence[Floats], most: float) -> Range | None:
    """Past the last curve's 95 % there is only the long tail."""
    low = min((float(s[0]) for s in scales if len(s)), default=0.0)
    high = min(max((float(s[-1]) for s in scales if len(s)), default=0.0), most)
    return (low, high) if high > low else None


def rate_sensitivity(data: ReportData) -> str:
    change = data.rate_sensitivity
    if change is None or not np.isfinite(change.p95_s).any():
        return ""
    planned = data.plan.predicted.rate_rps
    rates = change.multiplier * planned
    unstable = rates[~np.isfinite(change.p95_s)]
    log = flattened([change.p50_s, change.p95_s, change.p99_s])
    lost = ((float(unstable.min()), "no longer keeps up"),) if len(unstable) else ()
    return line_chart(
        [
            Series("p99", rates, change.p99_s, "grey"),
            Series("p95", rates, change.p95_s, "ink", bold=True),
            Series("p50", rates, change.p50_s, "grey"),
        ],
        title="This plan at other rates",
        x_label="requests/s",
        y_label="end-to-end latency, seconds" + LOG_SCALE * log,
        log_y=log,
        markers=True,
        x_range=(float(rates.min()), float(rates.max())),
        v_lines=((planned, f"planned: {rate(planned)}"), *lost),
    )


def quality_sensitivity(data: ReportData) -> tuple[str, ...]:
    """The best plan's latency at other quality bars, and its GPUs."""
    steps = sorted(
        (s for s in data.quality_sensitivity if np.isfinite(s.latency_s)), key=lambda s: s.quality_min
    )
    if not steps:
        return ()
    name = words.quantile_name(data.plan)
    bars = [score(step.quality_min) for step in steps]
    chosen = data.plan.objective.quality_min
    log = flattened([[s.latency_s for s in steps]])
    latency = line_chart(
        [Series("latency", [s.quality_min for s in steps], [s.latency_s for s in steps], "ink")],
        title="Latency at other qualities",
        x_label="quality asked for",
        y_label=f"{name} of the best plan, seconds" + LOG_SCALE * log,
        log_y=log,
        markers=True,
        v_lines=((chosen, "this plan"),) if chosen else (),
    )
    stages = [s.name for s in data.plan.stages if any(step.gpus.get(s.name, 0) for step in steps)]
    gpus = bar_chart(
        bars,
        [
            Bars(printable(stage), [step.gpus.get(stage, 0) for step in steps], colour_of(data.plan, stage))
            for stage in stages
        ],
        title=f"{devices(data.plan.cluster.pools)} at other qualities",
        y_label=devices(data.plan.cluster.pools),
        x_label="quality asked for",
        stacked=True,
        v_format=plain,
    )
    return latency, gpus
