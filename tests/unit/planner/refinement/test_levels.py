"""Service levels bind in the search, beside any goal; `tests.benchmarks.bench_levels` asks the same of many more."""

import pytest

from cascadia.domain.errors import Infeasible
from cascadia.domain.objective import Level, Objective
from tests.unit.planner.problems import briefly, problem, traffic

pytestmark = pytest.mark.slow

BUSY = traffic(120, 60.0)


@pytest.mark.long
def test_a_level_that_binds_is_kept() -> None:
    """At this bar the cheapest plan holds answers for their verdict; a bound on TTFT forbids that."""

    def told(*levels: Level) -> tuple[float, float]:
        found = briefly(
            problem(objective=Objective("cost", 0.95, 61.0, levels=levels), trace=BUSY)
        ).plan.predicted
        return found.ttft.p95_s, found.usd_per_hour

    free_s, cheap = told()
    kept_s, usd = told(Level("ttft", 0.95, 0.5 * free_s))
    assert kept_s <= 0.5 * free_s
    assert usd >= cheap


@pytest.mark.long
def test_the_message_names_the_level_that_binds_and_a_value_that_plans() -> None:
    loose, tight = Level("e2e", 0.95, 60.0), Level("ttft", 0.95, 0.005)
    given = problem(objective=Objective("quality", 0.95, None, levels=(loose, tight)), trace=BUSY)
    binding = "TTFT p95 <= 0.005 s is below what 8 GPUs reach with end to end p95 <= 60 s"
    with pytest.raises(Infeasible, match=rf"{binding}; the lowest found is 0\.\d+ s"):
        briefly(given)
