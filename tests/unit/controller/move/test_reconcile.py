"""A move keeps its promises from any observed state, and finds a safe order wherever one exists."""

from collections import Counter

import pytest
from hypothesis import assume, example, given, settings

from cascadia.controller.move.reconcile import KEEPS, Blocked, reconcile, rollout
from cascadia.controller.move.state import Desired, Kind, Observed, Replica, Routing, reached
from cascadia.controller.move.steps import AwaitReady, Drain, Route, Start, Stop, apply
from tests.examples import examples
from tests.unit.controller.fleets import moves
from tests.unit.controller.moves import faults, some_order_keeps

pytestmark = pytest.mark.slow

SMALL, LARGE = Kind("small", "gpu", 1), Kind("large", "gpu", 1)
SHAPED = Kind("large", "gpu", 2, "tp2")
OLD, NEW = Routing(("small", "large"), (60.0,)), Routing(("small", "large"), (80.0,))


def fleet(*kinds: Kind, gpus: int, routing: Routing | None = OLD, **need: float) -> Observed:
    replicas = tuple(Replica(f"{kind.stage}-{i}", kind, "ready") for i, kind in enumerate(kinds))
    return Observed(replicas, {"gpu": gpus}, routing, need)


def told(observed: Observed, desired: Desired) -> list[str]:
    return [str(step) for step in reconcile(observed, desired)]


def test_one_and_two_become_two_and_one_without_a_spare_gpu() -> None:
    desired = Desired({SMALL: 2, LARGE: 1}, NEW)
    assert told(fleet(SMALL, LARGE, LARGE, gpus=3), desired) == [
        "route to small, large at 80",
        "drain large-1",
        "stop large-1",
        "start small-1 (1 of gpu)",
        "await small-1",
    ]


def test_a_spare_gpu_is_used_before_anything_is_taken() -> None:
    desired = Desired({SMALL: 2, LARGE: 1}, OLD)
    assert told(fleet(SMALL, LARGE, LARGE, gpus=4), desired)[0].startswith("start small-1")


def test_thresholds_wait_for_the_capacity_that_they_need() -> None:
    desired = Desired({SMALL: 1, LARGE: 2}, NEW, {"large": 2.0})
    steps = reconcile(fleet(SMALL, LARGE, gpus=3, large=1.0), desired)
    assert steps == [Start("large-0", LARGE), AwaitReady("large-0"), Route(NEW)]


def test_a_stage_that_the_new_plan_lacks_goes_after_the_router_has_forgotten_it() -> None:
    alone = Routing(("large",))
    steps = reconcile(fleet(SMALL, LARGE, gpus=2), Desired({LARGE: 1}, alone))
    assert steps == [Route(alone), Drain("small-0"), Stop("small-0")]


def test_an_idle_replica_is_drained_before_a_busy_one() -> None:
    replicas = tuple(Replica(f"small-{i}", SMALL, "ready", running) for i, running in enumerate((3, 0, 1)))
    steps = reconcile(
        Observed(replicas, {"gpu": 3}, Routing(("small",))), Desired({SMALL: 1}, Routing(("small",)))
    )
    assert [step.name for step in steps if isinstance(step, Drain)] == ["small-1", "small-2"]


def test_a_drain_of_what_is_wanted_after_all_is_taken_back() -> None:
    replicas = (Replica("small-0", SMALL, "ready"), Replica("small-1", SMALL, "draining", 4))
    observed = Observed(replicas, {"gpu": 2}, Routing(("small",)))
    assert told(observed, Desired({SMALL: 2}, Routing(("small",)))) == ["undrain small-1"]


def test_where_no_order_is_safe_it_says_how_many_surge_gpus_would_do() -> None:
    observed = fleet(LARGE, LARGE, gpus=2, routing=Routing(("large",)))
    desired = Desired({SHAPED: 1}, Routing(("large",)))
    with pytest.raises(Blocked, match="give 1 surge GPU of gpu"):
        reconcile(observed, desired)
    lent = Desired(desired.counts, desired.routing, surge={"gpu": 1})
    assert told(observed, lent) == [
        "drain large-0",
        "stop large-0",
        "start large-2 (2 of gpu)",
        "await large-2",
        "drain large-1",
        "stop large-1",
    ]


def test_a_plan_for_gpus_that_are_not_there_is_refused() -> None:
    with pytest.raises(Blocked, match="takes 4 GPUs of gpu, and there are 2; plan for what is there"):
        reconcile(fleet(SMALL, LARGE, gpus=2), Desired({SMALL: 2, SHAPED: 1}, OLD, surge={"gpu": 2}))


def test_replicas_may_start_together_where_gpus_allow() -> None:
    desired = Desired({SMALL: 3, LARGE: 1}, OLD)
    steps = rollout(fleet(SMALL, LARGE, gpus=4), desired, at_once=4).steps
    assert [type(step) for step in steps] == [Start, Start, AwaitReady, AwaitReady]


def test_what_leaves_a_full_machine_is_waited_for_once_where_that_is_shorter_of_capacity() -> None:
    """Not one after another with a stage at half of its need in between."""
    new = Routing(("small", "large"), (60.0,))
    desired = Desired({SMALL: 2, LARGE: 2}, new, {"small": 4.0, "large": 1.0}, {SMALL: 2.0, LARGE: 1.0})
    now = fleet(*4 * [LARGE], gpus=4, routing=Routing(("large",)), large=4.0)
    steps = [type(step) for step in reconcile(now, desired, at_once=4)]
    assert steps == [Drain, Drain, Stop, Stop, Start, Start, AwaitReady, AwaitReady, Route]


def test_a_plan_of_40_replicas_is_rolled_out_at_full_capacity() -> None:
    """Forty of one shape on 64 GPUs become a mixture that fills them."""
    kinds = [Kind(s, "gpu", 1, "old") for s in ("small", "large")]
    observed = fleet(*kinds * 20, gpus=64, small=18.0, large=18.0)
    counts = {
        Kind("small", "gpu", 1, "new"): 24,
        Kind("large", "gpu", 2, "new"): 16,
        Kind("large", "gpu", 4): 2,
    }
    desired = Desired(counts, NEW, {"small": 18.0, "large": 18.0})
    found = rollout(observed, desired)
    assert found.keeps == 1.0
    now = observed
    for step in found.steps:
        assert faults(now, step, desired, found.keeps) == []
        now = apply(now, step)
    assert reached(now, desired)


@settings(max_examples=examples(300))
@given(moves())
def test_every_step_keeps_every_promise_and_the_last_one_ends_in_what_is_wanted(
    case: tuple[Observed, Desired],
) -> None:
    observed, desired = case
    try:
        found = rollout(observed, desired)
    except Blocked:
        assume(False)
        return
    now = observed
    for step in found.steps:
        assert faults(now, step, desired, found.keeps) == []
        now = apply(now, step)
    assert reached(now, desired)


@settings(max_examples=examples(300))
@given(moves())
def test_what_both_plans_have_is_left_alone(case: tuple[Observed, Desired]) -> None:
    """What serves, that is: what does not yet, or any more, may be started anew where that keeps more capacity."""
    observed, desired = case
    try:
        steps = reconcile(observed, desired)
    except Blocked:
        assume(False)
        return
    gone = {step.name for step in steps if isinstance(step, Drain | Stop)}
    kept = Counter(r.kind for r in observed.replicas if r.name not in gone)
    ready = Counter(r.kind for r in observed.replicas if r.state == "ready")
    alive = Counter(r.kind for r in observed.replicas if r.state != "failed")
    for kind, wanted in desired.counts.items():
        assert min(ready[kind], wanted) <= kept[kind] <= min(alive[kind], wanted)
        lost = sum(r.kind == kind and r.state == "ready" and r.name in gone for r in observed.replicas)
        assert lost == max(0, ready[kind] - wanted)


WAITING = (Replica("small-0", Kind("small", "gpu", 1, "v1"), "ready"),)


@pytest.mark.parametrize("large", [1.5, 2.0])
def test_what_only_starts_is_started_anew_where_its_gpus_keep_more_as_another_first(large: float) -> None:
    starting = tuple(Replica(f"large-{i}", LARGE, "starting") for i in range(2))
    observed = Observed((*WAITING, *starting), {"gpu": 3}, None, {"small": 1.0})
    desired = Desired({SHAPED: 1, LARGE: 1}, Routing(("large",)), {"large": 2.0}, {SHAPED: large})
    assert rollout(observed, desired).keeps == max(k for k in KEEPS if 2.0 * k <= large)


@pytest.mark.long
@settings(max_examples=examples(300))
@given(moves(most=2))
@example(
    (
        Observed(
            (
                *WAITING,
                Replica("large-0", LARGE, "starting"),
                Replica("large-1", LARGE, "starting"),
            ),
            {"gpu": 3},
            None,
            {"small": 1.0},
        ),
        Desired({SHAPED: 1, LARGE: 1}, Routing(("large",)), {"large": 2.0}, {SHAPED: 2.0}),
    )
)
@example(
    (
        fleet(LARGE, LARGE, gpus=3, routing=Routing(("large",)), large=2.0),
        Desired({SHAPED: 1}, Routing(("large",)), {"large": 2.0}, {SHAPED: 2.0}),
    )
)
@example(
    (
        Observed(
            (
                Replica("large-0", Kind("large", "a", 1), "ready"),
                Replica("small-1", Kind("small", "b", 1), "starting"),
            ),
            {"a": 1, "b": 1},
            None,
            {"small": 0.0, "large": 0.5},
        ),
        Desired({Kind("small", "a", 1, "v2"): 1}, Routing(("small",), (70.0,)), {"small": 0.0}),
    )
)
def test_it_keeps_as_much_capacity_as_any_order_there_is(case: tuple[Observed, Desired]) -> None:
    observed, desired = case
    possible = [keeps for keeps in KEEPS if some_order_keeps(observed, desired, keeps)]
    try:
        assert rollout(observed, desired).keeps == max(possible, default=-1.0)
    except Blocked:
        assert possible == []


@settings(max_examples=examples(200))
@given(moves())
def test_a_controller_that_dies_between_any_two_steps_is_followed_by_one_that_ends_the_move(
    case: tuple[Observed, Desired],
) -> None:
    """Each new one knows only what it sees; it takes one step and dies."""
    observed, desired = case
    try:
        first = rollout(observed, desired)
    except Blocked:
        assume(False)
        return
    now, taken = observed, 0
    while not reached(now, desired):
        found = rollout(now, desired)
        assert found.keeps >= first.keeps
        assert faults(now, found.steps[0], desired, found.keeps) == []
        now = apply(now, found.steps[0])
        taken += 1
        assert taken <= len(first.steps)


@settings(max_examples=examples(100))
@given(moves())
def test_starting_and_draining_together_breaks_no_promise(case: tuple[Observed, Desired]) -> None:
    observed, desired = case
    try:
        found = rollout(observed, desired, at_once=3)
    except Blocked:
        assume(False)
        return
    now = observed
    for step in found.steps:
        assert faults(now, step, desired, found.keeps) == []
        now = apply(now, step)
    assert reached(now, desired)
