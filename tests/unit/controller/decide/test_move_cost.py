"""What a move costs, by hand: models that start together take as long as the slowest."""

import pytest

from cascadia.controller.decide.decide import MoveCost
from cascadia.controller.decide.move_cost import STOP_S, back_s, measured_startups, move_cost_of
from cascadia.controller.memory.history import Entry
from cascadia.controller.move.reconcile import Rollout
from cascadia.controller.move.state import Desired, Kind, Observed, Replica, Routing
from cascadia.controller.move.steps import AwaitReady, Start, Stop

QUICK, SLOW, WIDE = Kind("small", "gpu", 1), Kind("large", "gpu", 4, "tp4"), Kind("large", "gpu", 8, "tp8")
TAKES_S = {QUICK: 60.0, SLOW: 200.0, WIDE: 300.0}


def test_what_starts_together_takes_as_long_as_the_slowest_and_batches_add_up() -> None:
    steps = [
        *(Start("a", QUICK), Start("b", SLOW), AwaitReady("a"), AwaitReady("b"), Stop("c")),
        *(Start("d", QUICK), AwaitReady("d"), Stop("e")),
    ]
    assert move_cost_of(Rollout(steps, 0.75), TAKES_S.__getitem__) == MoveCost(
        duration_s=200.0 + 60.0 + 2 * STOP_S, gpu_s=60.0 + 4 * 200.0 + 60.0, keeps=0.75, starts=3, stops=2
    )
    assert move_cost_of(Rollout([], 1.0), TAKES_S.__getitem__).nothing


@pytest.mark.parametrize(("at_once", "seconds"), [(1, 600.0), (2, 400.0), (3, 200.0), (9, 200.0)])
def test_what_is_let_go_comes_back_so_many_at_once(at_once: int, seconds: float) -> None:
    """Two of `QUICK` and one of `SLOW` go; what is not ready yet cannot be let go."""
    ready = [Replica(f"{i}", kind, "ready") for i, kind in enumerate((QUICK, QUICK, QUICK, SLOW))]
    observed = Observed((*ready, Replica("x", WIDE, "starting")), {"gpu": 16})
    desired = Desired({QUICK: 1, WIDE: 2}, Routing(("small",)))
    assert back_s(observed, desired, TAKES_S.__getitem__, at_once) == seconds
    assert (
        back_s(observed, Desired({QUICK: 3, SLOW: 1}, desired.routing), TAKES_S.__getitem__, at_once) == 0.0
    )


def test_a_kind_takes_the_median_of_its_last_five_starts_or_of_its_stages() -> None:
    def started(kind: Kind, seconds: float) -> Entry:
        return Entry(0.0, "step", "", {"spec": kind.spec, "stage": kind.stage, "startup_s": seconds})

    took = [900.0, 900.0, 900.0, 10.0, 20.0, 30.0, 40.0, 50.0]
    entries = [
        *(started(SLOW, seconds) for seconds in took),
        Entry(0.0, "step", "drained", {"spec": SLOW.spec, "stage": SLOW.stage}),
        Entry(0.0, "move", "moved", {"spec": QUICK.spec, "stage": QUICK.stage, "startup_s": 7.0}),
    ]
    startup_s = measured_startups(entries, 500.0)
    assert [startup_s(kind) for kind in (SLOW, WIDE, QUICK)] == [30.0, 30.0, 500.0]
