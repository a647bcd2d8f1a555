"""report.html: one file that explains a plan, on a screen or on paper, and needs nothing else."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cascadia.report import comparisons, findings, pictures, tables, words
from cascadia.report.charts import CHART_CSS
from cascadia.report.data import ReportData
from cascadia.report.gpu_map import gpu_map
from cascadia.report.names import printable
from cascadia.report.numbers import figures, lower_bound, percent, plural, quality, seconds, usd
from cascadia.report.page import PAGE_CSS
from cascadia.report.tables import Table

if TYPE_CHECKING:
    from jinja2 import Template

_BEFORE_UNIT = re.compile(r"(?<=[\d∞]) (?=(?:s|ms|min|%|GPUs?|[A-Z]\w+ GPUs?|of \d)(?!\w))")
TEMPLATES = Path(__file__).parent / "templates"


class Tile(NamedTuple):
    """A key figure."""

    label: str
    value: str
    detail: str


class Section(NamedTuple):
    """`wide` pictures take the page's width; `pair` and the tables `beside` them stand side by side.

    All pictures are markup of ours.
    """

    anchor: str
    heading: str
    lead: tuple[str, ...] = ()
    wide: tuple[str, ...] = ()
    pair: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    beside: tuple[Table, ...] = ()


def render_report(data: ReportData) -> str:
    plan = data.plan
    return _template().render(
        css=CHART_CSS + PAGE_CSS,
        title=f"Cascade plan: {printable(data.spec_name)}",
        headline=f"{words.headline(plan, data.gpu_names)}.",
        summary=(
            words.answered(plan, data.gpu_names),
            words.gates(plan),
            words.quality(plan),
            words.latency(plan),
            words.cost(plan, data.gpu_names),
        ),
        tiles=tiles(data),
        notes=tuple(printable(note) for note in data.notes),
        sections=tuple(_sections(data)),
        provenance=_provenance(data),
        command=printable(data.command or f"cascadia plan {data.spec_name} --seed {plan.seed} --out plan/"),
    )


def tiles(data: ReportData) -> tuple[Tile, ...]:
    plan, predicted = data.plan, data.plan.predicted
    q, name = predicted.quality, words.quantile_name(plan)
    free = plan.cluster.gpus - plan.gpus
    return (
        Tile(f"Quality, {percent(q.confidence)} sure", f"≥ {lower_bound(q.lower)}", f"mean {quality(q.mean)} of 100"),
        Tile(f"Latency, {name}", seconds(predicted.objective_s), f"median {seconds(predicted.e2e.p50_s)}"),
        Tile("Per 1,000 requests", usd(predicted.usd_per_1k_requests), f"{usd(predicted.usd_per_hour)} an hour"),
        Tile("GPUs", f"{plan.gpus:,}", f"{free:,} of {plan.cluster.gpus:,} free" if free else "all in use"),
        Tile("Rate", f"{figures(predicted.rate_rps)}", f"requests per second{words.headroom(plan)}"),
    )  # fmt: skip


def _sections(data: ReportData) -> Iterable[Section]:
    plan = data.plan
    yield Section(
        "flow",
        "Where requests are answered",
        wide=(pictures.flow(plan),),
        tables=(tables.stages(plan),),
    )
    yield Section(
        "gpus",
        "What runs where",
        (words.blocks(plan),),
        wide=(gpu_map(plan, data.gpu_names),),
        tables=(tables.replicas(plan, data.gpu_names),),
    )
    yield _latency(data)
    if data.frontier:
        charts = comparisons.frontier(plan, data.frontier)
        yield Section("frontier", "Quality, latency and cost", (findings.frontier(data),), pair=charts)
    if len(data.knee) > 1:
        yield Section(
            "knee",
            "What latency costs",
            (findings.knee(data),),
            wide=(comparisons.knee(plan, data.knee),),
            tables=(tables.knee(plan, data.knee),),
        )
    if data.attainment:
        charts = comparisons.attainment(data)
        yield Section("baselines", "Against the baselines", (findings.attainment(data),), pair=charts)
    if data.rate_sensitivity is not None or data.queues:
        yield _load(data)
    if data.quality_sensitivity:
        charts = comparisons.quality_sensitivity(data)
        yield Section(
            "quality", "What more quality takes", (findings.quality_sensitivity(data),), pair=charts
        )
    yield from _gears(data)
    error = words.error_range(plan)
    lead = (
        words.proof(plan),
        words.allocation(plan),
        words.guarantee(plan),
        *([f"{error}."] if error else []),
    )
    calibrations = tables.calibrations(plan)
    yield Section(
        "proof",
        "How sure this is",
        lead,
        tables=(tables.proof(plan), *([calibrations] if calibrations is not None else [])),
    )


def _latency(data: ReportData) -> Section:
    lead = (words.both_latencies(data.plan),)
    held = (tables.latencies(data.plan), tables.levels(data.plan))
    shown = tuple(table for table in held if table is not None)
    if data.latency is None or not len(data.latency.e2e_s):
        return Section("latency", "Latency", lead, tables=shown)
    curves = pictures.latency_curves(data.plan, data.latency)
    return Section("latency", "Latency", lead, pair=(curves,), beside=shown)


def _load(data: ReportData) -> Section:
    charts: list[str] = []
    lead = [f"The plan {carries}."] if (carries := words.carries(data.plan)) else []
    if data.rate_sensitivity is not None:
        charts.append(comparisons.rate_sensitivity(data))
        lead.append(findings.rate_sensitivity(data))
    if data.queues:
        charts.append(pictures.queues(data.plan, data.queues))
        lead.append(findings.queues(data))
    return Section("load", "Under load", (" ".join(lead),), pair=tuple(chart for chart in charts if chart))


def _gears(data: ReportData) -> Iterable[Section]:
    """Nothing where one setting serves any load."""
    table, swing = tables.gears(data.plan), data.swing
    if table is None:
        return
    lead, charts = ((findings.swing(swing),), pictures.swing(swing)) if swing else ((), ())
    yield Section("gears", "Gears for rising load", lead, pair=charts, tables=(table,))


def _provenance(data: ReportData) -> tuple[tuple[str, str], ...]:
    plan = data.plan
    entries = (
        ("Spec", printable(data.spec_name)),
        ("Digest of all inputs (SHA-256)", plan.digest),
        ("Seed", str(plan.seed)),
        ("Plan format", str(plan.version)),
        ("Cascadia", data.version),
        ("Date", data.date),
        ("Planned in", seconds(plan.wall_s)),
        ("Cluster", "; ".join(f"{printable(p.name)}: {plural(p.gpus, 'GPU')}" for p in plan.cluster.pools)),
    )
    return tuple((name, value) for name, value in entries if value)


def tight(sentence: str) -> str:
    """The sentence with no line break between a number and its unit."""
    return _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", sentence)


@cache
def _template() -> "Template":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(TEMPLATES)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["tight"] = tight
    return environment.get_template("report.html.j2")
