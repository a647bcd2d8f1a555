"""Each balancer keeps its promise, on any replicas and any load."""

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia.dispatch import prefix_affinity
from cascadia.dispatch.answer_length import AnswerLength
from cascadia.dispatch.least_outstanding import LeastOutstanding
from cascadia.dispatch.prefix_affinity import PrefixAffinity, point_of
from cascadia.dispatch.round_robin import SmoothRoundRobin
from tests.examples import examples


@dataclass
class Fake:
    name: str
    weight: float = 1.0
    outstanding_tokens: int = 0


def fakes(weights: list[int], loads: list[int] | None = None) -> list[Fake]:
    loads = loads or [0] * len(weights)
    return [Fake(f"r{i}", w, load) for i, (w, load) in enumerate(zip(weights, loads, strict=True))]


weights_of = st.lists(st.integers(1, 9), min_size=1, max_size=7)
weighed_and_loaded = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 10_000)), min_size=1, max_size=7)


def test_nginx_example_of_weights_5_1_1() -> None:
    robin = SmoothRoundRobin()
    replicas = fakes([5, 1, 1])
    assert [robin.choose(replicas) for _ in range(7)] == [0, 0, 1, 0, 2, 0, 0]


@given(weights_of, st.integers(1, 60))
def test_round_robin_never_strays_further_than_a_turn_from_the_planned_shares(
    weights: list[int], choices: int
) -> None:
    robin, replicas = SmoothRoundRobin(), fakes(weights)
    counts: Counter[int] = Counter()
    for k in range(1, choices + 1):
        counts[robin.choose(replicas)] += 1
        for i, weight in enumerate(weights):
            assert abs(counts[i] - k * weight / sum(weights)) <= len(weights) / 2 + 1


@given(weights_of)
def test_a_full_round_gives_each_replica_exactly_its_weight(weights: list[int]) -> None:
    robin, replicas = SmoothRoundRobin(), fakes(weights)
    counts = Counter(robin.choose(replicas) for _ in range(sum(weights)))
    assert [counts[i] for i in range(len(weights))] == weights


@given(weighed_and_loaded, st.integers(1, 5_000), st.integers(0, 9))
def test_none_has_less_for_its_share_than_the_chosen_one_would_have(
    rows: list[tuple[int, int]], tokens: int, turn: int
) -> None:
    replicas = fakes([w for w, _ in rows], [load for _, load in rows])
    chosen = LeastOutstanding(turn).choose(replicas, tokens)
    after = [(r.outstanding_tokens + tokens) / r.weight for r in replicas]
    assert after[chosen] == min(after)


def test_work_is_spread_over_unequal_shapes_by_their_share() -> None:
    replicas, balancer = fakes([3, 1]), LeastOutstanding()
    for _ in range(400):
        replicas[balancer.choose(replicas, 100)].outstanding_tokens += 100
    assert replicas[0].outstanding_tokens == 30_000


@given(st.integers(1, 80), st.integers(1, 200))
def test_equal_replicas_with_nothing_in_hand_are_taken_in_turn(count: int, choices: int) -> None:
    replicas, balancer = fakes([1] * count), LeastOutstanding()
    assert [balancer.choose(replicas, 5) for _ in range(choices)] == [k % count for k in range(choices)]


def test_of_very_many_replicas_each_is_looked_at_in_its_turn() -> None:
    replicas, balancer = fakes([1] * 100), LeastOutstanding()
    for _ in range(1000):
        replicas[balancer.choose(replicas, 10)].outstanding_tokens += 10
    assert {r.outstanding_tokens for r in replicas} == {100}


def test_the_next_answer_is_expected_to_be_as_long_as_the_last_ones() -> None:
    length = AnswerLength()
    assert (length.expected(), length.expected(16)) == (256, 16)
    for tokens in [1000] * 5_000 + [40] * 20_000:
        length.expected()
        length.seen(tokens)
    assert length.expected() == 40
    assert length.expected(16) == 16


@settings(max_examples=examples(50))
@given(weighed_and_loaded, st.integers(1, 5_000), st.integers(0, 2**64 - 1))
def test_affinity_keeps_to_the_bound_unless_the_replica_was_idle(
    rows: list[tuple[int, int]], tokens: int, prefix: int
) -> None:
    replicas = fakes([w for w, _ in rows], [load for _, load in rows])
    balancer = PrefixAffinity(bound=1.25)
    chosen = replicas[balancer.choose(replicas, tokens, prefix)]
    work = sum(r.outstanding_tokens for r in replicas) + tokens
    within = 1.25 * work * chosen.weight / sum(r.weight for r in replicas)
    least = min((r.outstanding_tokens + tokens) / r.weight for r in replicas)
    assert (
        chosen.outstanding_tokens == 0
        or chosen.outstanding_tokens + tokens <= within
        or (chosen.outstanding_tokens + tokens) / chosen.weight == least
    )


def test_a_replica_that_leaves_moves_its_own_prefixes_only() -> None:
    replicas, balancer = fakes([1, 1, 1, 1]), PrefixAffinity()
    prefixes = [point_of(str(k).encode()) for k in range(400)]
    before = {p: replicas[balancer.choose(replicas, 10, p)].name for p in prefixes}
    fewer = replicas[:-1]
    moved = [p for p in prefixes if fewer[balancer.choose(fewer, 10, p)].name != before[p]]
    assert moved
    assert all(before[p] == "r3" for p in moved)


def test_who_is_full_for_a_while_keeps_its_points_and_none_is_hashed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hashed: list[bytes] = []
    monkeypatch.setattr(
        prefix_affinity, "point_of", lambda content: hashed.append(content) or point_of(content)
    )
    replicas, balancer = fakes([1] * 100), PrefixAffinity()
    home = {k: balancer.choose(replicas, 10, point_of(b"%d" % k)) for k in range(100)}
    assert len(hashed) == 100 * 100
    for k, full in home.items():
        others = replicas[:full] + replicas[full + 1 :]
        assert others[balancer.choose(others, 10, point_of(b"%d" % k))] is not replicas[full]
    assert home == {k: balancer.choose(replicas, 10, point_of(b"%d" % k)) for k in home}
    assert len(hashed) == 100 * 100


def test_who_was_no_candidate_for_long_leaves_the_ring_when_others_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prefix_affinity, "FORGOTTEN", 3)
    replicas, balancer = fakes([1, 1, 1, 1]), PrefixAffinity()
    balancer.choose(replicas[:3], 10, 1)
    for _ in range(3):
        balancer.choose(replicas[1:3], 10, 1)
    balancer.choose(replicas[1:], 10, 1)
    assert {name for _, name in balancer._ring} == {"r1", "r2", "r3"}


@settings(max_examples=examples(20))
@given(st.lists(st.lists(st.sampled_from([0, 1, 2, 5]), min_size=4, max_size=4), min_size=2, max_size=6))
def test_whatever_replicas_came_and_went_shares_are_by_weight_within_a_quarter(past: list[list[int]]) -> None:
    balancer = PrefixAffinity()
    for weights in [*past, [2, 2, 2, 2]]:
        now = [r for r, w in zip(fakes([max(1, w) for w in weights]), weights, strict=True) if w]
        if now:
            balancer.choose(now, 1, 1)
    counts = Counter(name for _, name in balancer._ring)
    assert len(counts) == 4
    assert len(set(counts.values())) == 1
    assert 100 / 1.25 <= counts["r0"] <= 100 * 1.25


def test_one_hot_prefix_spills_over_instead_of_drowning_its_replica() -> None:
    replicas, balancer = fakes([1, 1, 1]), PrefixAffinity(bound=1.25)
    for _ in range(300):
        replicas[balancer.choose(replicas, 10, 7)].outstanding_tokens += 10
    assert max(r.outstanding_tokens for r in replicas) <= 1.25 * 3000 / 3 + 10


@given(weights_of, st.integers(1, 60))
def test_what_one_is_owed_the_others_have_had(weights: list[int], choices: int) -> None:
    robin, replicas = SmoothRoundRobin(), fakes([*weights, 1])
    for _ in range(choices):
        robin.choose(replicas)
        assert sum(robin.credit.values()) == 0


def test_a_replica_that_comes_back_is_owed_no_more_than_when_it_left() -> None:
    robin, replicas = SmoothRoundRobin(), fakes([1, 1, 1])
    robin.choose(replicas)
    assert robin.credit == {"r0": -2, "r1": 1, "r2": 1}
    for _ in range(7):
        robin.choose(replicas[:2])
    assert robin.credit["r2"] == 1


def test_a_request_stays_at_home_as_long_as_the_share_of_all_work_and_its_own_allows() -> None:
    idle = fakes([1, 1])
    home = next(
        p for p in map(point_of, (b"a", b"b", b"c", b"d")) if PrefixAffinity().choose(idle, 1, p) == 1
    )
    # 60 + t may be 1.25 times half of 110 + t: t is 23.3.
    assert PrefixAffinity(1.25).choose(fakes([1, 1], [50, 60]), 23, home) == 1
    assert PrefixAffinity(1.25).choose(fakes([1, 1], [50, 60]), 24, home) == 0
    # An idle home takes anything.
    assert PrefixAffinity(1.25).choose(fakes([1, 1], [50, 0]), 10_000, home) == 1


def on_the_ring(replicas: list[Fake], tokens: int, prefix: int, bound: float) -> int:
    """The first replica clockwise from `prefix` with room, by walking past every point of the ring."""
    mean = sum(r.weight for r in replicas) / len(replicas)
    ring = sorted(
        (point_of(f"{r.name}#{k}".encode()), i)
        for i, r in enumerate(replicas)
        for k in range(round(100 * r.weight / mean))
    )
    work = sum(r.outstanding_tokens for r in replicas) + tokens
    weight = sum(r.weight for r in replicas)
    clockwise = [i for at, i in ring if at > prefix] + [i for at, i in ring if at <= prefix]
    return next(
        i
        for i in clockwise
        if not replicas[i].outstanding_tokens
        or replicas[i].outstanding_tokens + tokens <= bound * work * replicas[i].weight / weight
    )


@pytest.mark.parametrize("loads", [[0, 0, 0], [90, 10, 10], [90, 80, 10], [40, 90, 30], [50, 50, 50]])
@pytest.mark.parametrize("weights", [[1, 1, 1], [1, 2, 5]])
def test_a_request_goes_to_the_next_on_the_ring_that_has_room(weights: list[int], loads: list[int]) -> None:
    replicas, balancer = fakes(weights, loads), PrefixAffinity(bound=1.5)
    for k in range(60):
        prefix = point_of(f"prefix {k}".encode())
        assert balancer.choose(replicas, 7, prefix) == on_the_ring(replicas, 7, prefix, 1.5)


def test_replicas_share_prefixes_by_their_weights() -> None:
    replicas, balancer = fakes([1, 2, 5]), PrefixAffinity()
    chosen = Counter(balancer.choose(replicas, 1, point_of(str(k).encode())) for k in range(4000))
    assert [chosen[i] / 4000 for i in range(3)] == pytest.approx([1 / 8, 2 / 8, 5 / 8], abs=0.06)


def test_who_has_no_prefix_goes_where_least_is_outstanding() -> None:
    assert PrefixAffinity().choose(fakes([1, 1, 1], [5, 9, 3]), 10, None) == 2


@pytest.mark.parametrize(
    ("weights", "loads", "chosen"), [([3, 2], [5, 3], 1), ([2, 3], [3, 5], 0), ([4, 3], [3, 3], 0)]
)
def test_load_is_compared_by_fractions_of_a_weight(weights: list[int], loads: list[int], chosen: int) -> None:
    assert LeastOutstanding().choose(fakes(weights, loads)) == chosen
