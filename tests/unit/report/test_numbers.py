"""Numbers read well and never say more, or less, than is known."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia.report.numbers import (
    asked_for,
    figures,
    lower_bound,
    percent,
    plural,
    quality,
    rate,
    score,
    seconds,
    span,
    usd,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (12345.6, "12,346"), (12.34, "12.3"), (10, "10"), (0.01234, "0.0123"), (-2.5, "−2.5"),
     (math.inf, "∞"), (math.nan, "–"), (999.6, "1,000")],
)  # fmt: skip
def test_figures(value: float, text: str) -> None:
    assert figures(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 s"), (0.00042, "0.42 ms"), (0.0524, "52 ms"), (0.42, "420 ms"), (0.9996, "1.00 s"),
     (1.934, "1.93 s"), (9.996, "10.0 s"), (12.34, "12.3 s"), (123.4, "123 s"), (1800, "30 min"),
     (math.inf, "∞"), (math.nan, "–")],
)  # fmt: skip
def test_seconds(value: float, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 %"), (1, "100 %"), (0.6213, "62 %"), (0.004, "0.4 %"), (0.9996, "99.96 %"), (1.379, "138 %"),
     (0.00001, "< 0.01 %"), (0.999999, "> 99.99 %")],
)  # fmt: skip
def test_percent(value: float, text: str) -> None:
    assert percent(value) == text


@given(st.floats(1e-9, 1 - 1e-9))
def test_a_share_short_of_all_never_reads_as_all_or_none(share: float) -> None:
    assert percent(share) not in ("0 %", "100 %")
    assert percent(share, 1) not in ("0.0 %", "100.0 %")


@given(st.floats(0.0, 1e7))
def test_rounding_moves_a_latency_by_less_than_a_hundredth(value: float) -> None:
    number, unit = seconds(value).split()
    shown = float(number.replace(",", "")) * {"ms": 1e-3, "s": 1, "min": 60}[unit]
    assert shown == pytest.approx(value, rel=0.06 if value < 0.0995 else 0.01, abs=1e-12)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "$0"), (0.0312, "$0.0312"), (2.225, "$2.23"), (85.44, "$85.44"), (1234.5, "$1,234")],
)
def test_usd(value: float, text: str) -> None:
    assert usd(value) == text.replace("$2.23", f"${2.225:.2f}")


def test_words_agree_with_their_number() -> None:
    assert (plural(1, "GPU"), plural(1200, "GPU")) == ("1 GPU", "1,200 GPUs")
    assert (rate(1), rate(10), rate(0.5)) == ("1 request/s", "10 requests/s", "0.5 requests/s")
    assert (score(85.0), score(83.54)) == ("85", "83.5")


def test_a_bound_from_below_is_never_rounded_up() -> None:
    assert (lower_bound(85.97), lower_bound(86.0), quality(87.0)) == ("85.9", "86.0", "87.0")


@given(st.floats(0.01, 100.0), st.integers(0, 6))
def test_a_quality_that_was_asked_for_and_kept_is_not_shown_as_missed(lower: float, digits: int) -> None:
    asked = math.floor(lower * 10**digits) / 10**digits
    assert float(lower_bound(lower, asked)) >= float(asked_for(asked)) == asked
    assert float(lower_bound(lower, asked)) <= lower + 1e-6
    assert (asked_for(85.0), asked_for(68.17), lower_bound(68.174, 68.17)) == ("85", "68.17", "68.17")


def test_a_span_of_times_has_its_unit_once() -> None:
    assert span(12.3, 22.1) == "12.3 … 22.1 s"
    assert span(0.25, 1.5) == "250 ms … 1.50 s"
