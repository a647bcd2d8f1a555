"""Published errors of all served points, each by a fit that has not seen its half; tests/unit asks of some."""

from statistics import median

import pytest

from tests.benchmarks.fidelity.product import kind, unseen
from tests.unit.sim.test_product import usable


@pytest.mark.data
def test_halves_that_no_fit_has_seen_are_as_near_as_is_published() -> None:
    misses = unseen(usable())
    for which, tpot, ttft in (("dense", 0.06, 0.10), ("mixture", 0.10, 0.15)):
        own = [m for p, m in misses.items() if kind(p) == which]
        assert median(abs(m.tpot) for m in own) <= tpot
        assert median(abs(m.ttft) for m in own) <= ttft
