"""Orders of a move against all that there are: each state by the rules written down anew; and which order is best.

No kind both comes and goes: tuples of one kind are equal, whichever sort of move they are.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, product

import numpy as np
import pytest

from cascadia.controller.move.order import (
    Add,
    Move,
    Needs,
    Remove,
    Switch,
    Task,
    best_order,
    find_order,
    shortfall,
)
from cascadia.controller.move.state import Kind

SMALL, LARGE, OLD = Kind("small", "h100", 1), Kind("large", "h100", 2), Kind("small", "h100", 2, "old")
OLD_LARGE = Kind("large", "h100", 1, "old")
KINDS = (SMALL, LARGE, OLD, OLD_LARGE)
FREE = {"h100": 0}


def task(**changes: object) -> Task:
    """One stage of two old replicas of 2 GPUs, in place of which four of one GPU come; all are needed."""
    needs = Needs(frozenset({"small"}), {"small": 4.0})
    fields: dict[str, object] = {
        "ready": {OLD: 2}, "add": {SMALL: 4}, "remove": {OLD: 2}, "free": FREE,
        "capacity_rps": {SMALL: 1.0, OLD: 2.0}, "before": needs, "after": needs, "switched": True,
    }  # fmt: skip
    return Task(**(fields | changes))  # type: ignore[arg-type]


def strength(of: Task, done: Sequence[Move], stage: str) -> tuple[int, float]:
    """Replicas of the stage, and what they carry."""
    count = Counter(of.ready)
    for move in done:
        if not isinstance(move, Switch):
            count[move.kind] += 1 if isinstance(move, Add) else -1
    here = [(n, of.capacity_rps.get(kind, 1.0)) for kind, n in count.items() if kind.stage == stage]
    return sum(n for n, _ in here), sum(n * rps for n, rps in here)


def needs_of(of: Task, done: Sequence[Move]) -> Needs:
    return of.after if of.switched or any(isinstance(move, Switch) for move in done) else of.before


def free(of: Task, done: Sequence[Move]) -> int:
    taken = [m.kind.gpus if isinstance(m, Add) else -m.kind.gpus for m in done if not isinstance(m, Switch)]
    return of.free["h100"] - sum(taken)


def allowed(of: Task, done: Sequence[Move], move: Move, keep: float) -> bool:
    then = [*done, move]
    match move:
        case Add():
            return free(of, then) >= 0
        case Remove(kind):
            needs, (left, rps) = needs_of(of, done), strength(of, then, kind.stage)
            routed = kind.stage in needs.stages
            return rps >= keep * needs.rps.get(kind.stage, 0.0) - 1e-9 and (left >= 1 or not routed)
        case Switch():
            found = {stage: strength(of, done, stage) for stage in of.after.stages}
            return all(
                n >= 1 and rps >= keep * of.after.rps.get(s, 0.0) - 1e-9 for s, (n, rps) in found.items()
            )


def orders(of: Task, keep: float) -> Iterator[list[Move]]:
    """All that are allowed."""
    todo: list[Move] = [Add(kind) for kind, n in of.add.items() for _ in range(n)]
    todo += [Remove(kind) for kind, n in of.remove.items() for _ in range(n)]

    def go(path: list[Move], left: list[Move]) -> Iterator[list[Move]]:
        if not left:
            yield path
        for at, move in enumerate(left):
            if move not in left[:at] and allowed(of, path, move, keep):
                yield from go([*path, move], left[:at] + left[at + 1 :])

    return go([], todo if of.switched else [*todo, Switch()])


def short(of: Task, order: Sequence[Move]) -> float:
    """Summed over runs of moves of one sort: the worst of before and of after."""
    total, done = 0.0, list[Move]()

    def kept() -> float:
        needs = needs_of(of, done)
        asked = [(stage, rps) for stage, rps in needs.rps.items() if rps > 0 and stage in needs.stages]
        return min([1.0, *(strength(of, done, stage)[1] / rps for stage, rps in asked)])

    for sort, run in groupby(order, key=type):
        before = kept()
        done += run
        total += 0.0 if sort is Switch else 1.0 - min(before, kept())
    return total


def drawn(seed: int) -> Task:
    rng = np.random.default_rng(seed)
    stages = [frozenset(s) for s in ({"small"}, {"large"}, {"small", "large"})]
    before, after = (
        Needs(
            stages[rng.integers(3)], {s: float(rng.choice([0.0, 1.0, 2.0, 3.5])) for s in ("small", "large")}
        )
        for _ in range(2)
    )
    ready = {kind: int(rng.integers(3)) for kind in KINDS}
    return task(
        ready=ready, add={SMALL: int(rng.integers(3)), LARGE: int(rng.integers(2))},
        remove={kind: int(rng.integers(ready[kind] + 1)) for kind in (OLD, OLD_LARGE)},
        free={"h100": int(rng.integers(4))}, capacity_rps={SMALL: 1.5, LARGE: 2.5},
        before=before, after=after, switched=bool(rng.integers(2)),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_an_order_is_found_where_there_is_one_and_each_of_its_moves_is_allowed(seed: int) -> None:
    of = drawn(seed)
    for keep, room_first in product((0.0, 0.5, 1.0), (False, True)):
        every = list(orders(of, keep))
        found = find_order(of, keep, room_first=room_first)
        assert (found is None) == (not every)
        assert found is None or found in every
        if found is not None:
            assert shortfall(of, found) == pytest.approx(short(of, found))
            best = best_order(of, keep)
            assert best in every
            both = [order for order in (found, find_order(of, keep)) if order is not None]
            assert short(of, best) <= min(short(of, order) for order in both) + 1e-9


def test_what_there_is_room_for_is_added_before_anything_is_removed() -> None:
    assert find_order(task(free={"h100": 4}), 1.0) == [Add(SMALL)] * 4 + [Remove(OLD)] * 2
    turned = [Add(SMALL), Add(SMALL), Remove(OLD)]
    assert find_order(task(free={"h100": 2}), 1.0) == 2 * turned
    assert find_order(task(free={"h100": 1}), 1.0) is None
    assert find_order(task(), 0.5) == [Remove(OLD), Add(SMALL), Add(SMALL)] * 2


def test_room_is_made_at_once_where_that_is_shorter_of_capacity() -> None:
    """Of six requests a second each of three drains leaves four: 1/3 is short while one ends, and again while two load.
    Two at once leave two: 2/3 twice, but then there is room for four, and the last goes while nothing is short."""
    of = task(ready={OLD: 3}, add={SMALL: 4}, remove={OLD: 2}, before=Needs(frozenset({"small"}), {"small": 6.0}),
              after=Needs(frozenset({"small"}), {"small": 6.0}))  # fmt: skip
    first = [Remove(OLD), Add(SMALL), Add(SMALL)] * 2
    assert find_order(of, 1 / 3) == first
    assert shortfall(of, first) == pytest.approx(4 / 3)
    at_once = [Remove(OLD), Remove(OLD), *[Add(SMALL)] * 4]
    assert find_order(of, 1 / 3, room_first=True) == at_once
    assert shortfall(of, at_once) == pytest.approx(4 / 3)
    assert best_order(of, 1 / 3) == first
    spare = task(ready={OLD: 4}, add={SMALL: 4}, remove={OLD: 2}, before=of.before, after=of.after)
    assert (shortfall(spare, first), shortfall(spare, at_once)) == (0.0, pytest.approx(2 / 3))
    tight = task(ready={OLD: 3}, add={SMALL: 2, LARGE: 1}, remove={OLD: 2}, before=of.before, after=of.after)
    assert short(tight, best_order(tight, 1 / 3) or []) == pytest.approx(
        min(short(tight, order) for order in orders(tight, 1 / 3))
    )


def test_who_is_shortest_of_what_it_needs_gains_first_and_of_equals_the_large() -> None:
    both = Needs(frozenset({"small", "large"}), {"small": 4.0, "large": 4.0})
    of = task(ready={SMALL: 2, LARGE: 2}, add={SMALL: 1, LARGE: 1}, remove={}, free={"h100": 3},
              capacity_rps={SMALL: 1.0, LARGE: 1.5}, before=both, after=both)  # fmt: skip
    assert find_order(of, 0.0) == [Add(SMALL), Add(LARGE)]
    even = task(ready={SMALL: 3, LARGE: 2}, add=of.add, remove={}, free=of.free, capacity_rps=of.capacity_rps,
                before=both, after=both)  # fmt: skip
    assert find_order(even, 0.0) == [Add(LARGE), Add(SMALL)]
    later = Needs(both.stages, {"small": 4.0, "large": 12.0})
    assert find_order(task(ready=of.ready, add=of.add, remove={}, free=of.free, capacity_rps=of.capacity_rps,
                           before=both, after=later), 0.0) == [Add(LARGE), Add(SMALL)]  # fmt: skip


def test_who_has_most_to_spare_leaves_first_but_for_what_somebody_waits_for() -> None:
    both = Needs(frozenset({"small", "large"}), {"small": 1.0, "large": 1.0})
    of = task(ready={SMALL: 4, LARGE: 3}, add={}, remove={SMALL: 1, LARGE: 1}, before=both, after=both,
              capacity_rps={SMALL: 1.0, LARGE: 1.0})  # fmt: skip
    assert find_order(of, 1.0) == [Remove(SMALL), Remove(LARGE)]
    even = task(ready={SMALL: 3, LARGE: 3}, add={}, remove=of.remove, before=both, after=both,
                capacity_rps=of.capacity_rps)  # fmt: skip
    assert find_order(even, 1.0) == [Remove(LARGE), Remove(SMALL)]
    other, new = Kind("large", "l4", 2), Kind("large", "l4", 1, "new")
    waits = task(ready={SMALL: 9, other: 2}, add={new: 1}, remove={SMALL: 1, other: 1}, before=both, after=both,
                 free={"h100": 0, "l4": 0}, capacity_rps={})  # fmt: skip
    assert find_order(waits, 1.0) == [Remove(other), Add(new), Remove(SMALL)]


def test_nothing_to_do_is_an_order_and_a_change_of_routing_alone_too() -> None:
    assert find_order(task(add={}, remove={}), 1.0) == []
    assert find_order(task(add={}, remove={}, switched=False), 1.0) == [Switch()]
    assert find_order(task(ready={}, add={}, remove={}, switched=False), 0.0) is None
