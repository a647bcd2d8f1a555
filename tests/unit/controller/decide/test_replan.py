"""Plans of a controller leave a share of each bound on latency free."""

import pytest

from cascadia.controller.decide.replan import with_room
from cascadia.domain.objective import Level, Objective


def test_each_bound_is_so_much_lower_and_nothing_else() -> None:
    asked = Objective(
        "cost", 0.95, 87.0, latency_max_s=60.0, levels=(Level("ttft", 0.9, 2.0), Level("e2e", 0.99, 90.0))
    )
    found = with_room(asked, 0.1)
    assert found.latency_max_s == pytest.approx(54.0)
    assert [(level.metric, level.quantile) for level in found.levels] == [("ttft", 0.9), ("e2e", 0.99)]
    assert [level.max_s for level in found.levels] == pytest.approx([1.8, 81.0])
    assert (found.goal, found.quantile, found.quality_min) == ("cost", 0.95, 87.0)


def test_where_nothing_is_bounded_nothing_changes() -> None:
    asked = Objective("cost", 0.95, 87.0)
    assert with_room(asked, 0.1) == asked
