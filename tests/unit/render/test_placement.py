from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia.domain.cluster import Pool
from cascadia.domain.errors import BadInput
from cascadia.render.placement import Demand, Slot, place
from tests.examples import examples


def pool(nodes: int, gpus_per_node: int = 8) -> Pool:
    return Pool("h100", "h100-sxm", nodes, gpus_per_node, 2.0)


def test_a_replica_that_fits_a_node_is_one_rank() -> None:
    assert place(pool(1), [Demand(tp=2, pp=3, replicas=1)]) == (((Slot(0, (0, 1, 2, 3, 4, 5)),),),)


def test_ranks_of_a_replica_over_nodes_are_alike() -> None:
    """Three pipeline stages of four GPUs: two would fit a node, but then the ranks would differ."""
    ((replica,),) = place(pool(2), [Demand(tp=4, pp=3, replicas=1)])
    assert [len(slot.gpus) for slot in replica] == [4, 4, 4]
    assert [slot.node for slot in replica] == [0, 0, 1]


def test_a_tensor_parallel_group_over_nodes_takes_equal_parts() -> None:
    ((replica,),) = place(pool(2), [Demand(tp=16, pp=1, replicas=1)])
    assert replica == (Slot(0, tuple(range(8))), Slot(1, tuple(range(8))))


def test_large_ranks_come_first_whatever_the_order_of_demands() -> None:
    small, large = place(pool(2), [Demand(1, 1, 8), Demand(8, 1, 1)])
    assert large == ((Slot(0, tuple(range(8))),),)
    assert [replica[0] for replica in small] == [Slot(1, (gpu,)) for gpu in range(8)]


def test_a_pipeline_is_spread_where_it_would_not_fit_whole() -> None:
    """Two pipelines of 6 GPUs leave two on each node: the third is cut, which adds the fewest ranks."""
    spread = place(pool(2), [Demand(tp=2, pp=3, replicas=2), Demand(tp=2, pp=2, replicas=1)])
    assert [len(replica) for demand in spread for replica in demand] == [1, 1, 2]


def test_what_cannot_be_held_is_refused() -> None:
    with pytest.raises(BadInput, match=r"pool h100: its 1 nodes of 8 GPUs cannot hold"):
        place(pool(1), [Demand(8, 1, 1), Demand(1, 1, 1)])


DEMANDS = st.lists(
    st.builds(Demand, tp=st.sampled_from([1, 2, 4, 8]), pp=st.integers(1, 4), replicas=st.integers(1, 3)),
    min_size=1,
    max_size=4,
)


@given(DEMANDS)
@settings(max_examples=examples(200))
def test_whatever_fits_by_whole_tensor_parallel_groups_is_placed_without_sharing(
    demands: list[Demand],
) -> None:
    """The pool is as small as it can be for these groups, which divide one another."""
    need = sum(d.tp * d.pp * d.replicas for d in demands)
    nodes = -(-need // 8)
    placed = place(pool(nodes), demands)
    for demand, replicas in zip(demands, placed, strict=True):
        assert len(replicas) == demand.replicas
        assert all(sum(len(slot.gpus) for slot in replica) == demand.tp * demand.pp for replica in replicas)
        assert len({len(slot.gpus) for replica in replicas for slot in replica}) == 1
    used = [(slot.node, gpu) for d in placed for replica in d for slot in replica for gpu in slot.gpus]
    assert not any(a == b for a, b in combinations(used, 2))
    assert all(node < nodes and gpu < 8 for node, gpu in used)
