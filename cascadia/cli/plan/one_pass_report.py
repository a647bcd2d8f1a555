"""report.html of models that answer in one pass: what was chosen beside what else there was, and who sits where."""

from collections import Counter

import numpy as np

from cascadia import __version__
from cascadia.planner.policies.planned import OnePassPlan
from cascadia.planner.policies.played import Outcome
from cascadia.report.data import LatencySamples
from cascadia.report.names import printable
from cascadia.report.numbers import figures, percent, plural, quality, seconds, usd
from cascadia.report.page import Section, page
from cascadia.report.pictures import latency_curves


def one_pass_report(found: OnePassPlan, spec: str, command: str, date: str) -> str:
    plan, chosen = found.plan, found.chosen
    predicted = plan.predicted
    workers = plural(chosen.group.workers, "worker")
    lead = (
        f"{workers} of kind {chosen.kind.name} answer {figures(predicted.rate_rps)} requests/s within "
        f"{seconds(chosen.group.slo_s)}, but for {percent(chosen.outcome.late, 2)}, "
        f"{quality(chosen.outcome.accuracy)} % of them rightly"
    )
    price = f", for {usd(chosen.usd_per_hour)}/h" if chosen.usd_per_hour else ""
    bound = "" if chosen.bound is None else f" No policy on these workers passes {quality(chosen.bound)} %."
    return page(
        f"One-pass plan: {printable(spec)}",
        (
            Section("What was chosen", lead=f"{lead}{price}.{bound}", columns=_OUTCOMES, rows=_rivals(found)),
            Section(
                "Which model answers",
                lead="Models from the least accurate to the most; time is of a batch.",
                columns=("model", "right of 100", "answers", "batch of 1", "largest batch in time", "takes"),
                rows=_models(found),
            ),
            Section(
                "Who sits where",
                lead="Models that each worker has in memory.",
                columns=("workers", "models", "memory"),
                rows=_sits(found),
            ),
            Section("Latency", body=_latency(found)),
            Section(
                "Where this comes from",
                lead=f"{printable(command)} · Cascadia {__version__}, {date} · seed {plan.seed} · inputs "
                f"{plan.digest[:12]}",
                columns=("note", ""),
                rows=tuple((printable(note), "") for note in found.notes),
            ),
        ),
    )


_OUTCOMES = ("policies", "right of 100", "late", "p50", "p95", "p99", "workers busy", "inputs a batch")


def _rivals(found: OnePassPlan) -> tuple[tuple[str, ...], ...]:
    def told(name: str, outcome: Outcome) -> tuple[str, ...]:
        times = (seconds(each) for each in (outcome.p50_s, outcome.p95_s, outcome.p99_s))
        return (
            name, quality(outcome.accuracy), percent(outcome.late, 2), *times, percent(outcome.busy),
            figures(outcome.batch),
        )  # fmt: skip

    chosen = found.chosen
    rows = [
        told(f"{policies.kind}, chosen" if policies is chosen.policies else policies.kind, outcome)
        for policies, outcome in chosen.rivals
    ]
    return tuple(rows)


def _models(found: OnePassPlan) -> tuple[tuple[str, ...], ...]:
    slo_s, predicted = found.chosen.group.slo_s, found.plan.predicted
    shares = {stage.name: stage.accepted for stage in predicted.stages}
    rows = []
    for stage in found.plan.stages:
        in_time = [size for size, takes_s in enumerate(stage.batch_s, start=1) if takes_s <= slo_s]
        largest = max(in_time, default=0)
        rows.append(
            (
                printable(stage.name),
                quality(stage.accuracy or 0.0),
                percent(shares.get(stage.name, 0.0), 1) if stage.deployed else "not deployed",
                seconds(stage.batch_s[0]),
                f"{largest}" if largest else "none",
                seconds(stage.batch_s[largest - 1]) if largest else "–",
            )
        )
    return tuple(rows)


def _sits(found: OnePassPlan) -> tuple[tuple[str, ...], ...]:
    kind = found.chosen.kind

    def memory(models: tuple[str, ...]) -> str:
        if kind.memory_gib is None:
            return "not bounded"
        return f"{sum(map(kind.takes, models)):.2g} of {kind.memory_gib:.2g} GiB"

    return tuple(
        (f"{count}", printable(", ".join(models)), memory(models))
        for models, count in Counter(found.chosen.sits).items()
    )


def _latency(found: OnePassPlan) -> str:
    latency_s, model = found.run.latency_s, found.run.model
    answered = np.isfinite(latency_s)
    if not answered.any():
        return ""
    names = found.chosen.policies.models
    by_stage = {name: latency_s[answered & (model == at)] for at, name in enumerate(names)}
    return latency_curves(found.plan, LatencySamples(latency_s[answered], by_stage))
