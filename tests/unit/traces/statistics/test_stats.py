"""Summaries agree with plain numpy over the whole trace, however it is cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from cascadia_traces.generate.arrivals import gamma
from cascadia_traces.generate.generate import generate
from cascadia_traces.generate.lengths import Correlated, Lognormal
from cascadia_traces.statistics.burstiness import RateSeries, WindowCounts
from cascadia_traces.statistics.histogram import RELATIVE_ERROR, LengthHistogram
from cascadia_traces.statistics.moments import Moments
from cascadia_traces.statistics.stats import TraceSummary, summarise
from cascadia_traces.trace import BadInput, Trace
from tests.unit.traces.samples import trace_of, traces

LENGTHS = st.lists(st.integers(1, 10**9), min_size=1, max_size=50).map(lambda x: np.array(x, dtype=np.int64))


@pytest.fixture(scope="module")
def trace() -> Trace:
    return generate(
        gamma(3, 2), Correlated(Lognormal(800, 1.3), Lognormal(150, 0.7), 0.4), 9, requests=20_000
    )


def cut(trace: Trace, rows: int) -> TraceSummary:
    return summarise(trace.rows(first, first + rows) for first in range(0, len(trace), rows))


def test_figures_agree_with_numpy(trace: Trace) -> None:
    found = summarise(trace)
    gaps_s = np.diff(trace.arrival_s)
    logs = np.log(trace.input_tokens), np.log(trace.output_tokens)
    assert (found.requests, found.duration_s, found.rate_rps) == (20_000, trace.duration_s, trace.rate_rps)
    assert found.gap_cv == pytest.approx(gaps_s.std() / gaps_s.mean())
    assert found.pearson_log == pytest.approx(np.corrcoef(*logs)[0, 1])
    ranks = scipy_stats.spearmanr(trace.input_tokens, trace.output_tokens)
    assert found.spearman == pytest.approx(ranks.statistic)
    assert found.input_tokens.mean == pytest.approx(trace.input_tokens.mean())
    assert found.input_tokens.cv == pytest.approx(trace.input_tokens.std() / trace.input_tokens.mean())
    for window in found.windows:
        whole = int((trace.arrival_s[-1] - trace.arrival_s[0]) // window.window_s)
        counts = np.bincount(((trace.arrival_s - trace.arrival_s[0]) // window.window_s).astype(int))[:whole]
        assert window.peak_to_mean == pytest.approx(counts.max() / counts.mean())
        assert window.index_of_dispersion == pytest.approx(counts.var() / counts.mean())


@pytest.mark.long
@pytest.mark.parametrize("rows", [1, 17, 4096])
def test_the_way_a_trace_is_cut_does_not_show(trace: Trace, rows: int) -> None:
    part = trace.rows(0, 3000)
    whole, parts = summarise(part).as_dict(), cut(part, rows).as_dict()
    assert parts["input_tokens"] == whole["input_tokens"]
    assert parts["windows"] == whole["windows"]
    assert parts["spearman"] == whole["spearman"]
    for name in ("gap_cv", "pearson_log", "rate_rps"):
        assert parts[name] == pytest.approx(whole[name], rel=1e-12)
    assert cut(part, rows).sample == summarise(part).sample
    assert np.array_equal(cut(part, rows).rate.counts, summarise(part).rate.counts)


@given(tokens=LENGTHS, share=st.floats(0, 1))
def test_quantiles_are_within_the_stated_error_and_exact_below_a_hundred(
    tokens: np.ndarray[tuple[int], np.dtype[np.int64]], share: float
) -> None:
    exact = int(np.quantile(tokens, share, method="inverted_cdf"))
    found = LengthHistogram.of(tokens).quantile(share)
    assert abs(found - exact) <= (0 if exact < 100 else RELATIVE_ERROR * exact + 0.5)


@given(parts=st.lists(LENGTHS, min_size=1, max_size=4))
def test_histograms_of_parts_add_up(parts: list[np.ndarray[tuple[int], np.dtype[np.int64]]]) -> None:
    whole = LengthHistogram.of(np.concatenate(parts))
    added = sum((LengthHistogram.of(part) for part in parts), LengthHistogram.empty())
    assert np.array_equal(added.counts, whole.counts)
    assert (added.smallest, added.largest, len(added)) == (whole.smallest, whole.largest, len(whole))
    assert added.total == pytest.approx(whole.total)


@given(tokens=LENGTHS)
def test_a_density_holds_every_request_once(tokens: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    edges, shares = LengthHistogram.of(tokens).density(40)
    assert len(edges) == len(shares) + 1 <= 41
    assert (np.diff(edges) > 0).all()
    assert shares.sum() == pytest.approx(1)


PAIRS = st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), max_size=20)


@given(first=PAIRS, second=PAIRS)
def test_moments_of_parts_add_up(first: list[tuple[float, float]], second: list[tuple[float, float]]) -> None:
    def of(pairs: list[tuple[float, float]]) -> Moments:
        return Moments.of(*np.array(pairs, dtype=np.float64).reshape(-1, 2).T)

    added, whole = of(first) + of(second), of(first + second)
    for name in ("n", "mean_x", "mean_y", "xx", "yy", "xy"):
        assert getattr(added, name) == pytest.approx(getattr(whole, name), rel=1e-9, abs=1e-6)


@given(trace=traces(), rows=st.integers(1, 10))
@settings(deadline=None)
def test_any_valid_trace_has_a_summary(trace: Trace, rows: int) -> None:
    found = cut(trace, rows)
    assert found.requests == len(trace) == found.rate.counts.sum()
    middles_s, rates_rps = found.rate.rates()
    assert len(middles_s) == len(rates_rps) <= 512
    for value in (found.pearson_log, found.spearman):
        assert value is None or -1 <= value <= 1 + 1e-12


def test_windows_count_the_quiet_ones_and_leave_out_the_last() -> None:
    counts = WindowCounts(1.0)
    counts.add(np.array([0.1, 0.2, 0.9, 4.5]))
    counts.add(np.array([4.6, 5.2]))
    found = counts.burstiness()
    assert found is not None
    # 3, 0, 0, 0, 2 and an incomplete 1.
    assert (found.peak_to_mean, found.index_of_dispersion) == (3, pytest.approx(1.6))


def test_windows_longer_than_the_trace_tell_nothing() -> None:
    assert [window.window_s for window in summarise(trace_of([0, 1, 25])).windows] == [0.1, 1, 10]


def test_a_rate_series_doubles_its_bins_rather_than_grow() -> None:
    series = RateSeries()
    for second in range(100):
        series.add(np.array([second * 10.0, second * 10.0 + 0.5]))
    assert series.bin_s == 2
    assert series.counts.sum() == 200
    middles_s, rates_rps = series.rates()
    assert (middles_s[0], len(middles_s), rates_rps[0]) == (1, 496, 1)


def test_what_is_not_defined_is_none() -> None:
    found = summarise(trace_of([3.0]))
    assert (found.gap_cv, found.windows, found.pearson_log, found.spearman, found.prefix_share) == (
        None,
        (),
        None,
        None,
        None,
    )
    assert (found.duration_s, found.rate_rps) == (0, 0)


def test_equal_lengths_have_no_correlation_though_their_mean_is_rounded() -> None:
    inputs, outputs = np.log(np.full(200, 500)), np.log(np.full(200, 100))
    assert inputs.mean() != inputs[0]
    rest = np.linspace(1, 2, 200)
    assert [Moments.of(*of).correlation for of in ((inputs, outputs), (inputs, rest), (rest, outputs))] == [
        None
    ] * 3
    assert Moments.of(rest, 1e-9 * rest).correlation == pytest.approx(1)


def test_ranks_are_given_up_beyond_their_limit(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cascadia_traces.statistics.correlation.SPEARMAN_REQUESTS", 1000)
    assert summarise(trace).spearman is None
    assert summarise(trace.rows(0, 1000)).spearman is not None


def test_the_prefix_share_is_over_all_input_tokens() -> None:
    whole = trace_of([0, 1], [10, 30], prefix_tokens=np.array([0, 10]))
    assert summarise(whole).prefix_share == 0.25


def test_no_parts_and_parts_out_of_order_are_refused() -> None:
    with pytest.raises(BadInput, match="no requests"):
        summarise([])
    with pytest.raises(BadInput, match="starts before the one ahead"):
        summarise([trace_of([5]), trace_of([4])])
