"""The comparison's first row says how sure its latency is; the others are held against it alone."""

import pytest

from cascadia.cli.compare_outputs import row
from cascadia.planner.baselines import compare as comparing
from cascadia.planner.baselines.compare import Comparison, compare
from cascadia.planner.plan import open_search
from cascadia.planner.refinement.refine import Effort
from tests.unit.planner.problems import problem

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found() -> Comparison:
    """Beside one model and the coin: whoever is third is told of in the same way."""
    others = comparing.others
    with open_search(problem()) as search, pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "others", lambda search, effort: others(search, effort)[1:3])
        return compare(search, Effort(simulated_requests=2_000, fewest_simulations=2))


@pytest.mark.long
def test_the_plans_latency_lies_within_what_its_calibrations_errors_make_of_it(found: Comparison) -> None:
    first = found.outcomes[0]
    assert first.name == "cascadia"
    assert first.error_range is not None
    assert first.error_range.fast_s < first.latency_s < first.error_range.slow_s
    assert " … " in row(first)[2]


@pytest.mark.long
def test_the_others_have_their_latency_alone(found: Comparison) -> None:
    assert all(o.error_range is None for o in found.outcomes[1:])
    assert all("…" not in row(o)[2] for o in found.outcomes[1:])
