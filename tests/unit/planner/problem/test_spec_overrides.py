"""Flags take the place of a spec's values, and are held to the same rules."""

import json
from pathlib import Path

import pytest

from cascadia.domain.errors import BadInput
from cascadia.domain.objective import Level
from cascadia.planner.problem.read import read_problem
from cascadia.planner.spec.overrides import Overrides
from tests.unit.planner.specs import changed, valid_spec, write_spec


def test_overrides_take_the_place_of_the_specs_values(folder: Path) -> None:
    change = Overrides(gpus=((None, 16),), rate_rps=3.0, quality_min=70.0, seed=5, confidence=0.9)
    problem = read_problem(write_spec(folder, valid_spec()), change)
    assert problem.cluster.gpus == 16
    assert problem.workload.rate_rps == pytest.approx(3.0)
    assert (problem.objective.quality_min, problem.seed, problem.confidence) == (70.0, 5, 0.9)


def test_levels_take_the_place_of_the_specs(folder: Path) -> None:
    path, level = write_spec(folder, valid_spec()), Level("ttft", 0.9, 2.0)
    assert read_problem(path).objective.levels == ()
    assert read_problem(path, Overrides(levels=(level,))).objective.levels == (level,)


def test_a_bar_that_nobody_asks_for_is_none_at_all_where_only_latency_counts(folder: Path) -> None:
    def bar(**objective: object) -> float | None:
        return read_problem(write_spec(folder, valid_spec() | {"objective": objective})).objective.quality_min

    assert bar(minimize="latency") == 0.0
    assert bar(minimize="latency", quality_min=70) == 70.0
    assert bar(maximize="quality", latency_max_s=20) is None


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            Overrides(quality_min=0.78),
            "command line: objective.quality_min: is 0.78 of 100, which any model reaches; did you mean 78?",
        ),
        (
            Overrides(confidence=95.0),
            "command line: quality.confidence: must be less than 1, is 95.0; did you mean 0.95?",
        ),
        (Overrides(quality_min=101.0), "command line: objective.quality_min: must be at most 100, is 101.0"),
        (Overrides(gpus=((None, 0),)), "command line: --gpus: must be at least 1, is 0"),
        (
            Overrides(gpus=((None, 12),)),
            "command line: --gpus: 12 GPUs do not make whole nodes of 8; write a multiple of 8",
        ),
        (
            Overrides(gpus=(("l4", 8),)),
            "command line: --gpus: no pool is called 'l4'; pools: h100-sxm",
        ),
        (
            Overrides(latency_max_s=3.0),
            "command line: objective: latency_max_s contradicts minimize latency; "
            "remove it, or use `minimize: cost` under it",
        ),
    ],
)
def test_overrides_are_checked_like_the_spec(folder: Path, change: Overrides, line: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_problem(write_spec(folder, valid_spec()), change)
    assert str(caught.value) == line


H100 = {"gpu": "H100", "nodes": 2, "usd_per_gpu_hour": 2.5}
OWN = {"name": "mine", "memory_gib": 80, "bandwidth_gb_s": 3000, "tflops": {"bf16": 900}}


@pytest.mark.parametrize(
    ("pools", "name", "there"),
    [
        ([H100], "h100-sxm", [("h100-sxm", 8)]),
        ([H100], "H100", [("h100-sxm", 8)]),
        ([H100, {**H100}], "h100-sxm-2", [("h100-sxm", 16), ("h100-sxm-2", 8)]),
        ([{**H100, "gpu": "mine.yaml"}], "mine", [("mine", 8)]),
    ],
)
def test_a_pool_is_sized_under_the_name_that_plans_have_it_under(
    folder: Path, pools: list[dict[str, object]], name: str, there: list[tuple[str, int]]
) -> None:
    (folder / "mine.yaml").write_text(json.dumps(OWN))
    path = write_spec(folder, changed("cluster.pools", pools))
    found = read_problem(path, Overrides(gpus=((name, 8),)))
    assert [(pool.name, pool.gpus) for pool in found.cluster.pools] == there
    assert read_problem(path, Overrides(seed=0)).digest == read_problem(path).digest
