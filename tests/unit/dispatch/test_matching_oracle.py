"""Matching against its formula, written down anew and tried over all assignments: who starts now, and where."""

from itertools import permutations
from math import inf

import numpy as np
import pytest

from cascadia.dispatch.candidate import Asked
from cascadia.dispatch.latency_model import Coefficients, LatencyModel
from cascadia.dispatch.matching import Matching
from cascadia.dispatch.output_length import FEWEST, OutputLength
from cascadia.dispatch.simulated import Known, Queued

LINES = {"fast": Coefficients(0.02, 1e-3, 2e-3, 1e-4), "slow": Coefficients(0.05, 4e-3, 7e-3, 5e-4)}
NOW_S = 3.0
WROTE = 12
"""Of every answer that was seen, so of a large request too, which is taken to read `LARGE`."""
LARGE = 256
EARLIER_S = 1e-6
"""By so much a free place is cheaper for each request that came earlier."""
Place = tuple[int, float, float]
"""Replica, its load by then, and the seconds until it is free."""


def rule() -> Matching:
    length = OutputLength(tells=True)
    for _ in range(FEWEST):
        length.seen(100, WROTE)
    return Matching({kind: LatencyModel(line, seeded=True) for kind, line in LINES.items()}, length)


def whole_s(kind: str, read: float, wrote: float, load: float = 0.0) -> float:
    line = LINES[kind]
    return line.base_s + line.read_s * read + wrote * (line.step_s + line.load_s * load)


def next_places(replicas: list[Known], ends_s: dict[int, float]) -> list[Place]:
    found = []
    for i, r in enumerate(replicas):
        if r.running < r.max_concurrency:
            found.append((i, r.load, 0.0))
        elif r.running == 1:
            found.append((i, 0.0, ends_s[i] - NOW_S))
        else:
            found.append((i, r.load * (1 - 1 / r.running), whole_s(r.kind, LARGE, WROTE, r.load) / r.running))
    return found


def cost(one: Queued, place: Place, replicas: list[Known]) -> float:
    replica = replicas[place[0]]
    line, (_, load, wait_s) = LINES[replica.kind], place
    wrote = WROTE if one.asked.most_output is None else min(WROTE, one.asked.most_output)
    begins_s = line.base_s + line.read_s * one.asked.tokens
    token_s = line.step_s + line.load_s * load
    told_s = wait_s + begins_s + wrote * token_s
    if one.asked.left_s == inf:
        return told_s
    grown = token_s + line.load_s * (replica.max_concurrency - replica.running)
    left_s = one.asked.left_s - (NOW_S - one.since_s)
    late = wait_s + min(1.5, grown / token_s) * (begins_s + wrote * token_s) > 0.98 * left_s
    alone_s = whole_s(replica.kind, LARGE, WROTE)
    worth = whole_s("fast", LARGE, WROTE) / alone_s
    single = all(r.max_concurrency == 1 for r in replicas)
    return (worth if single else worth**0.5) * told_s + (10 * one.asked.left_s if late else 0.0)


def fleet(rng: np.random.Generator, most: int) -> list[Known]:
    kinds = ["fast", "slow", *rng.choice(["fast", "slow"], 2)]
    replicas = [Known(f"{i}", str(kind), max_concurrency=most) for i, kind in enumerate(kinds)]
    for replica in replicas[1:]:
        running = int(rng.integers(0, most + 1))
        replica.count(running, running * int(rng.integers(50, 3000)))
    return replicas


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("seed", range(25))
def test_who_starts_now_is_what_trying_all_assignments_finds(most: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    replicas, matching = fleet(rng, most), rule()
    assert matching.looks(replicas)
    ends_s = {}
    for i, replica in enumerate(replicas):
        if replica.running == 1 == most:
            trial = matching.given(Known(replica.name, replica.kind), Asked(100), 2.9)
            ends_s[i] = 2.9 + whole_s(replica.kind, 100, trial.expected_tokens)
    limits = (None, 3, 40)
    waiting = [
        Queued(
            i,
            Asked(
                int(rng.integers(1, 300)),
                limits[rng.integers(3)],
                None,
                float(rng.choice([inf, 0.06, 0.4, 1.5])),
            ),
            NOW_S - float(rng.uniform(0, 0.3)),
        )
        for i in range(3)
    ]
    places = next_places(replicas, ends_s)
    costs = [[cost(one, place, replicas) - EARLIER_S * (64 - i) * (place[2] == 0) for place in places]
             for i, one in enumerate(waiting)]  # fmt: skip
    totals = {where: sum(costs[i][at] for i, at in enumerate(where)) for where in permutations(range(4), 3)}
    least = min(totals.values())
    equals = [where for where, total in totals.items() if total < least + 1e-9]
    given = matching.match(waiting, replicas, NOW_S).given
    assert given in [
        [(i, places[at][0]) for i, at in enumerate(where) if places[at][2] == 0] for where in equals
    ]


def test_a_replica_with_room_for_more_costs_each_of_them_the_ones_before() -> None:
    """Three requests of 50 tokens take three of four places: an idle `fast` and an idle `slow`, and each with a request
    in hand. The second on `slow` takes 0.334 s and 6 ms for the first, on `fast` 0.094 s and what we make of it."""
    in_hand = 1 + WROTE / 4096
    even_s = (0.24 + 0.006 * in_hand) / (WROTE * in_hand)
    for load_s, third in ((0.999 * even_s, 0), (1.001 * even_s, 1)):
        replicas, matching = [Known(kind, kind, max_concurrency=8) for kind in LINES], rule()
        matching.models["fast"] = LatencyModel(LINES["fast"]._replace(load_s=load_s), seeded=True)
        assert matching.looks(replicas)
        given = matching.match([Queued(i, Asked(50), NOW_S) for i in range(3)], replicas, NOW_S).given
        assert sorted(at for _, at in given) == sorted([0, 1, third])


def test_of_equal_replicas_those_with_room_are_looked_at_before_fuller_ones_with_less_in_hand() -> None:
    full = [Known(f"{i}", "fast", max_concurrency=1) for i in range(32)]
    for replica in full:
        replica.count(1, 10)
    roomy, matching = Known("roomy", "fast", max_concurrency=64), rule()
    roomy.count(20, 40_000)
    slow = Known("slow", "slow", max_concurrency=1)
    slow.count(1, 10)
    replicas = [*full, roomy, slow]
    assert matching.looks(replicas)
    assert matching.match([Queued(0, Asked(10), NOW_S)], replicas, NOW_S).given == [(0, 32)]
