"""Matching: the assignment that costs least, who waits for what, and for how long at most."""

from dataclasses import dataclass
from itertools import permutations
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia.dispatch.candidate import Asked
from cascadia.dispatch.earliest_finish import Trial
from cascadia.dispatch.latency_model import Coefficients, LatencyModel, Seen
from cascadia.dispatch.matching import MOST_MATCH_S, OVERTAKEN, PLACES, RESTS, WINDOW, Matching
from cascadia.dispatch.matching import _best_of_each_kind as best_of_each_kind
from cascadia.dispatch.output_length import FEWEST, OutputLength
from cascadia.dispatch.simulated import Known, Queued, SimulatedMatching
from cascadia_sim.cascade.stage import Replica, simulate_stage
from cascadia_sim.errors import BadInput
from tests.calls import calls
from tests.examples import examples
from tests.unit.sim.machines import machine

FAST = Coefficients(0.05, 1e-3, 1e-3, 1e-4)
SLOW = Coefficients(0.02, 5e-3, 1e-3, 1e-4)
"""Quicker for what reads little: 50 ms and 1 ms a token, 20 ms and 5 ms a token."""


def rule(**kinds: Coefficients) -> Matching:
    length = OutputLength(tells=True)
    for _ in range(FEWEST):
        length.seen(100, 1)
    kinds = kinds or {"fast": FAST, "slow": SLOW}
    return Matching({name: LatencyModel(line, seeded=True) for name, line in kinds.items()}, length)


def one_at_a_time(*kinds: str) -> list[Known]:
    return [Known(f"{i}", kind, max_concurrency=1) for i, kind in enumerate(kinds)]


def queued(*reads: int, left_s: float = inf, since_s: float = 0.0) -> list[Queued]:
    return [Queued(i, Asked(read, 1, None, left_s), since_s) for i, read in enumerate(reads)]


def seconds(kind: str, read: int) -> float:
    return LatencyModel({"fast": FAST, "slow": SLOW}[kind]).seconds(Seen(read, 0.0), 1.0)


@pytest.mark.parametrize("waiting", [2, 3, 4, 5])
def test_the_assignment_is_the_one_that_trying_all_finds(waiting: int) -> None:
    rng = np.random.default_rng(waiting)
    for _ in range(8):
        kinds = [str(kind) for kind in rng.choice(["fast", "slow"], 4)]
        reads = rng.integers(1, 400, waiting).tolist()
        replicas, matching = one_at_a_time(*kinds), rule()
        assert matching.looks(replicas)
        given = matching.match(queued(*reads), replicas, 0.0).given
        found = sum(seconds(kinds[at], reads[i]) for i, at in given)
        served = min(waiting, 4)
        least = min(
            sum(seconds(kinds[at], reads[i]) for i, at in zip(who, where, strict=True))
            for who in permutations(range(waiting), served)
            for where in permutations(range(4), served)
        )
        assert len(given) == served
        assert found == pytest.approx(least)


def test_each_gets_the_replica_that_it_gains_most_by() -> None:
    replicas, matching = one_at_a_time("slow", "fast"), rule()
    matching.looks(replicas)
    assert matching.match(queued(5, 300), replicas, 0.0).given == [(0, 0), (1, 1)]
    assert matching.match(queued(300, 5), replicas, 0.0).given == [(0, 1), (1, 0)]


def test_a_long_request_waits_for_the_fast_replica_and_not_for_longer_than_the_slow_one_takes() -> None:
    replicas, matching = one_at_a_time("slow", "fast"), rule()
    replicas[1].count(1, 100)
    now_s = 0.1 + 1.1
    matching.given(replicas[1], Asked(100, 1), now_s)
    assert matching.place(Asked(300, 1), replicas, now_s) is None
    assert matching.place(Asked(5, 1), replicas, now_s) == 0
    for read in range(290, 330):
        waiting = queued(read, since_s=now_s)
        matched = matching.match(waiting, replicas, now_s)
        assert matched.given == []
        assert matched.again_s == pytest.approx(now_s + seconds("slow", read))
        assert matching.match(waiting, replicas, matched.again_s - 0.01).given == []
        assert matching.match(waiting, replicas, matched.again_s).given == [(0, 0)]


def test_a_request_goes_where_it_is_in_time_though_that_costs_more() -> None:
    replicas, matching = one_at_a_time("slow", "fast"), rule()
    for k in range(64):
        matching.length.seen(10 * k, 1)
    matching.looks(replicas)
    # What the largest request takes on the fast one is a fifth: its time is worth five times as much.
    assert matching.place(Asked(40, 1, None, 1.0), replicas, 0.0) == 0
    assert matching.place(Asked(40, 1, None, 0.15), replicas, 0.0) == 1
    late = queued(40, left_s=1.0, since_s=-0.85)
    assert matching.match(late, replicas, 0.0).given == [(0, 1)]


def test_nobody_is_overtaken_for_ever() -> None:
    """Short requests keep coming to one replica; each costs less than the long one that waits."""
    replicas, matching = one_at_a_time("fast"), rule()
    matching.looks(replicas)
    waiting = queued(3000, *([2] * WINDOW))
    overtaken = 0
    for turn in range(3 * OVERTAKEN):
        (given,) = matching.match(waiting, replicas, 0.1 * turn).given
        if waiting.pop(given.waiting).asked.tokens == 3000:
            break
        overtaken += 1
        waiting += queued(2, since_s=0.1 * turn)
    assert OVERTAKEN <= overtaken <= 2 * OVERTAKEN


def test_those_who_are_late_wherever_they_go_are_served_too() -> None:
    rng = np.random.default_rng(0)
    replicas, matching = one_at_a_time("fast", "slow"), rule()
    matching.looks(replicas)
    waiting, most = queued(2000, left_s=0.1), 0
    behind: dict[int, int] = {}
    number = 0
    for turn in range(1000):
        while len(waiting) < 100:
            number += 1
            waiting += [Queued(number, Asked(int(rng.integers(1, 3000)), 1, None, 2.0), turn)]
        given = matching.match(waiting, replicas, float(turn)).given
        last = max(at for at, _ in given)
        for at, one in enumerate(waiting[: last + 1]):
            behind[one.request] = behind.get(one.request, 0) + sum(at < other for other, _ in given)
        served = {at for at, _ in given}
        most = max(most, *(behind[waiting[at].request] for at in served))
        waiting = [one for at, one in enumerate(waiting) if at not in served]
    assert most <= 2 * OVERTAKEN + 1


def test_what_a_replica_has_read_before_is_saved() -> None:
    replicas = [Known(f"{i}", "slow", max_concurrency=8) for i in range(3)]
    matching = rule(slow=SLOW)
    matching.given(replicas[2], Asked(200, 1, prefix=7))
    assert matching.place(Asked(210, 1, prefix=7), replicas, 0.0) == 2
    replicas[2].count(7, 0)
    assert matching.place(Asked(210, 1, prefix=7), replicas, 0.0) == 2
    replicas[2].count(1, 0)
    assert matching.place(Asked(210, 1, prefix=7), replicas, 0.0) is None
    matching.given(replicas[2], Asked(10, 1, prefix=9))
    assert matching.place(Asked(210, 1, prefix=9), replicas, 0.0) in (0, 1)
    replicas[2].count(-8, 0)
    assert [matching.place(Asked(210, 1, prefix=8), replicas, 0.0) for _ in range(3)] == [0, 1, 2]


def test_a_slow_match_sends_the_next_to_the_least_outstanding() -> None:
    replicas, matching = one_at_a_time("slow", "fast"), rule()
    assert matching.looks(replicas)
    matching.took(0.9 * MOST_MATCH_S)
    assert matching.relied
    matching.took(1.1 * MOST_MATCH_S)
    assert matching.slow == 1
    assert not matching.looks(replicas)
    for _ in range(RESTS):
        assert not matching.relied
        at = matching.place(Asked(300, 1), replicas, 0.0)
        assert at is not None
        matching.given(replicas[at], Asked(300, 1))
    assert matching.relied


def test_predictions_that_err_by_more_than_half_send_requests_to_the_least_outstanding() -> None:
    replicas, matching = one_at_a_time("slow", "fast"), rule()
    replicas[1].count(1, 100)
    assert matching.place(Asked(300, 1), replicas, 0.0) is None
    for k in range(300):
        matching.ended(Trial("fast", Seen(100, 0.0), 1), 1, 0.01 if k % 2 else 60.0)
    assert matching.place(Asked(300, 1), replicas, 0.0) == 0
    replicas[0].count(1, 100)
    assert matching.place(Asked(300, 1), replicas, 0.0) is None


def test_replicas_that_take_all_are_chosen_as_by_the_earliest_finish() -> None:
    replicas, matching = [Known(f"{i}", kind) for i, kind in enumerate(("fast", "slow", "fast"))], rule()
    assert [matching.place(Asked(300, 1), replicas, 0.0) for _ in range(3)] == [0, 2, 0]
    assert matching.matches == 0


def test_equal_replicas_that_serve_one_at_a_time_are_a_queue_with_many_servers() -> None:
    """Answers of one length are begun in order, each as soon as one of the servers is free."""
    rng, n, servers = np.random.default_rng(5), 400, 3
    engine = machine(seqs=1, token_ps=np.arange(1_000, 1_300, dtype=np.int64) * 10**6)
    arrival_ps = np.cumsum(rng.exponential(12e9, n)).astype(np.int64)
    read, wrote = np.full(n, 20), np.full(n, 30)
    known = [Known(f"{i}", "one", max_concurrency=1) for i in range(servers)]
    alone = simulate_stage([Replica(engine)], "round-robin", [0], [20], [30], [0])
    rule_ = SimulatedMatching(rule(one=SLOW), known)
    run = simulate_stage(
        [Replica(engine)] * servers, "round-robin", arrival_ps, read, wrote, np.zeros(n, np.int64), rule=rule_
    )
    free_ps = [0] * servers
    for at, came_ps in enumerate(arrival_ps.tolist()):
        first = min(range(servers), key=free_ps.__getitem__)
        free_ps[first] = max(free_ps[first], came_ps) + int(alone.finish_ps[0])
        assert run.finish_ps[at] == free_ps[first]
    assert not rule_.waiting


def test_of_very_many_replicas_the_best_of_each_kind_are_looked_at_and_none_is_left_idle() -> None:
    replicas, matching = one_at_a_time(*["slow"] * 60, *["fast"] * 2), rule()
    matching.looks(replicas)
    assert {60, 61} <= {at for _, at in matching.match(queued(*[300] * 10), replicas, 0.0).given}
    waiting = SimulatedMatching(matching, replicas)
    waiting.waiting = queued(*[5] * 60)
    begun: list[tuple[int, int]] = []
    while waiting.waiting:
        more = waiting.placed(0.0)
        assert more or waiting.again_s > 0.0
        begun += more
    assert len({at for _, at in begun}) == 60


@settings(max_examples=examples(50))
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 1), st.integers(0, 4)), min_size=1, max_size=90)
)
def test_the_places_looked_at_are_of_each_kind_the_next_best(rows: list[tuple[str, int, int]]) -> None:
    replicas = [
        Known(f"{i}", kind, 1, n, load=float(x), max_concurrency=1) for i, (kind, n, x) in enumerate(rows)
    ]
    ranked = sorted(range(len(rows)), key=lambda i: (*rows[i][1:], i))
    rank = {i: sum(rows[j][0] == rows[i][0] for j in ranked[: ranked.index(i)]) for i in ranked}
    order = sorted(ranked, key=rank.__getitem__)
    assert best_of_each_kind(replicas)[:PLACES] == order[:PLACES]
    assert len(best_of_each_kind(replicas)) >= min(PLACES, len(rows))


def test_a_match_among_400_replicas_calls_no_more_functions_than_among_40() -> None:
    def match(count: int) -> int:
        replicas, matching = one_at_a_time(*["slow", "fast"] * (count // 2)), rule()
        matching.looks(replicas)
        return calls(lambda: matching.match(queued(*[300] * 10), replicas, 0.0))

    # What sorts their loads asks for each by one call, which is C's own.
    assert match(400) - match(40) < 2 * 360


@dataclass
class Keeps:
    """Gives nothing away."""

    again_s: float = inf
    waits: bool = False

    def came(self, request: int, input_tokens: int, now_s: float) -> None:
        self.waits = True

    def placed(self, now_s: float) -> list[tuple[int, int]]:
        return []

    def ended(self, request: int, replica: int, output_tokens: int, now_s: float) -> None:
        raise AssertionError


def test_a_rule_that_keeps_requests_for_ever_is_refused() -> None:
    with pytest.raises(BadInput, match="keeps requests although all replicas are idle"):
        simulate_stage([Replica(machine())] * 2, "round-robin", [0], [5], [5], [0], rule=Keeps())
