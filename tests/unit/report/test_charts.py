"""Charts are well-formed pictures that say the same in words."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia.report.charts import (
    Bars,
    Bins,
    FunnelStage,
    Mark,
    Series,
    bar_chart,
    funnel,
    histogram,
    line_chart,
    scatter,
)
from cascadia.report.charts.labels import spread
from cascadia.report.charts.scale import Scale, linear_ticks, log_ticks, span
from cascadia.report.charts.svg import chart, text

finite = st.floats(-1e9, 1e9, allow_nan=False)


def words(svg: str) -> list[str]:
    return ["".join(e.itertext()) for e in ET.fromstring(svg).iter("text")]


def numbers_are_finite(svg: str) -> bool:
    return "nan" not in svg and "inf" not in svg


@given(finite, st.floats(1e-6, 1e9), st.integers(2, 12))
def test_linear_ticks_are_round_evenly_spaced_and_inside(low: float, width: float, wanted: int) -> None:
    high = low + width
    if high - low < 1e-6 * max(abs(low), abs(high)):
        return
    ticks = linear_ticks(low, high, wanted)
    assert len(ticks) <= wanted + 1
    assert all(low - 1e-6 * width <= tick <= high + 1e-6 * width for tick in ticks)
    gaps = np.diff(ticks)
    assert np.allclose(gaps, gaps[:1], rtol=1e-3)


@given(st.floats(1e-6, 1e6), st.floats(1.05, 1e9), st.integers(3, 8))
def test_log_ticks_ascend_inside_the_range(low: float, ratio: float, wanted: int) -> None:
    ticks = log_ticks(low, low * ratio, wanted)
    assert ticks == sorted(set(ticks))
    assert all(low * 0.999 <= tick <= low * ratio * 1.001 for tick in ticks)
    assert len(ticks) <= wanted + 2


def test_known_ticks() -> None:
    assert linear_ticks(0, 1, 5) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert log_ticks(1, 1000, 5) == [1, 3, 10, 30, 100, 300, 1000]


@given(st.lists(st.floats(0, 100), min_size=1, max_size=8))
def test_spread_labels_stand_apart_in_their_order_within_the_plot(wanted: list[float]) -> None:
    placed = spread(wanted, 10, 0, 100)
    order = np.argsort(wanted, kind="stable")
    assert np.all(np.diff(np.array(placed)[order]) >= 10 - 1e-9)
    assert min(placed) >= -1e-9
    assert max(placed) <= 100 + 1e-9


def test_labels_with_room_stay_where_they_are_wanted() -> None:
    assert spread([50, 10, 90], 10, 0, 100) == [50, 10, 90]


def test_span_of_nothing_or_of_one_value_still_is_a_range() -> None:
    for values in ([], [np.nan, np.inf], [5.0], [0.0]):
        for log in (False, True):
            low, high = span([values], log=log)
            assert low < high


def test_a_scale_maps_ends_to_ends_and_marks_the_unplottable() -> None:
    scale = Scale(1, 100, 0, 200, log=True)
    assert np.allclose(scale([1, 10, 100]), [0, 100, 200])
    assert np.isnan(scale([0, -1, np.nan, np.inf])).all()


@given(
    st.lists(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=6), max_size=3),
    st.booleans(),
    st.booleans(),
)
def test_a_line_chart_of_any_numbers_is_well_formed(
    rows: list[list[float]], log_x: bool, log_y: bool
) -> None:
    rows = [[v if not abs(v) > 1e12 or np.isinf(v) else 1.0 for v in row] for row in rows]
    series = [Series(f"s{i}", np.arange(len(row)) + 1.0, row) for i, row in enumerate(rows)]
    svg = line_chart(series, title="T", x_label="x", y_label="y", log_x=log_x, log_y=log_y, markers=True)
    assert "T" in words(svg)
    assert numbers_are_finite(svg.replace("∞", ""))


@given(st.lists(st.floats(-1e100, 1e100) | st.just(np.nan) | st.just(np.inf), max_size=6), st.booleans())
def test_other_charts_of_any_numbers_are_well_formed(values: list[float], log: bool) -> None:
    names = [str(i) for i in range(len(values))]
    bars = [Bars("a", values), Bars("b", values[::-1])]
    for svg in (
        histogram(values, title="T", x_label="x", log_x=log),
        scatter(values, values[::-1], title="T", x_label="x", y_label="y", log_x=log, frontier=True),
        bar_chart(names, bars, title="T", y_label="y", stacked=log),
        bar_chart(names, bars, title="T", y_label="y", horizontal=True),
    ):
        assert words(svg)[0] == "T"


def test_a_picture_has_a_role_and_says_what_it_shows() -> None:
    svg = line_chart(
        [Series("p50", [0, 1], [1, 2]), Series("p95", [0, 1], [2, 9])],
        title="Latency",
        x_label="rate",
        y_label="seconds",
    )
    root = ET.fromstring(svg)
    assert root.get("role") == "img"
    assert root.get("aria-label") == "Latency. seconds by rate: p50, p95"


def test_lines_that_end_apart_are_named_at_their_ends_and_need_no_legend() -> None:
    svg = line_chart(
        [Series("low", [0, 1], [1, 1]), Series("high", [0, 1], [1, 9])], title="T", x_label="", y_label=""
    )
    labels = [e for e in ET.fromstring(svg).iter("text") if e.get("class") == "label"]
    assert ["".join(e.itertext()) for e in labels] == ["low", "high"]


def test_lines_without_room_for_names_get_a_legend_that_lists_each_once() -> None:
    x = np.linspace(0, 1, 50)
    names = [f"a series with a long name {i}" for i in range(5)]
    svg = line_chart([Series(n, x, x**2) for n in names], title="T", x_label="", y_label="y")
    assert [w for w in words(svg) if w.startswith("a series")] == names


@pytest.mark.parametrize("log_x", [False, True])
def test_a_histogram_counts_every_value_once(log_x: bool) -> None:
    values = np.random.default_rng(1).lognormal(5, 1, 5000)
    svg = histogram(values, title="T", x_label="tokens", log_x=log_x)
    tips = ["".join(e.itertext()) for e in ET.fromstring(svg).iter("title")]
    counts = [int(tip.split("tokens: ")[1].split(" requests")[0].replace(",", "")) for tip in tips]
    assert sum(counts) == 5000


def test_a_histogram_takes_bins_that_were_counted_elsewhere() -> None:
    svg = histogram(Bins([3, 0, 5], [1, 10, 100, 1000]), title="T", x_label="tokens", log_x=True)
    tips = ["".join(e.itertext()) for e in ET.fromstring(svg).iter("title")]
    assert tips == ["1 to 10 tokens: 3 requests, 37.5 %", "100 to 1,000 tokens: 5 requests, 62.5 %"]


def test_histograms_and_scatters_of_nothing_are_empty_frames() -> None:
    for svg in (
        histogram([], title="T", x_label="x"),
        histogram([np.nan], title="T", x_label="x", log_x=True),
        scatter([], [], title="T", x_label="x", y_label="y", log_x=True),
    ):
        assert numbers_are_finite(svg)
        assert words(svg)[0] == "T"


def test_a_large_scatter_is_thinned() -> None:
    values = np.arange(1, 1_000_001.0)
    assert len(scatter(values, values, title="T", x_label="x", y_label="y")) < 100_000


def test_marks_are_named_and_those_outside_left_out() -> None:
    svg = scatter(
        [1, 2], [1, 2], title="T", x_label="x", y_label="y", x_range=(0, 3), y_range=(0, 3),
        points=[Mark(1.5, 1.5, "chosen", shape="ring"), Mark(9, 9, "far")],
    )  # fmt: skip
    assert "chosen" in words(svg)
    assert "far" not in words(svg)


def test_stacked_bars_show_totals_and_grouped_bars_their_own_values() -> None:
    series = [Bars("a", [1, 2]), Bars("b", [3, 4])]
    stacked = bar_chart(["x", "y"], series, title="T", y_label="GPUs", stacked=True)
    assert {"4", "6"} <= set(words(stacked))
    lying = bar_chart(["x", "y"], series, title="T", y_label="GPUs", horizontal=True)
    assert {"1", "2", "3", "4"} <= set(words(lying))


def test_a_funnel_tells_in_words_who_is_answered_where() -> None:
    stages = [FunnelStage("small", 1, 0.62, gate="score < 71"), FunnelStage("large", 0.38, 0.38)]
    svg = funnel(stages, title="Flow")
    shown = words(svg)
    assert "62.0 % answered by small" in shown
    assert "38.0 % answered by large" in shown
    assert "score < 71" in shown
    assert (ET.fromstring(svg).get("aria-label") or "").startswith("Flow. small: 100 % reach it, 62.0 %")


def test_markup_in_names_stays_text() -> None:
    evil = '</text><script>alert("1")</script>'
    for svg in (
        line_chart([Series(evil, [0, 1], [0, 1])], title=evil, x_label=evil, y_label=evil),
        funnel([FunnelStage(evil, 1, 1, evil, evil, evil)], title=evil),
        bar_chart([evil], [Bars(evil, [1])], title=evil, y_label=evil),
        chart(10, 10, evil, [text(0, 0, evil)]),
    ):
        assert not list(ET.fromstring(svg).iter("script"))


def test_one_far_bar_is_cut_and_leaves_the_others_their_lengths() -> None:
    def widths(values: list[float]) -> list[float]:
        svg = bar_chart(["a", "b", "c"], [Bars("", values)], title="", y_label="", horizontal=True)
        return [float(w) for w in re.findall(r'<rect x="[^"]*" y="[^"]*" width="([^"]*)"', svg)]

    near, far = widths([1.0, 2.0, 3.0]), widths([1.0, 2.0, 300.0])
    assert near[2] == pytest.approx(1.5 * near[1], rel=0.01)
    assert far[2] == pytest.approx(1.5 * far[1], rel=0.01)
    assert far[0] > 0.9 * near[0] * (far[2] / near[2])
    shown = bar_chart(["a", "b"], [Bars("", [1.0, 300.0])], title="", y_label="", horizontal=True)
    assert 'class="cut"' in shown
    assert ">300<" in shown


def test_bars_apart_stand_below_their_words() -> None:
    svg = bar_chart(
        ["a", "low"], [Bars("", [2.0, 1.0])], title="", y_label="", horizontal=True, apart=(1, "no rivals")
    )
    heights = {name: float(y) for y, name in re.findall(r'y="([^"]*)"[^>]*>(a|low|no rivals)<', svg)}
    assert heights["a"] < heights["no rivals"] < heights["low"]


@pytest.mark.parametrize("accepted", [0.98, 0.5])
def test_a_gates_words_never_lie_on_what_is_accepted(accepted: float) -> None:
    stages = [
        FunnelStage("small", 1.0, accepted, gate="score < 55"),
        FunnelStage("large", 1 - accepted, 1 - accepted),
    ]
    svg = funnel(stages)
    (place,) = re.findall(r'y="([^"]*)"[^>]*>score &lt; 55<', svg)
    top = 48.0
    assert float(place) < top + 160.0 * (1 - accepted)
