"""A cascade in gears: each arrival gets its routing by what is under way, as the router's rule would choose it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia.domain.gear import Ladder, Shift
from cascadia_sim.cascade.cascade import CascadeStage, JudgeStage, simulate_cascade
from cascadia_sim.cascade.elsewhere import Elsewhere
from cascadia_sim.cascade.rolling import (
    CascadeRequests,
    RollingCascade,
    Routing,
    VerdictDelays,
    VerdictTokens,
)
from cascadia_sim.engine.dispatch import Dispatch, Replica
from cascadia_sim.errors import BadInput
from tests.examples import examples
from tests.unit.sim.cascade.test_rolling_cascade import RULES, asked, random_asked
from tests.unit.sim.machines import ints, machine, small_machines, with_clients

pytestmark = pytest.mark.slow

HOLD_S = 3e-8
"""In the machines' own time, some iterations."""


def some_routings(rng: np.random.Generator, n: int) -> tuple[Routing, ...]:
    """Two stages, one that decides by the question whom it takes, and the second alone."""
    accept = rng.random((2, n)) < 0.5
    enter, judged = rng.random((2, 2, n)) < 0.7
    return Routing((0, 1), accept), Routing((0, 1), accept, enter, judged), Routing((1,), accept)


def some_cascade(
    rng: np.random.Generator,
    requests: CascadeRequests,
    judge: VerdictTokens | VerdictDelays,
    dispatch: Dispatch,
) -> RollingCascade:
    kinds = with_clients(rng, small_machines(rng))
    cascade = RollingCascade(requests, judge, dispatch)
    for group in range(3 if isinstance(judge, VerdictTokens) else 2):
        for _ in range(rng.integers(1, 3)):
            cascade.open(group, kinds[rng.integers(3)])
    return cascade


def some_judge(rng: np.random.Generator, n: int) -> VerdictTokens | VerdictDelays:
    return VerdictTokens(3, 2) if rng.random() < 0.5 else VerdictDelays(rng.integers(0, 4_000, (2, n)))


@settings(max_examples=examples(150))
@given(
    st.integers(0, 2**32),
    st.integers(1, 40),
    RULES,
    st.lists(st.integers(0, 400_000), max_size=3),
    st.sampled_from([0.4, 1.0]),
)
def test_it_chooses_as_the_router_does(
    seed: int, n: int, dispatch: Dispatch, pauses_ps: list[int], ready: float
) -> None:
    """The router's rule, fed with what the simulation itself says was under way at each arrival."""
    rng = np.random.default_rng(seed)
    requests = random_asked(rng, n, 2)
    cascade = some_cascade(rng, requests, some_judge(rng, n), dispatch)
    borders = np.sort(rng.choice(8, 2, replace=False) + 0.5).tolist()
    cascade.shift(some_routings(rng, n), borders, hold_s=HOLD_S)
    cascade.ready(ready)
    for pause_ps in sorted(pauses_ps):
        cascade.advance(pause_ps)
    cascade.finish()

    finish_ps = cascade.answers().finish_ps
    shift = Shift(Ladder(tuple(borders)), hold_s=HOLD_S)
    for i, now_ps in enumerate(requests.arrival_ps):
        # What ends at that very instant is still under way: arrivals are taken first.
        under_way = int((finish_ps[:i] >= now_ps).sum())
        assert cascade.gears[i] == shift.arrival(under_way, float(now_ps) * 1e-12, ready)


@settings(max_examples=examples(100))
@given(st.integers(0, 2**32), st.integers(1, 40), RULES)
def test_a_request_goes_by_its_gear_to_the_end(seed: int, n: int, dispatch: Dispatch) -> None:
    """With each request's gear known, one routing that tells it of each request apart has the same answers."""
    rng = np.random.default_rng(seed)
    requests, judge = random_asked(rng, n, 2), some_judge(rng, n)
    routings = some_routings(rng, n)
    state = rng.bit_generator.state
    cascade = some_cascade(rng, requests, judge, dispatch)
    cascade.shift(routings, (2.5, 4.5), hold_s=HOLD_S)
    cascade.finish()

    rng.bit_generator.state = state
    plain = some_cascade(rng, requests, judge, dispatch)
    gear, mine = cascade.gears, np.arange(n)
    asked_first = np.array([np.ones(n, bool), routings[1].enter[0], np.zeros(n, bool)])  # type: ignore[index]
    judged = np.array([np.ones(n, bool), routings[1].judged[0], np.zeros(n, bool)])  # type: ignore[index]
    both = np.ones((2, n), bool)
    enter, waits = both.copy(), both.copy()
    enter[0], waits[0] = asked_first[gear, mine], judged[gear, mine]
    plain.shift((Routing((0, 1), routings[0].accept, enter, waits),))
    plain.finish()
    assert cascade.answers().finish_ps.tolist() == plain.answers().finish_ps.tolist()
    assert cascade.answers().by.tolist() == plain.answers().by.tolist()


@settings(max_examples=examples(100))
@given(st.integers(0, 2**32), st.integers(1, 40), RULES)
def test_one_gear_is_the_cascade(seed: int, n: int, dispatch: Dispatch) -> None:
    rng = np.random.default_rng(seed)
    requests, kinds = random_asked(rng, n, 2), with_clients(rng, small_machines(rng))
    accept, enter, judged, tried = rng.random((4, 2, n)) < 0.6
    groups = [tuple(Replica(kinds[rng.integers(3)]) for _ in range(rng.integers(1, 3))) for _ in range(2)]
    cached = rng.integers(0, requests.input_tokens)
    latency_ps = rng.integers(0, 4_000, (2, n))
    looked_ps = rng.choice([0, 900, 20_000], n)
    stages = [
        CascadeStage(groups[s], requests.input_tokens[s], requests.output_tokens[s], cached[s], accept[s],
                     enter[s], judged[s], tried[s])
        for s in range(2)
    ]  # fmt: skip
    whole = simulate_cascade(
        stages, JudgeStage(latency_ps=latency_ps), requests.arrival_ps, dispatch, foresight_ps=looked_ps
    )
    told = CascadeRequests(requests.arrival_ps, requests.input_tokens, requests.output_tokens, cached)
    cascade = RollingCascade(told, VerdictDelays(latency_ps), dispatch)
    for group, replicas in enumerate(groups):
        for replica in replicas:
            cascade.open(group, replica.timing)
    cascade.shift((Routing((0, 1), accept, enter, judged, looked_ps, tried),))
    cascade.finish()
    assert cascade.answers().finish_ps.tolist() == whole.finish_ps.tolist()
    assert cascade.answers().by.tolist() == whole.answered_by.tolist()


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32), st.integers(1, 25))
def test_one_gear_whose_gates_share_a_judge_is_the_cascade(seed: int, n: int) -> None:
    """Clients who have their answers late are late for judge and next stage too. No two arrive at once."""
    rng = np.random.default_rng(seed)
    some = random_asked(rng, n, 3)
    requests = CascadeRequests(
        some.arrival_ps + 7 * np.arange(n, dtype=np.int64), some.input_tokens, some.output_tokens
    )
    kinds, accept = with_clients(rng, small_machines(rng)), rng.random((3, n)) < 0.5
    stages = [
        CascadeStage(
            (Replica(kinds[s]),),
            requests.input_tokens[s],
            requests.output_tokens[s],
            ints(*[0] * n),
            accept[s],
        )
        for s in range(3)
    ]
    judge = JudgeStage((Replica(machine(kv=80)),), prompt_tokens=3, output_tokens=2)
    whole = simulate_cascade(stages, judge, requests.arrival_ps)
    cascade = RollingCascade(requests, VerdictTokens(3, 2))
    for group, timing in enumerate((*kinds, machine(kv=80))):
        cascade.open(group, timing)
    cascade.route((0, 1, 2), accept)
    cascade.finish()
    assert cascade.answers().finish_ps.tolist() == whole.finish_ps.tolist()


@settings(max_examples=examples(60))
@given(
    st.integers(0, 2**32), st.integers(1, 25), st.booleans(), st.sets(st.sampled_from([0, 1, 2]), min_size=1)
)
def test_one_gear_with_stages_elsewhere_is_the_cascade(
    seed: int, n: int, hosted: bool, away: set[int]
) -> None:
    """Any stage may be an API, also all; its limit is kept in the same order. No two arrive at once."""
    rng = np.random.default_rng(seed)
    requests = random_asked(rng, n, 3)
    requests = replace(requests, arrival_ps=requests.arrival_ps + 7 * np.arange(n, dtype=np.int64))
    kinds, accept = small_machines(rng), rng.random((3, n)) < 0.5
    apis = [some_api(rng, n) if s in away else None for s in range(3)]
    stages = [
        CascadeStage(
            () if api else (Replica(kinds[s]),),
            requests.input_tokens[s],
            requests.output_tokens[s],
            ints(*[0] * n),
            accept[s],
            elsewhere=api,
        )
        for s, api in enumerate(apis)
    ]
    delays = VerdictDelays(rng.integers(0, 4_000, (3, n)))
    replicas = (Replica(machine(kv=80)),)
    judge = JudgeStage(replicas, prompt_tokens=3, output_tokens=2)
    whole = simulate_cascade(
        stages, judge if hosted else JudgeStage(latency_ps=delays.latency_ps), requests.arrival_ps
    )
    cascade = RollingCascade(requests, VerdictTokens(3, 2) if hosted else delays, apis=apis)
    for group, timing in enumerate((*kinds, machine(kv=80))):
        if group == 3 if group > 2 else apis[group] is None:
            cascade.open(group, timing)
    cascade.route((0, 1, 2), accept)
    for pause_ps in np.sort(rng.integers(0, int(whole.finish_ps.max()) + 1, 4)):
        cascade.advance(int(pause_ps))
        told = cascade.answers()
        assert told.by[told.finish_ps >= 0].tolist() == whole.answered_by[told.finish_ps >= 0].tolist()
    cascade.finish()
    assert cascade.answers().finish_ps.tolist() == whole.finish_ps.tolist()
    assert cascade.answers().by.tolist() == whole.answered_by.tolist()


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32), st.integers(1, 25))
def test_each_who_is_under_way_is_in_hand_at_a_stage_or_with_the_judge(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    some = random_asked(rng, n, 2)
    requests = replace(some, arrival_ps=1 + some.arrival_ps)
    cascade = RollingCascade(requests, VerdictTokens(3, 2))
    kinds = small_machines(rng)
    for group in range(3):
        cascade.open(group, kinds[group])
    cascade.route((0, 1), rng.random((2, n)) < 0.5)
    for at_ps in range(1_000, 30_000, 1_000):
        cascade.advance(at_ps)
        under_way = (requests.arrival_ps < at_ps) & (cascade.answers().finish_ps < 0)
        assert sum(cascade.in_hand()) == under_way.sum()
        assert cascade.turned_away() == [0, 0]


def test_a_judge_has_in_hand_what_waits_for_its_verdict() -> None:
    """All ask for theirs at once, of a judge that gives one at a time."""
    n, seen = 6, set[int]()
    cascade = RollingCascade(asked(np.ones(n, np.int64)), VerdictTokens(3, 2))
    for group in range(3):
        cascade.open(group, machine())
    cascade.route((0, 1), np.ones((2, n), bool))
    for at_ps in range(100, 20_000, 100):
        cascade.advance(at_ps)
        seen.add(cascade.in_hand()[cascade.judge_group])
    assert max(seen) > 1
    assert cascade.in_hand() == [0, 0, 0]


def test_whom_a_full_stage_turned_away_is_counted() -> None:
    n = 6
    cascade = RollingCascade(asked(np.ones(n, np.int64)), None, most_load=0.0)
    cascade.open(0, machine())
    cascade.route((0,), np.ones((2, n), bool))
    cascade.finish()
    assert cascade.turned_away() == [n - 1, 0]
    assert cascade.answers().refused.sum() == n - 1


def some_api(rng: np.random.Generator, n: int) -> Elsewhere:
    first_ps = rng.integers(0, 5_000, n)
    return Elsewhere(first_ps, first_ps + rng.integers(0, 5_000, n), rng.choice([None, 1, 3, 8]))


def test_who_waits_for_an_api_is_under_way() -> None:
    """One may be sent a minute: the third finds the second waiting for that, and goes elsewhere. So does the fourth, by
    whom the calm begins."""
    apis = (Elsewhere(*np.zeros((2, 5), np.int64), per_minute=1), None)
    at_ps = (np.array([0, 1, 2, 61, 181]) * 1e12).astype(np.int64)
    cascade = RollingCascade(asked(at_ps), None, apis=apis)
    cascade.open(1, machine())
    none = np.zeros((2, 5), bool)
    cascade.shift((Routing((0,), none), Routing((1,), none)), (0.5,))
    cascade.advance(int(30e12))
    assert cascade.in_hand() == [1, 0, 0]
    cascade.finish()
    assert cascade.answers().by.tolist() == [0, 0, 1, 1, 0]
    assert np.rint(cascade.answers().finish_ps / 1e12).tolist() == [0, 60, 2, 61, 181]


def test_another_ladder_finds_nobody_under_two() -> None:
    """Who arrived under the first keeps its gear; the next one arrives under the second."""
    n = 40
    cascade = RollingCascade(asked(np.arange(n, dtype=np.int64) * 100), None)
    for group in range(2):
        cascade.open(group, machine())
    none = np.zeros((2, n), bool)
    cascade.shift((Routing((0, 1), none), Routing((0,), none)), (5.5,))
    cascade.advance(1_950)
    before = cascade.gears.copy()
    cascade.shift((Routing((1,), none),))
    cascade.finish()
    assert set(before[:20].tolist()) == {0, 1}
    assert cascade.gears[:20].tolist() == before[:20].tolist()
    assert cascade.answers().by[20:].tolist() == [1] * 20
    assert cascade.answers().by[:20].tolist() == [1 - gear for gear in before[:20]]


@pytest.mark.parametrize("borders", [(), (0.0,), (3.0, 4.0)])
def test_borders_that_do_not_fit_are_told(borders: tuple[float, ...]) -> None:
    cascade = RollingCascade(asked(ints(0)), None)
    cascade.open(0, machine())
    two = (Routing((0,), np.zeros((2, 1), bool)),) * 2
    with pytest.raises(BadInput, match="rising from above 0"):
        cascade.shift(two, borders)


def test_a_share_of_nothing_is_told() -> None:
    with pytest.raises(BadInput, match="above 0"):
        RollingCascade(asked(ints(0)), None).ready(0.0)
