"""Planning goes on with the whole nodes that are left, whatever has gone."""

from pathlib import Path

import pytest

from cascadia.controller.decide.gpus_left import on_gpus
from cascadia.domain.errors import BadInput
from cascadia.planner.problem.read import read_problem
from cascadia.planner.spec.file import check_spec
from tests.unit.planner.specs import changed, write_inputs, write_spec

SPEC = {
    "stages": [{"name": "small", "model": "meta-llama/Llama-3.1-8B-Instruct"}],
    "cluster": {
        "pools": [
            {"gpu": "h100-sxm", "nodes": 4, "gpus_per_node": 8, "usd_per_gpu_hour": 2.9},
            {"gpu": "l40s", "nodes": 1, "gpus_per_node": 4, "usd_per_gpu_hour": 1.0},
        ]
    },
    "judge": {"kind": "certainty"},
    "workload": {"trace": "t.csv"},
    "quality": {"table": "q.csv"},
    "objective": {"minimize": "latency", "quality_min": 80},
}


@pytest.mark.parametrize(
    ("gpus", "left"),
    [
        ({}, {"h100-sxm": 32, "l40s": 4}),
        ({"h100-sxm": 24, "l40s": 4}, {"h100-sxm": 24, "l40s": 4}),
        ({"h100-sxm": 31, "l40s": 4}, {"h100-sxm": 24, "l40s": 4}),
        ({"h100-sxm": 7, "l40s": 3}, {"h100-sxm": 7, "l40s": 3}),
        ({"h100-sxm": 0, "l40s": 4}, {"l40s": 4}),
        ({"h100-sxm": 40, "l40s": 0}, {"h100-sxm": 40}),
    ],
)
def test_whole_nodes_are_left(gpus: dict[str, int], left: dict[str, int]) -> None:
    found = on_gpus(check_spec(SPEC, "cascade.yaml"), gpus)
    assert {pool.called: pool.nodes * pool.gpus_per_node for pool in found.cluster.pools} == left


def test_nothing_left_is_said() -> None:
    with pytest.raises(BadInput, match="must be at least 1"):
        on_gpus(check_spec(SPEC, "cascade.yaml"), {"h100-sxm": 0, "l40s": 0})


@pytest.mark.parametrize(
    ("gpus", "left"),
    [
        ({"h100-sxm": 8, "h100-sxm-2": 8}, {"h100-sxm": 8, "h100-sxm-2": 8}),
        ({"h100-sxm": 0, "h100-sxm-2": 16}, {"h100-sxm-2": 16}),
    ],
)
def test_pools_without_a_name_keep_the_one_that_plans_have_them_under(
    tmp_path: Path, gpus: dict[str, int], left: dict[str, int]
) -> None:
    """A spec may write another of the GPU's names, or none that tells two pools apart."""
    pools = [{"gpu": "H100", "nodes": 2}, {"gpu": "h100-sxm", "nodes": 2}]
    write_inputs(tmp_path)
    path = write_spec(tmp_path, changed("cluster.pools", pools))
    found = read_problem(path, lambda spec: on_gpus(spec, gpus))
    assert {pool.name: pool.gpus for pool in found.cluster.pools} == left
