"""Findings: what each chart shows, in a sentence, so that it stands in words as well."""

import math

import numpy as np

from cascadia.report import words
from cascadia.report.data import ReportData, Swing
from cascadia.report.names import listing, printable
from cascadia.report.numbers import figures, lower_bound, percent, plural, rate, score, seconds, usd


def attainment(data: ReportData) -> str:
    """Sentence on the comparison with the best baseline that reaches the quality asked for; those that don't
    are no rivals.
    """
    ours = next((c for c in data.attainment if c.chosen), None)
    base = f" A scale of 1 is {figures(data.slo_base_s)} s." if data.slo_base_s is not None else ""
    if ours is None or ours.scale_at_95 is None:
        return (
            f"This plan never gets 95 % of requests within the scales shown.{base}" if ours else base.strip()
        )
    others = [c for c in data.attainment if not c.chosen]
    below = [printable(c.name) for c in others if data.misses_bar(c.name)]
    rivals = [
        (c.scale_at_95, c.name) for c in others if c.scale_at_95 is not None and not data.misses_bar(c.name)
    ]
    start = f"95 % of requests are done within {figures(ours.scale_at_95)} times the SLO."
    verb = "misses" if len(below) == 1 else "miss"
    left_out = f" {listing(below)} {verb} the quality asked for and cannot be compared." if below else ""
    if not rivals:
        return f"{start}{left_out}{base}"
    scale, name = min(rivals)
    ratio = scale / ours.scale_at_95
    if ratio >= 1.005:
        return f"{start} The best baseline, {printable(name)}, needs {figures(ratio)} times as much.{left_out}{base}"
    if ratio > 0.995:
        return f"{start} {printable(name)} does as well.{left_out}{base}"
    return f"{start} {printable(name)} needs less: {figures(scale)}.{left_out}{base}"


def frontier(data: ReportData) -> str:
    chosen = next((p for p in data.frontier if p.chosen), None)
    if chosen is None:
        return "The line joins ways to serve this workload that no other beats in both."
    name = words.quantile_name(data.plan)
    return (
        f"This plan: quality {lower_bound(chosen.quality_lower)}, {name} {seconds(chosen.latency_s)}, "
        f"{usd(chosen.usd_per_1k_requests)} per 1,000 requests. The line joins the ways to serve this workload that "
        "no other beats in both; diamonds are baselines. The models alone and the coin (a mixture of two, drawn "
        "without looking) are what `cascadia compare` deploys."
    )


def knee(data: ReportData) -> str:
    """Sentence on what this plan gave up of the fastest, and for how much."""
    chosen = next((p for p in data.knee if p.chosen), None)
    fastest = next((p for p in data.knee if p.fastest), None)
    tail = "The curve is of what the search tried, which was little among the cheap."
    if chosen is None or fastest is None or chosen is fastest:
        return tail
    slower, cheaper = chosen.latency_s / fastest.latency_s - 1, 1 - chosen.usd_per_hour / fastest.usd_per_hour
    return (
        f"This plan is {percent(slower, 1)} slower than the fastest that was found and {percent(cheaper)} cheaper: of "
        f"all within {percent(data.plan.objective.within)} of that one it costs least (objective.within). {tail}"
    )


def rate_sensitivity(data: ReportData) -> str:
    change = data.rate_sensitivity
    if change is None:
        return ""
    planned = data.plan.predicted.rate_rps
    held = change.multiplier[np.isfinite(change.p95_s)]
    if not len(held):
        return "This plan sustains none of the rates tried."
    top = int(np.argmax(np.where(np.isfinite(change.p95_s), change.multiplier, -math.inf)))
    at = f"At {rate(float(change.multiplier[top]) * planned)} p95 is {seconds(float(change.p95_s[top]))}"
    lost = change.multiplier[~np.isfinite(change.p95_s)]
    if not len(lost):
        return f"{at}, and the plan still keeps up."
    return f"{at}; at {rate(float(lost.min()) * planned)} it no longer keeps up, and queues grow without end."


def queues(data: ReportData) -> str:
    """The longest queue, and when."""
    queue = max(data.queues, key=lambda q: q.peak, default=None)
    if queue is None or queue.peak < 1:
        return "On the planning trace no request ever waits in a queue."
    at = f"{figures(queue.peak_s / 60, 2)} min" if queue.peak_s > 180 else seconds(queue.peak_s)
    where = f"in {printable(queue.name)}, {at} after the start"
    return f"On the planning trace the longest queue holds {plural(queue.peak, 'request')}, {where}."


def swing(told: Swing) -> str:
    """Sentence on how late the trace's requests are on gears, and with the single setting."""
    changed = "once" if told.switches == 1 else f"{told.switches:,} times"
    on, alone = told.on_gears, told.alone
    beside = (
        f"; with the plan's own single setting on the same replicas {lower_bound(alone.quality_lower)} and"
        f" {percent(alone.late_share, 1)}"
        if alone is not None
        else ""
    )
    return (
        f"On the planning trace the gear changes {changed}. Quality is at least {lower_bound(on.quality_lower)}, and"
        f" {percent(on.late_share, 1)} of the requests take longer than {seconds(told.bound_s)}{beside}."
    )


def quality_sensitivity(data: ReportData) -> str:
    out_of_reach = [s.quality_min for s in data.quality_sensitivity if not math.isfinite(s.latency_s)]
    start = "Each point is the best plan found for that quality on the same GPUs."
    if out_of_reach:
        return f"{start} Quality {score(min(out_of_reach))} is out of reach for them."
    return start
