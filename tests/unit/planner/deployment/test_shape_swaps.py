"""Steps between mixes: what gives way, what takes its place, and how requests are shared."""

from cascadia.planner.allocation.demand import Replicas
from cascadia.planner.deployment.options import Mix
from cascadia.planner.deployment.shape_swaps import shape_swaps
from cascadia.planner.tables.shapes import Shape
from tests.unit.planner.instances import shape

ONE, TWO, FOUR = shape(1), shape(2), shape(4)
SHAPES = (ONE, TWO, FOUR)
SATURATED = (3.0, 1.2, 0.5)


def steps(
    mix: Mix, *, spare: int = 0, need: float = 1.0, shapes: tuple[Shape, ...] = SHAPES
) -> set[tuple[int, ...]]:
    """Replicas per shape of each step."""
    found = shape_swaps(mix, shapes, SATURATED, {"a": spare, "b": 0}, need)
    return {tuple(sum(r.count for r in m if r.shape is s) for s in shapes) for m in found}


def test_two_small_replicas_give_way_to_one_of_twice_the_size_and_back() -> None:
    assert (3, 1, 0) in steps((Replicas(ONE, 5, 5),))
    assert (5, 0, 0) in steps((Replicas(ONE, 3, 5), Replicas(TWO, 1, 2)))


def test_spare_gpus_are_used_along_with_those_that_are_freed() -> None:
    assert (0, 0, 1) not in steps((Replicas(TWO, 1, 1),))
    assert (0, 0, 1) in steps((Replicas(TWO, 1, 1),), spare=2)


def test_no_step_takes_more_gpus_than_there_are() -> None:
    mix = (Replicas(ONE, 3, 5), Replicas(TWO, 2, 2), Replicas(FOUR, 1, 1))
    for spare in range(4):
        for one, two, four in steps(mix, spare=spare, need=0.0):
            assert one + 2 * two + 4 * four <= 11 + spare


def test_what_cannot_keep_up_is_no_step() -> None:
    assert (1, 1, 0) in steps((Replicas(ONE, 3, 3),), need=1 / 3 + 1 / 1.2)
    assert (1, 1, 0) not in steps((Replicas(ONE, 3, 3),), need=1.2)


def test_requests_are_shared_by_what_each_shape_sustains() -> None:
    found = shape_swaps((Replicas(ONE, 5, 5),), SHAPES, SATURATED, {"a": 0}, 1.0)
    mixed = next(m for m in found if len(m) == 2)
    assert [r.level for r in mixed] == [3.0, 1.2]


def test_replicas_move_to_no_other_pool() -> None:
    assert steps((Replicas(ONE, 2, 2),), shapes=(ONE, shape(1, pool="b"), shape(2, pool="b"))) == set()
