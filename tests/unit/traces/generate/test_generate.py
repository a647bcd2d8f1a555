"""Generated traces have the rate, the burstiness and the lengths that they were asked for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cascadia_traces.generate.arrivals import Arrivals, gamma, poisson
from cascadia_traces.generate.generate import generate, generate_chunks
from cascadia_traces.generate.lengths import Correlated, Empirical, Lognormal, Resampled, Zipf
from cascadia_traces.generate.rates import Constant, Diurnal, OnOff, Rate, Steps
from cascadia_traces.generate.samples import chat_trace
from cascadia_traces.statistics.stats import summarise
from cascadia_traces.trace import BadInput, join
from tests.examples import examples
from tests.unit.traces.samples import same, trace_of

SHORT = Correlated(Lognormal(100, 1), Lognormal(50, 0.5))
RATES: dict[str, Rate] = {
    "constant": Constant(5),
    "diurnal": Diurnal(5, 0.8, 600),
    "steps": Steps(((60, 8), (30, 0), (30, 4))),
    "on-off": OnOff(5, 3, 6, 0.1),
}


@pytest.mark.parametrize("rate", RATES.values(), ids=RATES)
@pytest.mark.parametrize("cv", [0.0, 0.5, 3.0])
def test_a_seed_gives_one_trace_however_it_is_cut(rate: Rate, cv: float) -> None:
    arrivals = Arrivals(rate, cv)
    whole = generate(arrivals, SHORT, 7, requests=2000)
    parts = list(generate_chunks(arrivals, SHORT, 7, requests=2000, rows=129))
    assert max(map(len, parts)) == 129
    assert same(join(parts), whole)
    assert not same(generate(arrivals, SHORT, 8, requests=2000), whole)


@pytest.mark.parametrize("rate", RATES.values(), ids=RATES)
def test_the_mean_rate_is_the_one_asked_for(rate: Rate) -> None:
    trace = generate(Arrivals(rate), SHORT, 3, duration_s=12_000)
    # On-off phases of 9 s: some 1,300 of them, so about 4 % of noise; the others have about half a percent.
    assert len(trace) / 12_000 == pytest.approx(5, rel=0.1 if isinstance(rate, OnOff) else 0.02)


def test_poisson_gaps_are_exponential() -> None:
    gaps_s = np.diff(generate(poisson(5), SHORT, 1, requests=5000).arrival_s)
    assert stats.kstest(gaps_s, "expon", args=(0, 1 / 5)).pvalue > 0.01


@pytest.mark.parametrize("cv", [0.3, 1.5, 3.0])
def test_gamma_gaps_have_their_coefficient_of_variation(cv: float) -> None:
    gaps_s = np.diff(generate(gamma(5, cv), SHORT, 1, requests=200_000).arrival_s)
    assert gaps_s.std() / gaps_s.mean() == pytest.approx(cv, rel=0.03)
    # Of the tiniest gaps nothing is left between two times of thousands of seconds: only the larger are compared.
    shape = stats.gamma(cv**-2, scale=cv**2 / 5)
    counts, _ = np.histogram(gaps_s, [0, *shape.ppf(np.arange(0.4, 1, 0.1)), np.inf])
    assert stats.chisquare(counts, len(gaps_s) * np.array([0.4, *[0.1] * 6])).pvalue > 0.01


def test_even_gaps_have_none() -> None:
    assert generate(gamma(4, 0), SHORT, 1, requests=4).arrival_s.tolist() == [0.25, 0.5, 0.75, 1.0]


def test_steps_hold_their_rates_and_start_over() -> None:
    trace = generate(Arrivals(RATES["steps"]), SHORT, 1, duration_s=120 * 500)
    second = np.floor(trace.arrival_s % 120)
    counted = [int(((second >= a) & (second < b)).sum()) for a, b in ((0, 60), (60, 90), (90, 120))]
    assert counted[1] == 0
    assert counted[0] == pytest.approx(8 * 60 * 500, rel=0.01)
    assert counted[2] == pytest.approx(4 * 30 * 500, rel=0.02)


def test_a_day_has_its_trough_at_the_start_and_its_peak_half_way() -> None:
    trace = generate(Arrivals(Diurnal(50, 0.8, 600)), SHORT, 1, duration_s=600 * 20)
    counts, _ = np.histogram(trace.arrival_s % 600, bins=12)
    edges = 2 * np.pi * np.arange(13) / 12
    expected = 50 * 20 * 600 * np.diff(edges - 0.8 * np.sin(edges)) / (2 * np.pi)
    assert counts == pytest.approx(expected, rel=0.03)


def test_bursts_come_and_go_at_their_rates() -> None:
    rate = OnOff(5, on_s=30, off_s=90, off_share=0)
    assert rate.on_rate_rps == 20
    trace = generate(Arrivals(rate), SHORT, 1, duration_s=100_000)
    per_second = np.bincount(trace.arrival_s.astype(np.int64), minlength=100_000)
    assert (per_second == 0).mean() == pytest.approx(0.75, abs=0.04)
    # Poisson has 1; a process that is on for a quarter of the time has 1 + 20 * 3/4 over a second.
    assert per_second.var() / per_second.mean() == pytest.approx(16, rel=0.1)


def test_bursts_that_never_end_are_a_poisson_process() -> None:
    trace = generate(Arrivals(OnOff(5, 10, 10, off_share=1)), SHORT, 2, requests=5000)
    assert stats.kstest(np.diff(trace.arrival_s), "expon", args=(0, 1 / 5)).pvalue > 0.01


def test_lengths_do_not_change_with_the_arrivals() -> None:
    one = generate(poisson(1), SHORT, 5, requests=100)
    other = generate(Arrivals(Diurnal(9), 2), SHORT, 5, requests=100)
    assert one.input_tokens.tolist() == other.input_tokens.tolist()


def test_lognormal_lengths_have_their_median_and_sigma() -> None:
    trace = generate(
        poisson(1), Correlated(Lognormal(5000, 1.2, 10**9), Lognormal(900, 0.5)), 1, requests=100_000
    )
    logs = np.log(trace.input_tokens)
    assert np.exp(np.median(logs)) == pytest.approx(5000, rel=0.02)
    assert logs.std() == pytest.approx(1.2, rel=0.01)


def test_zipf_lengths_follow_the_power_law() -> None:
    tokens = generate(
        poisson(1), Correlated(Zipf(1.5, 1000), Zipf(1.5, 1000)), 1, requests=100_000
    ).input_tokens
    expected = stats.zipfian.pmf([1, 2, 3, 10, 100], 1.5, 1000) * 100_000
    found = [int((tokens == k).sum()) for k in (1, 2, 3, 10, 100)]
    assert found == pytest.approx(expected, abs=4 * np.sqrt(expected).max(), rel=0.25)
    assert tokens.max() <= 1000


def test_empirical_lengths_are_those_seen_as_often_as_seen() -> None:
    seen = Empirical(np.array([7, 7, 7, 30], dtype=np.int64))
    tokens = generate(poisson(1), Correlated(seen, seen), 1, requests=40_000).input_tokens
    assert set(tokens.tolist()) == {7, 30}
    assert (tokens == 7).mean() == pytest.approx(0.75, abs=0.01)


def test_resampling_keeps_input_and_output_together() -> None:
    trace = generate(poisson(1), SHORT, 1, requests=50)
    drawn = generate(poisson(9), Resampled(trace), 2, requests=500)
    pairs = set(zip(trace.input_tokens.tolist(), trace.output_tokens.tolist(), strict=True))
    assert set(zip(drawn.input_tokens.tolist(), drawn.output_tokens.tolist(), strict=True)) <= pairs


@pytest.mark.parametrize("correlation", [-0.7, 0.0, 0.4, 1.0])
def test_the_correlation_of_log_lengths_is_the_one_asked_for(correlation: float) -> None:
    lengths = Correlated(Lognormal(2000, 0.7), Lognormal(3000, 0.7), correlation)
    assert summarise(generate(poisson(1), lengths, 1, requests=50_000)).pearson_log == pytest.approx(
        correlation, abs=0.02
    )


def test_other_distributions_can_hang_together_too() -> None:
    found = summarise(generate(poisson(1), Correlated(Zipf(0.5), Lognormal(300, 1), 0.8), 1, requests=50_000))
    # A Gaussian copula's rank correlation is 6/pi asin(r/2).
    assert found.spearman == pytest.approx(6 / np.pi * np.arcsin(0.4), abs=0.02)


@given(requests=st.integers(1, 300), duration_s=st.floats(0.5, 50), rows=st.integers(1, 100))
@settings(max_examples=examples(50))
def test_a_trace_ends_at_its_number_or_its_time(requests: int, duration_s: float, rows: int) -> None:
    both = generate(gamma(20, 0.5), SHORT, 1, requests=requests, duration_s=duration_s)
    parts = generate_chunks(gamma(20, 0.5), SHORT, 1, requests=requests, duration_s=duration_s, rows=rows)
    assert same(join(list(parts)), both)
    free = generate(gamma(20, 0.5), SHORT, 1, requests=requests)
    assert len(both) == min(requests, int((free.arrival_s < duration_s).sum()))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: poisson(0), "rate_rps: 0 is out of range"),
        (lambda: gamma(1, -1), "cv: -1 is out of range; write a number from 0 to 100"),
        (lambda: gamma(1, float("nan")), "cv: nan"),
        (lambda: Diurnal(1, 1.5), "amplitude: 1.5 is out of range; write a number from 0 to 1"),
        (lambda: Steps(((1, 0),)), "no step has a rate above 0"),
        (lambda: Steps(((0, 1),)), "a step's duration: 0 is out of range"),
        (lambda: OnOff(1, on_s=0), "on_s: 0"),
        (lambda: Lognormal(0, 1), "median_tokens: 0"),
        (lambda: Lognormal(1, 1, 0), "max_tokens: 0 is out of range"),
        (lambda: Zipf(1, 10**9), "max_tokens: 1000000000 is out of range"),
        (lambda: Correlated(Zipf(1), Zipf(1), 2), "correlation: 2 is out of range; write -1 to 1"),
        (lambda: generate(poisson(1), SHORT), "it has no end; give the number of requests"),
        (lambda: generate(poisson(1), SHORT, requests=0), "requests: 0 is out of range"),
        (lambda: generate(poisson(1), SHORT, -1, requests=1), "seed: -1"),
        (lambda: generate(gamma(1, 0), SHORT, duration_s=0.5), "no request comes within 0.5 s"),
        (lambda: generate(poisson(1e-9), SHORT, requests=100), "beyond 1e\\+10 s"),
    ],
)
def test_a_setting_out_of_range_is_named(make: object, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        make()  # type: ignore[operator]


def test_the_sample_chat_trace_is_what_it_says() -> None:
    trace = chat_trace()
    found = summarise(trace)
    assert same(trace, chat_trace())
    assert (len(trace), trace.arrival_s[0]) == (6000, 0)
    assert trace.rate_rps == pytest.approx(6)
    assert found.gap_cv == pytest.approx(1.5, abs=0.1)
    assert found.input_tokens.quantile(0.5) == pytest.approx(500, rel=0.05)
    assert found.output_tokens.quantile(0.5) == pytest.approx(200, rel=0.05)
    assert found.pearson_log == pytest.approx(0.35, abs=0.05)


def test_resampling_a_trace_of_one_request_repeats_it() -> None:
    assert set(generate(poisson(1), Resampled(trace_of([0])), requests=9).output_tokens.tolist()) == {5}
