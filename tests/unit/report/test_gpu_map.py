"""The picture of GPUs shows each exactly once."""

import re
import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from cascadia.domain.cluster import Pool
from cascadia.report.gpu_map import Block, gpu_map, place
from tests.unit.report.plans import thousand_gpus
from tests.unit.report.sample import sample_plan


def block(gpus: int, replica: int = 1) -> Block:
    return Block("stage", 0, replica, gpus=gpus, shape=f"TP{gpus}", rank=1, ranks=1)


def tips(svg: str) -> list[str]:
    return ["".join(e.itertext()) for e in ET.fromstring(svg).iter("title")]


@given(st.lists(st.sampled_from([1, 2, 4, 8]), max_size=20))
def test_powers_of_two_that_fit_in_sum_are_placed_whole(sizes: list[int]) -> None:
    pool = Pool("p", "h100-sxm", max(1, -(-sum(sizes) // 8)), 8, 1.0)
    nodes = place(pool, [block(size, i) for i, size in enumerate(sizes)])
    assert sorted(b.gpus for node in nodes for b in node) == sorted(sizes)
    assert all(sum(b.gpus for b in node) <= 8 for node in nodes)


@given(st.lists(st.integers(1, 24), max_size=8), st.integers(1, 9))
def test_no_gpu_is_lost_even_where_a_group_spans_nodes(sizes: list[int], per_node: int) -> None:
    pool = Pool("p", "h100-sxm", max(1, -(-sum(sizes) // per_node)), per_node, 1.0)
    nodes = place(pool, [block(size, i) for i, size in enumerate(sizes)])
    assert sum(b.gpus for node in nodes for b in node) == sum(sizes)
    assert all(sum(b.gpus for b in node) <= per_node for node in nodes)


def test_every_replica_and_every_free_gpu_of_a_small_cluster_is_drawn() -> None:
    shown = tips(gpu_map(sample_plan(), {}))
    assert sum(int(tip.rsplit(": ", 1)[1].split()[0]) for tip in shown if " here" in tip) == 30
    assert shown.count("a free GPU") == 2
    assert "large, replica 2 (TP4 PP2), pipeline rank 1 of 2: 4 GPUs here" in shown


def test_a_large_cluster_draws_equal_nodes_once_and_counts_them() -> None:
    svg = gpu_map(thousand_gpus(), {})
    words = ["".join(e.itertext()) for e in ET.fromstring(svg).iter("text")]
    named = [re.fullmatch(r"nodes? (\d+)(?:–(\d+), all alike)?", word) for word in words]
    counted = sum(int(m[2] or m[1]) - int(m[1]) + 1 for m in named if m)
    assert counted == sum(pool.nodes for pool in thousand_gpus().cluster.pools)
    assert sum(1 for m in named if m) < 40
