"""report.html: one file, whole, safe, and with every number of the plan."""

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from cascadia.domain.plan import Plan
from cascadia.report import words
from cascadia.report.data import LoadOverTime, ReportData, Swing
from cascadia.report.html import TEMPLATES, render_report, tight
from cascadia.report.numbers import figures, percent, score, seconds, usd
from tests.unit.report import plans
from tests.unit.report.sample import bare_report, sample_plan, sample_report

SCRIPT = (TEMPLATES / "report.js").read_text(encoding="utf-8").strip()
VOID = {"meta", "br", "hr", "img", "input", "link"}


class Checker(HTMLParser):
    """Collects tags, attributes and text; fails on tags that do not nest."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)


def read(html: str) -> Checker:
    checker = Checker()
    checker.feed(html)
    checker.close()
    assert not checker.open
    return checker


def text_of(html: str) -> str:
    return " ".join(" ".join(read(html).words).replace("\N{NO-BREAK SPACE}", " ").split())


def headings(html: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", html)


def test_gears_are_drawn_over_the_trace_beside_the_single_setting() -> None:
    at = np.linspace(0.0, 240.0, 60)
    swing = Swing(
        at,
        np.where(at % 60 > 50, 60.0, 12.0),
        np.append(np.round(at[:-1] % 60 / 60), np.nan),
        77,
        6.0,
        LoadOverTime(at % 60, at / 2400, 0.049, 71.06),
        LoadOverTime(2 * (at % 60), at / 1200, 0.1, 67.7),
    )
    plain = render_report(sample_report())
    html = render_report(replace(sample_report(), swing=swing))
    assert html.count("<svg") == plain.count("<svg") + 4
    shown = text_of(html)
    for told in (
        "the gear changes 77 times. Quality is at least 71.0, and 4.9 % of the requests take longer than 6.00 s; with",
        "67.7 and 10.0 %.",
        "Rate over the trace",
        "Requests in flight",
        "Later than 6.00 s",
    ):
        assert told in shown
    assert "single setting" not in text_of(plain)


def test_a_full_report_has_all_sections() -> None:
    assert headings(render_report(sample_report())) == [
        "To note",
        "Where requests are answered",
        "What runs where",
        "Latency",
        "Quality, latency and cost",
        "What latency costs",
        "Against the baselines",
        "Under load",
        "What more quality takes",
        "Gears for rising load",
        "How sure this is",
        "Where this comes from",
    ]


def test_what_is_absent_is_left_out_with_its_section() -> None:
    assert headings(render_report(bare_report())) == [
        "Where requests are answered",
        "What runs where",
        "Latency",
        "How sure this is",
        "Where this comes from",
    ]


def test_every_link_in_the_page_has_its_target() -> None:
    html = render_report(sample_report())
    targets = set(re.findall(r'href="#([^"]+)"', html))
    assert targets
    assert targets == set(re.findall(r'<section id="([^"]+)"', html))


def test_nothing_is_fetched_from_anywhere() -> None:
    html = render_report(sample_report())
    checker = read(html)
    assert not {"link", "img", "iframe", "object", "embed", "use", "base"} & set(checker.tags)
    # Its own script stands in the page, and asks nobody.
    assert html.count("<script") == html.count(SCRIPT) == 1
    assert not re.search(r"fetch\(|XMLHttp|WebSocket|EventSource|sendBeacon|import\b|innerHTML|eval", SCRIPT)
    assert not [a for a in checker.attributes if a[1] in ("src", "srcset", "xlink:href", "action")]
    assert all(value.startswith("#") for _, name, value in checker.attributes if name == "href")
    assert not re.search(r"https?:|@import|url\(", html)


def test_every_number_of_the_plan_is_shown() -> None:
    plan = sample_plan()
    shown = text_of(render_report(sample_report()))
    expected = [plan.digest, score(plan.predicted.quality.mean), score(plan.predicted.quality.lower)]
    for stage in (*plan.predicted.stages, plan.predicted.judge):
        assert stage is not None
        latency = (stage.latency.p50_s, stage.latency.p95_s, stage.latency.p99_s)
        expected += [seconds(value) for value in latency]
        expected += [figures(stage.rate_rps), figures(stage.tokens_per_s), words.load(stage)]
    for stage in plan.predicted.stages:
        expected += [percent(stage.reached, 1), percent(stage.accepted, 1)]
    for quantiles in (plan.predicted.e2e, plan.predicted.ttft):
        expected += [
            seconds(v) for v in (quantiles.mean_s, quantiles.p50_s, quantiles.p95_s, quantiles.p99_s)
        ]
    expected += [usd(plan.predicted.usd_per_hour), usd(plan.predicted.usd_per_1k_requests)]
    expected += [seconds(plan.proof.bound_s), seconds(plan.predicted.stage_bound_s), seconds(plan.wall_s)]
    expected += [words.threshold_words(words.limits(plan, stage.name)) for stage in plan.stages]
    expected += ["TP8", "TP4 PP2", "54 %", "46 %", "--seed 7"]
    assert [value for value in expected if value not in shown] == []


@pytest.mark.parametrize(
    "payload",
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "{{ 7 * 7 }}{% raw %}",
        "'-alert(1)-'",
        "</style>",
    ],
)
def test_names_from_outside_stay_text(payload: str) -> None:
    safe = replace(sample_report(), plan=plans.hostile("x"), spec_name="x", notes=("x",), command="x")
    full = replace(
        sample_report(),
        plan=plans.hostile(payload),
        spec_name=payload,
        notes=(payload,),
        command=payload,
        date=payload,
        gpu_names={payload: payload},
        frontier=tuple(replace(p, label=payload) for p in sample_report().frontier),
        attainment=tuple(replace(c, name=payload) for c in sample_report().attainment),
        queues=tuple(replace(q, name=payload) for q in sample_report().queues),
    )
    checker = read(render_report(full))
    assert checker.tags.count("script") == 1
    assert "img" not in checker.tags
    assert not [name for _, name, _ in checker.attributes if name.startswith("on")]
    assert checker.tags.count("style") == read(render_report(safe)).tags.count("style") == 1
    assert payload in " ".join(checker.words)


@pytest.mark.parametrize("make", plans.EDGES)
def test_plans_at_the_edges_are_explained_too(make: Callable[[], Plan]) -> None:
    shown = text_of(render_report(ReportData(plan=make())))
    assert "nan" not in shown
    assert "None" not in shown
    assert all(stage.name in shown for stage in make().stages)


@pytest.mark.parametrize("make", plans.EDGES)
def test_tables_have_as_many_cells_in_every_row(make: Callable[[], Plan]) -> None:
    html = render_report(ReportData(plan=make()))
    for table in re.findall(r"<table>(.*?)</table>", html, re.DOTALL):
        rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
        assert len({len(re.findall(r"<t[hd][ >]", row)) for row in rows}) == 1


def test_data_at_the_edges_is_drawn_without_harm() -> None:
    sample = sample_report()
    never = np.full(6, np.nan)
    assert sample.rate_sensitivity is not None
    assert sample.latency is not None
    data = replace(
        sample,
        rate_sensitivity=replace(sample.rate_sensitivity, p50_s=never, p95_s=never, p99_s=never),
        quality_sensitivity=sample.quality_sensitivity[-1:],
        attainment=tuple(replace(c, scale_at_95=None) for c in sample.attainment),
        latency=replace(sample.latency, e2e_s=np.array([1.0]), stages_s={"small": np.empty(0)}),
        queues=tuple(replace(q, waiting=np.zeros(240), peak=0) for q in sample.queues),
        frontier=sample.frontier[-1:],
    )
    html = render_report(data)
    shown = text_of(html)
    assert "sustains none of the rates tried" in shown
    assert "never gets 95 % of requests within the scales shown" in shown
    assert "no request ever waits in a queue" in shown
    assert not re.search(r'"[^"]*\bnan\b[^"]*"', html)


def test_findings_say_wins_and_losses_alike() -> None:
    sample = sample_report()
    assert "The best baseline, CascadeServe, needs 1.73 times as much" in text_of(render_report(sample))
    worse = tuple(replace(c, scale_at_95=9.9) if c.chosen else c for c in sample.attainment)
    assert "CascadeServe needs less: 4.69." in text_of(render_report(replace(sample, attainment=worse)))


def test_a_baseline_below_the_bar_is_no_rival() -> None:
    sample = sample_report()
    points = tuple(
        replace(p, quality_lower=70.0) if p.label == "CascadeServe" else p for p in sample.frontier
    )
    shown = text_of(render_report(replace(sample, frontier=points)))
    assert "The best baseline, Uniform parallelism, needs 1.93 times" in shown
    assert (
        "CascadeServe and RouteLLM-style pre-router miss the quality asked for and cannot be compared."
        in shown
    )
    assert "CascadeServe (low quality)" in shown


def test_it_knows_dark_pages_print_and_the_keyboard() -> None:
    html = render_report(sample_report())
    assert "prefers-color-scheme:dark" in html
    assert "@media print" in html
    assert "size:A4" in html
    assert ":focus-visible" in html


def test_every_picture_says_in_words_what_it_shows() -> None:
    checker = read(render_report(sample_report()))
    pictures = checker.tags.count("svg")
    labels = [value for tag, name, value in checker.attributes if tag == "svg" and name == "aria-label"]
    assert pictures == len(labels) == 12
    assert all(len(label) > 20 for label in labels)


def test_numbers_do_not_part_from_their_units() -> None:
    assert tight("in 12.3 s, 62 % of 8 H100 GPUs") == "in 12.3~s, 62~% of 8~H100~GPUs".replace("~", "\xa0")


def test_it_is_the_same_every_time() -> None:
    assert render_report(sample_report()) == render_report(sample_report())
