"""Models on workers whose memory does not hold all of them, and how the load is shared between their replicas."""

from itertools import product

import pytest

from cascadia.domain.errors import Infeasible
from cascadia.planner.policies.placement import Resident, balance, place

SMALL, MEDIUM, LARGE = Resident("small", 2, 0.01), Resident("medium", 4, 0.03), Resident("large", 8, 0.1)
MODELS = (SMALL, MEDIUM, LARGE)
ALL = frozenset(m.name for m in MODELS)


def test_the_busiest_worker_is_as_little_busy_as_the_work_allows() -> None:
    found = balance(MODELS, (ALL, ALL), {"small": 50, "medium": 10, "large": 2})
    assert found is not None
    assert found.busy == pytest.approx((0.5 + 0.3 + 0.2) / 2)
    assert sum(rates["medium"] for rates in found.rates) == pytest.approx(10)


def test_a_model_on_one_worker_is_served_there() -> None:
    found = balance(MODELS, (ALL, frozenset({"small"})), {"small": 30, "large": 8})
    assert found is not None
    # 0.8 of the first worker goes to the large model; the second takes all the small ones.
    assert found.busy == pytest.approx(0.8)
    assert found.rates[0]["large"] == pytest.approx(8)
    assert balance(MODELS, (frozenset({"small"}),), {"large": 1}) is None


def test_nothing_is_taken_away_where_all_fits() -> None:
    assert place(MODELS, (14, 14), [{"small": 1}]).sits == (ALL, ALL)


def test_a_placement_fits_and_is_near_the_best_of_all() -> None:
    memory_gib, levels = (10, 10, 6), [{"small": 20, "large": 5}, {"small": 60, "medium": 20}]
    found = place(MODELS, memory_gib, levels)
    for here, has in zip(found.sits, memory_gib, strict=True):
        assert sum(m.memory_gib for m in MODELS if m.name in here) <= has
    subsets = [
        frozenset(m.name for m, on in zip(MODELS, ons, strict=True) if on)
        for ons in product((0, 1), repeat=3)
    ]
    weigh = {m.name: m.memory_gib for m in MODELS}
    best = min(
        max(each.busy for each in balanced if each is not None)
        for sits in product(subsets, repeat=3)
        if all(sum(weigh[n] for n in here) <= has for here, has in zip(sits, memory_gib, strict=True))
        and frozenset().union(*sits) == ALL
        for balanced in [[balance(MODELS, sits, asked) for asked in levels]]
    )
    assert max(found.busy) <= 1.3 * best


def test_memory_that_holds_no_placement_says_so() -> None:
    with pytest.raises(Infeasible, match="the models do not fit, each at least once"):
        place(MODELS, (7, 7), [{"small": 1}])
