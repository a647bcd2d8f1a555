"""A cascade whose replicas and routing change under way: nothing is lost, nothing begins anew, and it is the twin's."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia_sim.cascade.cascade import CascadeStage, JudgeStage, simulate_cascade
from cascadia_sim.cascade.rolling import CascadeRequests, RollingCascade, VerdictTokens
from cascadia_sim.engine.dispatch import Dispatch, Replica
from cascadia_sim.errors import BadInput
from cascadia_sim.iteration.timing import Ints
from tests.examples import examples
from tests.unit.sim.machines import ints, machine, small_machines, with_clients
from tests.unit.sim.rolling_twin import REFUSED, Site, serve

pytestmark = pytest.mark.slow

NEVER = np.iinfo(np.int64).max
ALONE_PS = 1010 + 1001  # ten tokens read, two written
RULES = st.sampled_from(["round-robin", "least-outstanding"])


def asked(arrival_ps: Ints, stages: int = 2) -> CascadeRequests:
    lengths = np.ones((stages, arrival_ps.size), np.int64)
    return CascadeRequests(arrival_ps, 10 * lengths, 2 * lengths)


def random_asked(rng: np.random.Generator, n: int, stages: int) -> CascadeRequests:
    arrival_ps = np.cumsum(rng.choice([0, 500, 8_000, 30_000], n)).astype(np.int64)
    return CascadeRequests(arrival_ps, rng.integers(1, 20, (stages, n)), rng.integers(1, 20, (stages, n)))


@settings(max_examples=examples(150))
@given(st.integers(0, 2**32), st.integers(1, 30), RULES, st.lists(st.integers(0, 400_000), max_size=6))
def test_pauses_change_nothing(seed: int, n: int, dispatch: Dispatch, pauses_ps: list[int]) -> None:
    rng = np.random.default_rng(seed)
    kinds, requests = with_clients(rng, small_machines(rng)), random_asked(rng, n, 2)
    groups = [
        tuple(Replica(kinds[rng.integers(3)], float(rng.integers(1, 3))) for _ in range(rng.integers(1, 4)))
        for _ in range(3)
    ]
    accept = rng.random((2, n)) < 0.5
    nothing = np.zeros(n, np.int64)
    stages = [
        CascadeStage(groups[s], requests.input_tokens[s], requests.output_tokens[s], nothing, accept[s])
        for s in range(2)
    ]
    whole = simulate_cascade(stages, JudgeStage(groups[2], dispatch, 3, 2), requests.arrival_ps, dispatch)
    rolling = RollingCascade(requests, VerdictTokens(3, 2), dispatch)
    for group, replicas in enumerate(groups):
        for replica in replicas:
            rolling.open(group, replica.timing, replica.weight)
    rolling.route((0, 1), accept)
    for pause_ps in sorted(pauses_ps):
        rolling.advance(pause_ps)
    rolling.finish()
    assert rolling.answers().finish_ps.tolist() == whole.finish_ps.tolist()
    assert rolling.answers().by.tolist() == whole.answered_by.tolist()


@pytest.mark.long
@settings(max_examples=examples(100))
@given(st.integers(0, 2**32), st.integers(1, 25), RULES, st.sampled_from([260.0, 600.0, np.inf]))
def test_replicas_that_come_and_go_serve_as_their_twins_do(
    seed: int, n: int, dispatch: Dispatch, most_load: float
) -> None:
    rng = np.random.default_rng(seed)
    kinds, requests = small_machines(rng), random_asked(rng, n, 2)
    span_ps = int(requests.arrival_ps[-1]) + 20_000
    sites = [Site(group, kinds[rng.integers(3)], 1.0, 0, NEVER) for group in range(3)]
    for _ in range(rng.integers(1, 6)):
        opens_ps, closes_ps = np.sort(rng.integers(0, span_ps, 2)).tolist()
        kind, weight = kinds[rng.integers(3)], float(rng.integers(1, 3))
        sites.append(Site(int(rng.integers(3)), kind, weight, opens_ps, closes_ps))
    accept = rng.random((2, n)) < 0.5
    rolling = RollingCascade(requests, VerdictTokens(3, 2), dispatch, most_load)
    _follow(rolling, sites, accept)

    first = [(int(a), *requests_of(requests, 0, r)) for r, a in enumerate(requests.arrival_ps)]
    answers = served(sites, 0, dispatch, first, most_load)
    let_in = [r for r in range(n) if answers[r] != REFUSED]
    asks = [(answers[r], sum(requests_of(requests, 0, r)) + 3, 2) for r in let_in]
    expected = dict.fromkeys(range(n), REFUSED)
    expected |= dict(zip(let_in, served(sites, 2, dispatch, asks, np.inf, 2), strict=True))
    rejected = [r for r in let_in if not accept[0, r]]
    again = [(expected[r], *requests_of(requests, 1, r)) for r in rejected]
    second = served(sites, 1, dispatch, again, most_load)
    # Who is turned away later gets the answer before, at that instant.
    expected |= {r: end for r, end in zip(rejected, second, strict=True) if end != REFUSED}
    found = rolling.answers()
    assert found.finish_ps.tolist() == list(expected.values())
    assert found.refused.tolist() == [end == REFUSED for end in answers]
    assert [r for r in range(n) if found.by[r] == 1] == [
        r for r, end in zip(rejected, second, strict=True) if end != REFUSED
    ]


def _follow(rolling: RollingCascade, sites: list[Site], accept: np.ndarray) -> None:
    """Opens and closes at the sites' times, in their order."""
    numbers: dict[int, int] = {}
    for now_ps in sorted({t for s in sites for t in (s.opens_ps, s.closes_ps)}):
        if now_ps == NEVER:
            continue
        rolling.advance(now_ps)
        for i, site in enumerate(sites):
            if site.opens_ps == now_ps:
                numbers[i] = rolling.open(site.group, site.timing, site.weight)
        if now_ps == 0:
            rolling.route((0, 1), accept)
        for i, site in enumerate(sites):
            if site.closes_ps == now_ps:
                rolling.close(numbers[i])
    rolling.finish()


def requests_of(requests: CascadeRequests, stage: int, r: int) -> tuple[int, int]:
    return int(requests.input_tokens[stage, r]), int(requests.output_tokens[stage, r])


def served(
    sites: list[Site],
    group: int,
    dispatch: Dispatch,
    visits: list[tuple[int, int, int]],
    most_load: float,
    most_output: int | None = None,
) -> list[int]:
    """In order of arrival, those that arrive together in order of their numbers; answers in the caller's order."""
    order = sorted(range(len(visits)), key=lambda i: (visits[i][0], i))
    mine = sorted((s for s in sites if s.group == group), key=lambda s: s.opens_ps)
    ends = serve(mine, dispatch == "least-outstanding", [visits[i] for i in order], most_load, most_output)
    return [end for _, end in sorted(zip(order, ends, strict=True))]


def two_stages(arrival_ps: Ints) -> RollingCascade:
    rolling = RollingCascade(asked(arrival_ps), None)
    rolling.open(0, machine())
    rolling.open(1, machine())
    return rolling


def test_a_request_keeps_the_routing_that_it_came_under() -> None:
    rolling = two_stages(ints(0, 1_500))
    none, every = np.zeros((2, 2), bool), np.ones((2, 2), bool)
    rolling.route((0, 1), none)
    rolling.advance(1_500)
    rolling.route((0, 1), every)
    rolling.finish()
    assert rolling.answers().by.tolist() == [1, 0]


def test_a_replica_that_closes_finishes_what_it_has_and_gets_nothing_new() -> None:
    rolling = RollingCascade(asked(ints(0, 100), 1), None)
    old = rolling.open(0, machine())
    rolling.route((0,), np.ones((1, 2), bool))
    rolling.advance(100)
    rolling.open(0, machine())
    rolling.close(old)
    assert not rolling.idle(old)
    rolling.advance(ALONE_PS + 1)
    assert rolling.idle(old)
    rolling.finish()
    assert rolling.answers().finish_ps.tolist() == [ALONE_PS, 100 + ALONE_PS]


def test_stragglers_of_an_earlier_routing_are_served_where_its_last_stage_was() -> None:
    rolling = two_stages(ints(0, 100))
    rolling.route((0, 1), np.zeros((2, 2), bool))
    rolling.advance(50)
    rolling.route((0,), np.zeros((2, 2), bool))
    rolling.close(1)
    assert not rolling.idle(1)
    rolling.finish()
    assert rolling.answers().by.tolist() == [1, 0]
    assert rolling.answers().finish_ps[0] == pytest.approx(2 * ALONE_PS, abs=100)
    assert rolling.idle(1)


def test_a_judge_that_a_new_routing_does_without_goes_when_its_last_verdict_is_given() -> None:
    rolling = RollingCascade(asked(ints(0, 5_000, 6_000)), VerdictTokens())
    rolling.open(0, machine())
    rolling.open(1, machine())
    judge = rolling.open(rolling.judge_group, machine())
    rolling.route((0, 1), np.ones((2, 3), bool))
    rolling.advance(1)
    rolling.route((0,), np.ones((2, 3), bool))
    rolling.close(judge)
    assert not rolling.idle(judge)
    rolling.advance(6_001)
    assert (rolling.answers().finish_ps >= 0).tolist() == [True, False, False]
    assert rolling.idle(judge)


def test_nobody_waits_for_stragglers_that_were_turned_away() -> None:
    rolling = RollingCascade(asked(ints(0, 1, 2)), None, most_load=0.0)
    rolling.open(0, machine())
    last = rolling.open(1, machine())
    rolling.route((0, 1), np.zeros((2, 3), bool))
    rolling.advance(10)
    rolling.route((0,), np.zeros((2, 3), bool))
    rolling.close(last)
    assert not rolling.idle(last)
    rolling.finish()
    assert rolling.answers().refused.tolist() == [False, True, True]
    assert rolling.idle(last)


def test_the_last_replica_of_a_stage_in_use_does_not_close() -> None:
    rolling = two_stages(ints(0))
    rolling.route((0, 1), np.ones((2, 1), bool))
    with pytest.raises(BadInput, match="last of a stage"):
        rolling.close(1)


def test_a_stage_without_a_replica_is_not_routed_to() -> None:
    rolling = RollingCascade(asked(ints(0)), None)
    rolling.open(0, machine())
    with pytest.raises(BadInput, match="stage 1 has no open replica"):
        rolling.route((0, 1), np.ones((2, 1), bool))


def test_what_no_replica_could_hold_is_refused_before_it_runs() -> None:
    with pytest.raises(BadInput, match="the longest request has 12"):
        RollingCascade(asked(ints(0)), None).open(0, machine(kv=11))


def test_requests_without_a_routing_are_an_error() -> None:
    rolling = two_stages(ints(5))
    rolling.advance(5)
    with pytest.raises(BadInput, match="no routing"):
        rolling.advance(6)


def test_many_requests_find_room() -> None:
    n = 70_000
    rolling = RollingCascade(asked(np.arange(n, dtype=np.int64) * 1_000, 1), None)
    for _ in range(3):
        rolling.open(0, machine(seqs=64))
    rolling.route((0,), np.ones((1, n), bool))
    for start_ps, end_ps in pairwise(range(0, n * 1_000 + 1, 10_000_000)):
        assert rolling.now_ps == start_ps
        rolling.advance(end_ps)
    rolling.finish()
    assert (rolling.answers().finish_ps > rolling.asked.arrival_ps).all()
