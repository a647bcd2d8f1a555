"""report.html: one file that explains a plan, on a screen or on paper, and needs nothing else."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cascadia.report import comparisons, findings, pictures, renting, tables, words
from cascadia.report.charts import CHART_CSS
from cascadia.report.data import ReportData
from cascadia.report.gpu_map import gpu_map
from cascadia.report.names import device, devices, printable
from cascadia.report.numbers import figures, lower_bound, percent, plural, quality, seconds, usd
from cascadia.report.page import PAGE_CSS
from cascadia.report.tables import Table

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

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
            words.cost(plan, data.gpu_names, data.tokens_per_request),
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
    left = f"{free:,} of {plan.cluster.gpus:,} free" if free else "all in use"
    prices = words.other_prices(plan, data.tokens_per_request)
    return (
        Tile(f"Quality, {percent(q.confidence)} sure", f"≥ {lower_bound(q.lower)}", f"mean {quality(q.mean)} of 100"),
        Tile(f"Latency, {name}", seconds(predicted.objective_s), f"median {seconds(predicted.e2e.p50_s)}"),
        Tile("Per 1,000 requests", usd(predicted.usd_per_1k_requests), prices),
        Tile(devices(plan.cluster.pools), f"{plan.gpus:,}", left),
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
    yield from _renting(data)
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
    ranges = [words.error_range(plan), words.question_range(plan), words.at_other_rates(plan)]
    lead = (
        words.proof(plan),
        words.allocation(plan),
        words.guarantee(plan),
        *(f"{text}." for text in ranges if text),
    )
    calibrations = tables.calibrations(plan)
    yield Section(
        "proof",
        "How sure this is",
        lead,
        tables=(tables.proof(plan), *([calibrations] if calibrations is not None else [])),
    )


def _renting(data: ReportData) -> Iterable[Section]:
    """Section on what to rent; empty where there was no choice and no node comes and goes."""
    plan, told = data.plan, data.renting
    found = [renting.worth_table(told.worths)] if told is not None and told.worths else []
    found += [renting.loss_table(plan)] if plan.losses else []
    charts = (renting.cost_chart(plan, told.costs),) if told is not None and len(told.costs) > 1 else ()
    said = next((note for note in data.notes if "type dominates" in note or "no GPU type" in note), "")
    lead = tuple(f"{text[0].upper()}{text[1:]}." for text in (printable(said), renting.lost(plan)) if text)
    if found or charts:
        yield Section("rent", "What to rent", lead, wide=charts, tables=tuple(found))


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
    """Section on gears; nothing where one setting serves any load."""
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
        (
            "Cluster",
            "; ".join(
                f"{printable(p.name)}: {plural(p.gpus, device(plan.cluster.pools))}"
                for p in plan.cluster.pools
            ),
        ),
    )
    return tuple((name, value) for name, value in entries if value)


def code(sentence: str) -> "Markup":
    """The sentence as markup, with what stands between backticks as code."""
    from markupsafe import Markup, escape

    parts = sentence.split("`")
    if len(parts) % 2 == 0:
        return escape(sentence)
    marked = (
        Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts)
    )
    return Markup("").join(marked)


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
    environment.filters["code"] = code
    return environment.get_template("report.html.j2")
