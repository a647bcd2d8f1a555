"""report.html: one file that explains a plan, on a screen or on paper, and needs nothing else."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cascadia.report import findings, pictures, tables, words
from cascadia.report.charts import CHART_CSS
from cascadia.report.data import ReportData
from cascadia.report.gpu_map import gpu_map
from cascadia.report.names import printable
from cascadia.report.numbers import figures, percent, plural, score, seconds, usd
from cascadia.report.page import PAGE_CSS
from cascadia.report.tables import Table

if TYPE_CHECKING:
    from jinja2 import Template

TEMPLATES = Path(__file__).parent / "templates"


class Tile(NamedTuple):
    """A key figure."""

    label: str
    value: str
    detail: str


class Section(NamedTuple):
    """`wide` pictures take the page's width, `pair` stand side by side. All pictures are markup of ours."""

    anchor: str
    heading: str
    lead: tuple[str, ...] = ()
    wide: tuple[str, ...] = ()
    pair: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()


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
        Tile("Quality, at least", score(q.lower), f"mean {score(q.mean)}, {percent(q.confidence)} confidence"),
        Tile(f"Latency, {name}", seconds(predicted.objective_s), f"median {seconds(predicted.e2e.p50_s)}"),
        Tile("Per 1,000 requests", usd(predicted.usd_per_1k_requests), f"{usd(predicted.usd_per_hour)} an hour"),
        Tile("GPUs", f"{plan.gpus:,}", f"of {plan.cluster.gpus:,}" if free else "all in use"),
        Tile("Rate", f"{figures(predicted.rate_rps)}/s", "requests, mean over the trace"),
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
        wide=(gpu_map(plan, data.gpu_names),),
        tables=(tables.replicas(plan, data.gpu_names),),
    )
    yield _latency(data)
    if data.frontier:
        charts = pictures.frontier(plan, data.frontier)
        yield Section("frontier", "Quality, latency and cost", (findings.frontier(data),), pair=charts)
    if data.attainment:
        charts = pictures.attainment(data)
        yield Section("baselines", "Against the baselines", (findings.attainment(data),), pair=charts)
    if data.rate_sensitivity is not None or data.quality_sensitivity:
        yield _sensitivity(data)
    gears = tables.gears(plan)
    if gears is not None:
        yield Section("gears", "When the rate changes", tables=(gears,))
    lead = (words.proof(plan), words.guarantee(plan))
    yield Section("proof", "How sure this is", lead, tables=(tables.proof(plan),))


def _latency(data: ReportData) -> Section:
    charts = []
    if data.latency is not None and len(data.latency.e2e_s):
        charts.append(pictures.latency_curves(data.plan, data.latency))
    if data.queues:
        charts.append(pictures.queues(data.plan, data.queues))
    lead = (words.both_latencies(data.plan),)
    return Section("latency", "Latency", lead, pair=tuple(charts), tables=(tables.latencies(data.plan),))


def _sensitivity(data: ReportData) -> Section:
    charts: list[str] = []
    lead: list[str] = []
    if data.rate_sensitivity is not None:
        charts.append(pictures.rate_sensitivity(data))
        lead.append(findings.rate_sensitivity(data))
    if data.quality_sensitivity:
        charts += pictures.quality_sensitivity(data)
        lead.append(findings.quality_sensitivity(data))
    return Section("sensitivity", "If things change", tuple(lead), pair=tuple(charts))


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


@cache
def _template() -> "Template":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(TEMPLATES)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report.html.j2")
