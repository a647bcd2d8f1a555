"""How many replicas: enough for the rate and what is in hand, no more than there are GPUs, none stopped too soon."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia.controller.move.state import Desired, Kind, Observed, Replica, Routing
from cascadia.controller.scale.as_scaled import as_scaled
from cascadia.controller.scale.size import (
    CLEARED_S,
    LASTING_S,
    MOST_TIMES,
    Heavier,
    Load,
    Queues,
    Quiet,
    clearing_rps,
    counts_for,
    within,
)
from cascadia.controller.scale.sizes import (
    FILLED,
    MOST_LOAD,
    NOTHING_OF_THE_BOUND,
    OF_THE_BOUND,
    StageSize,
    peaks_of,
    sizes_of,
)
from cascadia.domain.gear import Gear
from cascadia.domain.objective import Objective
from cascadia.domain.plan import Peak, Scale, Scaling
from cascadia.files.plan_file import parse_plan, plan_json
from tests.unit.controller.machine import two_stages
from tests.unit.planner.plans import a_plan

SMALL, WIDE, LARGE = Kind("small", "gpu", 1), Kind("small", "gpu", 2, "wide"), Kind("large", "gpu", 4)
ONE = StageSize("small", 1.0, {SMALL: 2}, {SMALL: 5.0}, 4.0)
MIXED = StageSize("small", 1.0, {SMALL: 1, WIDE: 2}, {SMALL: 5.0, WIDE: 11.0}, 4.0)
ESCALATED = StageSize("large", 0.25, {LARGE: 1}, {LARGE: 4.0}, 10.0)


def test_known_answers() -> None:
    assert counts_for(ONE, 14.9) == {SMALL: 3}
    assert counts_for(ONE, 15.1) == {SMALL: 4}
    assert counts_for(ONE, 0.0) == {SMALL: 1}, "no stage loses its last"
    assert counts_for(ESCALATED, 20.0) == {LARGE: 2}, "a quarter of the requests comes here"
    assert counts_for(MIXED, 27.0) == {SMALL: 1, WIDE: 2}
    assert counts_for(MIXED, 28.0) == {SMALL: 2, WIDE: 2}, "the fewest GPUs that close the gap"


STEPPED = replace(
    MIXED, steps=((9.0, {SMALL: 1, WIDE: 0}), (20.0, {SMALL: 1, WIDE: 2}), (30.0, {SMALL: 4, WIDE: 2}))
)


def test_what_the_plan_was_simulated_with_goes_before_any_proportion() -> None:
    assert counts_for(STEPPED, 2.0) == counts_for(STEPPED, 9.0) == {SMALL: 1, WIDE: 0}
    assert counts_for(STEPPED, 9.1) == counts_for(STEPPED, 20.0) == {SMALL: 1, WIDE: 2}
    assert counts_for(STEPPED, 29.0) == {SMALL: 4, WIDE: 2}


def test_beyond_what_was_simulated_its_last_grows_in_proportion() -> None:
    last = STEPPED.capacity_rps(STEPPED.steps[-1][1])
    found = STEPPED.capacity_rps(counts_for(STEPPED, 60.0))
    assert 2.0 * last <= found < 2.0 * last + max(STEPPED.gives_rps.values())


def test_longer_requests_than_simulated_ask_for_more_of_what_is_there() -> None:
    there = STEPPED.capacity_rps(counts_for(STEPPED, 15.0))
    assert STEPPED.capacity_rps(counts_for(STEPPED, 15.0, 1.5)) >= 1.5 * there
    heavier = Heavier(600.0)
    needs_rps = clearing_rps(STEPPED, 15.0, 200.0, counts_for(STEPPED, 15.0))
    times = heavier.times(0.0, STEPPED, 15.0, needs_rps)
    assert STEPPED.capacity_rps(counts_for(STEPPED, 15.0, times)) > there, "a queue that stays gets a replica"


def test_a_plan_tells_each_kind_of_replica_by_rate() -> None:
    plan = two_stages(1, 2)
    scales = (Scale(0.5, {"small": (1,), "large": (1,)}), Scale(1.0, {"small": (1,), "large": (2,)}))
    plan = replace(plan, scaling=Scaling((Peak(60.0, 1.5),), scales))
    small, large = Kind("small", "here", 1), Kind("large", "here", 1)
    desired = Desired({small: 1, large: 2}, Routing(("small", "large"), (50.0,)))
    rps = plan.predicted.rate_rps
    by_stage = {size.stage: size for size in sizes_of(plan, desired)}
    assert counts_for(by_stage["large"], 0.4 * rps) == {large: 1}
    assert counts_for(by_stage["large"], 0.6 * rps) == {large: 2}
    assert counts_for(by_stage["small"], rps) == {small: 1}
    assert peaks_of(plan) == {60.0: 1.5}
    assert peaks_of(replace(plan, scaling=None)) == {}


def test_kinds_of_as_many_gpus_are_told_apart_by_the_plans_order() -> None:
    plan = two_stages(1, 1)
    stage = plan.stages[1]
    shapes = tuple(
        replace(stage.replicas[0], tp=tp, pp=pp, count=n, share=0.5) for tp, pp, n in ((2, 1, 3), (1, 2, 1))
    )
    stages = (plan.stages[0], replace(stage, replicas=shapes))
    scales = (Scale(1.0, {"small": (1,), "large": (4, 2)}),)
    plan = replace(plan, stages=stages, scaling=Scaling((), scales))
    tensor, pipeline = Kind("large", "here", 2, "TP2"), Kind("large", "here", 2, "PP2")
    desired = Desired(
        {Kind("small", "here", 1): 1, tensor: 3, pipeline: 1}, Routing(("small", "large"), (50.0,))
    )
    (large,) = [size for size in sizes_of(plan, desired) if size.stage == "large"]
    assert counts_for(large, plan.predicted.rate_rps) == {tensor: 4, pipeline: 2}


def test_a_stage_of_which_nothing_is_known_stays_as_planned() -> None:
    assert counts_for(StageSize("judge-1", 0.0, {SMALL: 3}, {SMALL: 1.0}, 0.0), 100.0) == {SMALL: 3}


def test_so_does_each_of_a_plan_that_tells_no_rate() -> None:
    plan = two_stages(1, 2)
    plan = replace(plan, predicted=replace(plan.predicted, rate_rps=0.0))
    desired = Desired(
        {Kind("small", "here", 1): 1, Kind("large", "here", 1): 2}, Routing(("small", "large"), (50.0,))
    )
    counts = [counts_for(size, 100.0) for size in sizes_of(plan, desired)]
    assert counts == [{Kind("small", "here", 1): 1}, {Kind("large", "here", 1): 2}]


@given(rate_rps=st.floats(0.0, 500.0))
def test_there_is_enough_and_one_less_would_not_be(rate_rps: float) -> None:
    for size in (ONE, MIXED, ESCALATED):
        found = counts_for(size, rate_rps)
        needed = rate_rps * size.reached
        assert size.capacity_rps(found) >= needed * (1.0 - 1e-5)
        for kind, count in found.items():
            if count and sum(found.values()) > 1 and size is not MIXED:
                assert size.capacity_rps({**found, kind: count - 1}) < needed


@given(st.floats(0.0, 500.0), st.floats(0.0, 500.0))
def test_more_requests_never_take_less_capacity(one_rps: float, other_rps: float) -> None:
    less, more = sorted((one_rps, other_rps))
    for size in (ONE, ESCALATED):
        few, many = counts_for(size, less), counts_for(size, more)
        assert size.capacity_rps(few) <= size.capacity_rps(many)


def test_a_queue_asks_for_what_there_is_and_for_what_ends_it() -> None:
    there = {SMALL: 2}
    assert clearing_rps(ONE, 10.0, 40.0, there) == 0.0, "the plan's latency explains 40 in hand"
    assert clearing_rps(ONE, 10.0, 40.0 + 7.0 * CLEARED_S, there) == pytest.approx(10.0 + 7.0)
    judge = StageSize("judge", 1.0, {SMALL: 1}, {SMALL: 18.0}, 0.2)
    needs_rps = clearing_rps(judge, 15.0, 123.0, {SMALL: 1})
    assert 18.0 < needs_rps < 2 * 18.0, "by Little's law 615 a second, so 35 judges"


def test_what_a_queue_showed_to_be_needed_is_let_go_one_replica_at_a_time() -> None:
    heavier = Heavier(600.0)

    def replicas(at_s: float, rate_rps: float, needs_rps: float = 0.0) -> int:
        return counts_for(ONE, rate_rps * heavier.times(at_s, ONE, rate_rps, needs_rps))[SMALL]

    assert replicas(0.0, 10.0) == 2
    assert replicas(5.0, 10.0, 22.5) == 5
    assert replicas(600.0, 10.0) == 5
    assert replicas(601.0, 20.0) == 9, "of twice as many as well"
    assert replicas(605.0, 10.0) == 4
    assert replicas(1200.0, 10.0) == 4
    assert replicas(1205.0, 10.0) == 3
    assert replicas(5000.0, 10.0) == replicas(5600.0, 10.0) == 2
    assert replicas(5605.0, 10.0, 1e6) == MOST_TIMES * 2


def test_nothing_is_stopped_that_was_wanted_within_the_quiet_time() -> None:
    quiet = Quiet(600.0)
    assert quiet.most(0.0, {SMALL: 4}) == {SMALL: 4}
    assert quiet.most(300.0, {SMALL: 1}) == {SMALL: 4}
    assert quiet.most(600.0, {SMALL: 1}) == {SMALL: 4}
    assert quiet.most(601.0, {SMALL: 1}) == {SMALL: 1}


def test_a_queue_counts_once_it_lasts_and_not_where_it_will_be_gone_when_a_replica_is_ready() -> None:
    def waits(held: Callable[[float], float], startup_s: float) -> float:
        queues, lasts_s = Queues(), max(LASTING_S, startup_s)
        for at_s in np.arange(0.0, lasts_s + 1.0, 5.0).tolist():
            told = queues.least(at_s, Load(0.0, {"large": held(at_s)}), (), startup_s)["large"]
            assert at_s >= lasts_s or told == 0.0
        return told

    assert waits(lambda _: 500.0, 20.0) == 500.0
    assert waits(lambda _: 500.0, 240.0) == 500.0, "as long as a replica takes to be ready"
    assert waits(lambda at_s: 500.0 + at_s, 20.0) == 500.0, "what was there all the while"
    assert waits(lambda at_s: 500.0 - at_s, 240.0) == 260.0 - 240.0
    assert waits(lambda at_s: 500.0 - 2.0 * at_s, 240.0) == 0.0
    assert waits(lambda at_s: 500.0 - 3.0 * at_s, 20.0) == 320.0 - 3.0 * 20.0


def test_a_replica_that_is_ready_is_given_a_while_with_what_waits() -> None:
    """A queue that grew until then is that of one replica less."""
    queues = Queues()
    for at_s in np.arange(0.0, 300.0, 5.0).tolist():
        starting = ("large",) if at_s < 200.0 else ()
        told = queues.least(at_s, Load(0.0, {"large": 500.0}), starting, 20.0)["large"]
        assert told == (500.0 if at_s >= 195.0 + LASTING_S else 0.0)


def test_where_gpus_are_short_the_stage_with_the_smallest_part_of_its_wish_goes_first() -> None:
    observed = Observed((Replica("small-0", SMALL, "ready"), Replica("large-0", LARGE, "ready")), {"gpu": 10})
    wanted = {SMALL: 4, LARGE: 2}
    counts, short = within(observed, (ONE, ESCALATED), wanted, {SMALL: 1, LARGE: 1})
    assert (counts, short) == ({SMALL: 2, LARGE: 2}, True)
    counts, short = within(
        replace(observed, gpus={"gpu": 12}), (ONE, ESCALATED), wanted, {SMALL: 1, LARGE: 1}
    )
    assert (counts, short) == ({SMALL: 4, LARGE: 2}, False)


@given(
    gpus=st.integers(5, 60),
    wanted=st.tuples(st.integers(1, 12), st.integers(1, 6)),
    there=st.tuples(st.integers(0, 3), st.integers(0, 2)),
)
def test_no_more_is_started_than_there_are_gpus_for(
    gpus: int, wanted: tuple[int, int], there: tuple[int, int]
) -> None:
    kinds = (SMALL, LARGE)
    replicas = [
        Replica(f"{kind.stage}-{i}", kind, "ready")
        for kind, n in zip(kinds, there, strict=True)
        for i in range(n)
    ]
    observed = Observed(tuple(replicas), {"gpu": max(gpus, there[0] + 4 * there[1])})
    asked, now = dict(zip(kinds, wanted, strict=True)), dict(zip(kinds, there, strict=True))
    counts, short = within(observed, (ONE, ESCALATED), asked, now)
    started = sum(kind.gpus * max(0, counts[kind] - now[kind]) for kind in kinds)
    assert observed.used("gpu") + started <= observed.gpus["gpu"]
    assert short == (counts != asked)
    assert all(counts[kind] <= asked[kind] for kind in kinds)


def test_a_stage_is_loaded_until_its_p95_would_take_its_part_of_the_bound() -> None:
    plan = two_stages(1, 2)
    told = plan.predicted.stages[0]
    desired = Desired(
        {Kind("small", "cpu", 1): 1, Kind("large", "cpu", 1): 2},
        Routing(("small", "large"), (50.0,)),
        capacity_rps={Kind("small", "cpu", 1): 2.0, Kind("large", "cpu", 1): 1.0},
    )

    def gives(load: float, p95_s: float, bound_s: float | None) -> float:
        small = replace(told, load=load, latency=replace(told.latency, p95_s=p95_s), rate_rps=2.0)
        predicted = replace(plan.predicted, stages=(small, *plan.predicted.stages[1:]))
        bounded = replace(plan, objective=Objective("cost", 0.95, None, bound_s), predicted=predicted)
        (size, *_) = sizes_of(bounded, desired)
        return size.gives_rps[Kind("small", "cpu", 1)] / 2.0 * load

    assert gives(0.4, 2.0, 60.0) == pytest.approx(MOST_LOAD), "far from the bound"
    assert gives(0.4, 20.0, 60.0) == pytest.approx(1.0 - 20.0 * 0.6 / (OF_THE_BOUND * 60.0))
    assert gives(0.4, 59.0, 60.0) == pytest.approx(0.4), "the plan was simulated there"
    assert gives(0.9, 10.0, None) == pytest.approx(0.9)


def test_on_a_ladder_a_stage_gets_what_its_plan_gives_it_unless_its_latency_is_next_to_nothing() -> None:
    """Borders scale with the stage that has the least room: one that is filled makes gears lighter. An emptier one
    still takes its time of each request."""
    told = two_stages(1, 2)
    gears = tuple(Gear(border, None, ("small", "large"), (50.0,)) for border in (8.0, None))
    kinds = {Kind("small", "cpu", 1): 2.0, Kind("large", "cpu", 1): 1.0}
    desired = Desired(dict.fromkeys(kinds, 1), Routing(("small", "large"), (50.0,)), capacity_rps=kinds)

    def gives(loads: tuple[float, float], p95_s: float, gears: tuple[Gear, ...]) -> list[float]:
        stages = tuple(
            replace(each, load=load, latency=replace(each.latency, p95_s=each_s))
            for each, load, each_s in zip(told.predicted.stages, loads, (p95_s, 30.0), strict=True)
        )
        predicted = replace(told.predicted, stages=stages)
        plan = replace(told, objective=Objective("cost", 0.95, None, 60.0), predicted=predicted, gears=gears)
        return [rps / kinds[kind] for size in sizes_of(plan, desired) for kind, rps in size.gives_rps.items()]

    assert gives((0.4, 0.7), 10.0, gears) == pytest.approx([1.0, 1.0])
    assert gives((0.4, 0.7), 0.2, gears) == pytest.approx([FILLED, 1.0]), "longer prompts are seen too late"
    assert gives((0.6, 0.7), 0.2, gears) == pytest.approx([0.7 / 0.6, 1.0]), "no fuller than the fullest"
    until_s = NOTHING_OF_THE_BOUND * 60.0
    assert gives((0.4, 0.7), until_s / 1.2, gears) == pytest.approx([0.5 / 0.4, 1.0])
    assert gives((0.4, 0.6), 0.2, gears[:1]) == pytest.approx(
        [MOST_LOAD / 0.4, (1.0 - 30.0 * 0.4 / (OF_THE_BOUND * 60.0)) / 0.6]
    )


def test_todays_plan_has_the_replicas_that_there_are() -> None:
    plan = two_stages(1, 2)
    pool = plan.stages[0].replicas[0].pool
    gpus = plan.stages[0].replicas[0].gpus // plan.stages[0].replicas[0].count
    scaled = as_scaled(plan, {Kind("small", pool, gpus, "any"): 5})
    assert [sum(g.count for g in stage.replicas) for stage in scaled.stages] == [5, 2]
    assert all(sum(g.share for g in stage.replicas) == pytest.approx(1.0) for stage in scaled.stages)


def test_todays_plan_on_what_is_there_can_be_written_and_read_back() -> None:
    """Also where a kind that the plan tells other rates' numbers of has gone: planning begins with that file."""
    plan = a_plan()
    replicas = {"small": (3,), "large": (1, 1), "judge": (1,)}
    plan = replace(plan, scaling=Scaling((Peak(30.0, 1.2),), (Scale(1.0, replicas),)))
    large = plan.stages[1].replicas[0]
    scaled = as_scaled(plan, {Kind("large", large.pool, large.gpus // large.count): 1})
    assert len(scaled.stages[1].replicas) < len(plan.stages[1].replicas), "the example has to lose a kind"
    assert parse_plan(plan_json(scaled), "today.json") == scaled
