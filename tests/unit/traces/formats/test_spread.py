"""Requests whose times are rounded to a tick are laid over that tick."""

from pathlib import Path

import numpy as np
import pytest

from cascadia_traces.formats.reading import iter_trace, read_trace
from cascadia_traces.formats.spread import on_ticks, spread_ticks
from cascadia_traces.trace import Trace, join
from tests.unit.traces.samples import file_of, same, trace_of


def spread(trace: Trace, cut: int, seed: int = 0) -> Trace:
    parts = (trace.rows(first, first + cut) for first in range(0, len(trace), cut))
    return join(list(spread_ticks(parts, 3.0, seed, lambda _: None)))


def rounded(requests: int = 200) -> Trace:
    """Five at each tick, which is up to 2 ms late, as in Mooncake."""
    ticks = requests // 5
    late_s = np.random.default_rng(1).uniform(0, 0.002, ticks)
    return trace_of(np.repeat(np.arange(ticks) * 3.0 + late_s, 5).tolist())


def test_every_request_stays_within_its_tick_and_order_holds() -> None:
    trace = rounded()
    laid = spread(trace, 1000)
    assert np.array_equal(np.floor(laid.arrival_s / 3), np.round(trace.arrival_s / 3))
    assert len(np.unique(laid.arrival_s)) == len(laid)


def test_the_way_a_trace_is_cut_does_not_show() -> None:
    trace = trace_of(np.repeat([0, 3, 6, 9], [1, 50, 3, 20]).astype(float).tolist())
    whole = spread(trace, 1000)
    for cut in (3, 7, 51):
        assert same(spread(trace, cut), whole)


def test_the_seed_decides() -> None:
    assert same(spread(rounded(), 1000, seed=4), spread(rounded(), 1000, seed=4))
    assert not same(spread(rounded(), 1000, seed=4), spread(rounded(), 1000, seed=5))


def test_times_within_a_tick_are_uniform() -> None:
    laid = spread(trace_of([3.0] * 20_000), 10_000)
    counts, _ = np.histogram(laid.arrival_s, bins=10, range=(3, 6))
    # Chi-squared with 9 degrees of freedom: above 27.9 once in a thousand seeds, and this seed is fixed.
    assert ((counts - 2000) ** 2 / 2000).sum() < 27.9


def test_times_off_the_ticks_or_all_different_are_left_alone() -> None:
    assert not on_ticks(np.array([0, 3, 3, 4.5]), 3.0)
    assert not on_ticks(np.array([0.0, 3.0, 6.0]), 3.0)
    assert on_ticks(np.array([0, 2.999, 2.999, 6.003]), 3.0)


@pytest.mark.parametrize(
    ("tick_s", "ticks", "over_s"), [(60, 5, 60), (3600, 4, 3600), (60, 3, 3), (3, 30, 3)]
)
def test_times_without_seconds_or_minutes_are_laid_over_the_minute_or_the_hour(
    tick_s: int, ticks: int, over_s: int
) -> None:
    """Where so few ticks may be whole minutes by chance, they are seconds."""
    given = trace_of(np.repeat(np.arange(ticks) * float(tick_s), 200).tolist())
    laid = spread(given, 10_000).arrival_s.reshape(ticks, 200)
    assert np.all(np.ptp(laid, axis=1) <= over_s)
    assert np.all(np.ptp(laid, axis=1) > 0.9 * over_s)


def test_reading_spreads_only_what_is_rounded_and_says_so(tmp_path: Path) -> None:
    row = '{"created": %s, "usage": {"prompt_tokens": 12, "completion_tokens": 7}}\n'
    whole_seconds = file_of(tmp_path, "".join(row % (1_700_000_000 + i // 4) for i in range(40)), "a")
    finer = file_of(tmp_path, "".join(row % (1_700_000_000 + i // 4 * 1.25) for i in range(40)), "b")
    notes: list[str] = []
    laid = read_trace(whole_seconds, note=notes.append)
    assert notes == ["times are rounded to 1 s: spread over it at random (seed 0)"]
    assert laid.arrival_s[0] == 0
    assert len(np.unique(laid.arrival_s)) == 40
    assert same(join(list(iter_trace(whole_seconds, rows=7))), laid)
    assert len(np.unique(read_trace(finer).arrival_s)) == 10
    assert len(np.unique(read_trace(whole_seconds, spread=False).arrival_s)) == 10
