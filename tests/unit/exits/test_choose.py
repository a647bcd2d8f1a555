"""The active ramps are as good as the best of all sets, and keep the ramp budget."""

from itertools import chain, combinations

import pytest

from cascadia.exits.adjust import Budget
from cascadia.exits.choose import NEAR, choose, expected, path_of
from cascadia.exits.timing import Timing
from tests.unit.exits.streams import stream

FREE, DEAR = (Timing(1, (1.0,) * 4, (cost,) * 3) for cost in (0.001, 0.4))
SEEN = stream(1500, 1)


@pytest.mark.long(in_ci=2)
@pytest.mark.parametrize("timing", [FREE, DEAR, Timing(1, (0.1, 2.0, 1.0, 0.1), (0.05, 0.3, 0.02))])
@pytest.mark.parametrize("share", [1.0, 0.1])
def test_no_set_of_ramps_is_better(timing: Timing, share: float) -> None:
    budget = Budget((timing,), share)
    sets = chain.from_iterable(combinations(range(3), count) for count in range(4))
    best = max(expected(SEEN, timing, 0.01, one).mean for one in sets if budget.allows(one))
    assert expected(SEEN, timing, 0.01, choose(SEEN, timing, 0.01, budget)).mean >= NEAR * best


def test_ramps_that_cost_more_than_they_save_are_left_out() -> None:
    slow = Timing(1, (1.0,) * 4, (3.0,) * 3)
    active, path = path_of(SEEN, slow, 0.01, Budget((slow,), 10.0))
    assert active == ()
    assert path.setting(-1).shape == (0,)
