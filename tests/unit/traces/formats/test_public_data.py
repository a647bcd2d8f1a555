"""The public traces read as their sources describe them."""

import numpy as np
import pytest

from cascadia_traces.formats.reading import detect_format, iter_trace, read_trace
from cascadia_traces.statistics.stats import summarise
from cascadia_traces.trace import join
from tests.data import data_path
from tests.unit.traces.samples import same

pytestmark = pytest.mark.data


@pytest.mark.parametrize(
    ("name", "requests", "rate_rps", "gap_cv"),
    [("conv", 19_366, 5.53, 1.09), ("code", 8_819, 2.57, 13.15)],
)
def test_azure_has_its_published_size_rate_and_burstiness(
    name: str, requests: int, rate_rps: float, gap_cv: float
) -> None:
    path = data_path(f"traces/azure_2023_{name}.csv")
    found = summarise(iter_trace(path, rows=1000))
    assert detect_format(path) == "azure"
    assert found.requests == requests
    assert found.rate_rps == pytest.approx(rate_rps, abs=0.005)
    assert found.gap_cv == pytest.approx(gap_cv, abs=0.005)


def test_mooncake_shares_more_than_a_third_of_its_input() -> None:
    found = summarise(read_trace(data_path("traces/mooncake_conversation.jsonl")))
    assert found.requests == 12_031
    assert found.input_tokens.quantile(0.5) == pytest.approx(6_900, rel=0.01)
    assert found.prefix_share == pytest.approx(0.37, abs=0.01)


def test_mooncake_spread_over_its_ticks_is_not_a_row_of_stampedes() -> None:
    path = data_path("traces/mooncake_conversation.jsonl")
    rounded, laid = read_trace(path, spread=False), read_trace(path)
    assert len(np.unique(rounded.arrival_s)) < 1200
    assert np.abs(laid.arrival_s - rounded.arrival_s).max() < 3.1
    before, after = summarise(rounded).per_second, summarise(laid).per_second
    assert before is not None
    assert after is not None
    assert before.index_of_dispersion > 5 > 1.5 > after.index_of_dispersion
    assert same(join(list(iter_trace(path, rows=777))), laid)
