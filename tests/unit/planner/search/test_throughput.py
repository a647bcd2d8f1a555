"""What a cluster could carry: one integer program says what trying rate after rate does."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from cascadia.domain.cluster import Pool
from cascadia.planner.plan import routings_of
from cascadia.planner.search import throughput
from cascadia.planner.search.context import start_search
from cascadia.planner.search.throughput import estimates, most_capable, most_sustaining
from cascadia.planner.stability.repeats import at_rate
from tests.unit.planner.problems import LARGE, MEDIUM, NODE, SMALL, hosted_judge, problem, traffic

pytestmark = pytest.mark.slow

ODD = Pool("odd", "l40s", 1, 7, 1.1)
POOLS = ((NODE,), (replace(NODE, nodes=2), ODD), (ODD,), (replace(NODE, gpus_per_node=1),))


def test_what_routings_seem_to_sustain_falls_as_the_rate_grows_and_with_the_stages_that_they_ask() -> None:
    given = problem((SMALL, LARGE), pools=(NODE,), trace=traffic(80, 8.0))
    with ThreadPoolExecutor(1) as threads:
        search, twice = (start_search(p, routings_of(p)[0], threads) for p in (given, at_rate(given, 2.0)))
        every = np.arange(len(search.routings))
        once_seems, twice_seems = estimates(search, every), estimates(twice, every)
    assert twice_seems == pytest.approx(once_seems / 2, rel=0.35)
    reached = search.routings.reached[:, 1]
    assert once_seems[np.argmin(reached)] > 1.5 * once_seems[np.argmax(reached)]


@pytest.mark.long(in_ci=2)
@pytest.mark.parametrize("equal_parts", [False, True])
@pytest.mark.parametrize("pools", POOLS)
def test_the_largest_factor_is_the_one_that_trying_finds(
    pools: Sequence[Pool], equal_parts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = problem((SMALL, MEDIUM, LARGE), pools=pools, trace=traffic(200, 8.0), judge=hosted_judge())
    with ThreadPoolExecutor(2) as threads:
        search = start_search(given, routings_of(given)[0], threads)
        some = [k for k, _ in most_sustaining(search, np.arange(len(search.routings)), most=3)]
        asked = [most_capable(search, k, equal_parts=equal_parts) for k in some]
        monkeypatch.setattr(throughput, "_most_covered", lambda *_: None)
        tried = [most_capable(search, k, equal_parts=equal_parts) for k in some]
    assert asked == tried
