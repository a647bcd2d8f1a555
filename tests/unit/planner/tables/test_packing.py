"""Groups that divide each other: the counting conditions are exactly "they can be laid on the nodes"."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia.planner.tables.packing import fits, packing_rows, packs_perfectly
from cascadia.planner.tables.shapes import Shape
from tests.examples import examples
from tests.unit.planner.enumeration import lay_on_nodes
from tests.unit.planner.instances import pool, shape

shapes_in_use = st.lists(
    st.tuples(st.sampled_from([1, 2, 4, 8]), st.integers(1, 3), st.integers(0, 4)), min_size=1, max_size=4
)


def groups(counts: list[tuple[Shape, int]]) -> list[int]:
    return [s.tp for s, n in counts for _ in range(n * s.pp)]


@settings(max_examples=examples(300))
@given(shapes_in_use, st.integers(1, 4), st.sampled_from([4, 6, 8]))
def test_counting_agrees_with_bin_packing(
    chosen: list[tuple[int, int, int]], nodes: int, gpus_per_node: int
) -> None:
    counts = [(shape(tp, pp), n) for tp, pp, n in chosen]
    found = fits(pool(nodes, gpus_per_node), counts)
    assert found == lay_on_nodes(groups(counts), nodes, gpus_per_node)


def test_two_groups_of_four_do_not_share_a_node_of_six() -> None:
    node = pool(1, 6)
    assert fits(node, [(shape(4), 1), (shape(2), 1)])
    assert not fits(node, [(shape(4), 1), (shape(2), 1), (shape(1), 1)])
    assert not fits(pool(2, 6), [(shape(4), 3)])


def test_a_pipeline_may_lie_on_several_nodes() -> None:
    assert fits(pool(2, 4), [(shape(4, pp=2), 1)])
    assert fits(pool(3, 4), [(shape(2, pp=3), 2)])
    assert not fits(pool(1, 4), [(shape(4, pp=2), 1)])


def test_a_group_larger_than_a_node_takes_whole_nodes() -> None:
    assert fits(pool(2, 4), [(shape(8), 1)])
    assert fits(pool(3, 4), [(shape(8), 1), (shape(4), 1)])
    assert not fits(pool(2, 4), [(shape(8), 1), (shape(1), 1)])
    assert not fits(pool(3, 6), [(shape(8), 2)])
    # On nodes of six a group of four leaves two unused, and so does the half of one of eight.
    assert fits(pool(2, 6), [(shape(8), 1), (shape(4), 0)])
    assert fits(pool(3, 6), [(shape(8), 1), (shape(4), 1)])
    assert not fits(pool(2, 6), [(shape(8), 1), (shape(4), 1)])


def test_replicas_of_another_pool_take_nothing_of_this_one() -> None:
    assert fits(pool(1, 4, "a"), [(shape(4, pool="a"), 1), (shape(8, pool="b"), 5)])


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_one_condition_per_size_in_use_and_one_for_single_gpus(tp: int) -> None:
    rows = packing_rows(pool(2, 8), [shape(tp), shape(4)])
    assert len(rows) == len({1, tp, 4})
    assert (rows[0].weights, rows[0].limit) == ((tp, 4), 16)


def test_nodes_of_a_power_of_two_leave_no_gpu_unused() -> None:
    assert [n for n in range(1, 17) if packs_perfectly(pool(1, n))] == [1, 2, 4, 8, 16]
