"""A GPU that no catalogue knows: in the spec or a file, checked, carried by the plan, and said to be unmeasured."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.errors import BadInput
from cascadia.files.plan_file import parse_plan, plan_json
from cascadia.planner.problem.read import read_problem
from cascadia.planner.replay.replay import replay
from cascadia.render.targets import render, targets_for
from cascadia_sim.evidence.unmeasured import why_unmeasured
from cascadia_sim.hardware.catalogue import gpu, known_gpus
from cascadia_sim.hardware.own import OwnGpu, Tflops, hardware_of, nearest_gpu
from tests.unit.planner.problems import briefly, problem, traffic
from tests.unit.planner.specs import changed, write_spec

pytestmark = pytest.mark.slow

MINE: dict[str, Any] = {
    "name": "my-gpu",
    "memory_gib": 96,
    "bandwidth_gb_s": 1800,
    "tflops": {"bf16": 500, "fp8": 1000},
    "link_gb_s": 128,
}
OWN = OwnGpu("my-gpu", 96, 1800, Tflops(500, 1000), 128)


def pool(described: object, **more: object) -> dict[str, Any]:
    return changed("cluster.pools", [{"gpu": described, "nodes": 4, "usd_per_gpu_hour": 1.9, **more}])


def told(folder: Path, document: dict[str, Any]) -> str:
    with pytest.raises(BadInput) as caught:
        read_problem(write_spec(folder, document))
    return str(caught.value).replace(str(folder), "FOLDER")


def test_figures_of_the_spec_are_those_of_the_simulator(folder: Path) -> None:
    read = read_problem(write_spec(folder, pool(MINE)))
    (found,) = read.cluster.pools
    assert (found.name, found.gpu, found.own_gpu) == ("my-gpu", "my-gpu", OWN)
    hardware = found.hardware
    assert (hardware.memory_bytes, hardware.hbm_bytes_per_s) == (96 * 2**30, 1.8e12)
    assert (hardware.bf16_flops, hardware.fp8_flops, hardware.fp4_flops) == (500e12, 1e15, 0)
    assert hardware.link_bytes_per_s == 128e9
    assert any("my-gpu is unmeasured" in note for note in read.notes)


@pytest.mark.parametrize("name", ["gpu.json", "gpu.yaml"])
def test_a_file_holds_the_same_and_counts_in_the_digest(folder: Path, name: str) -> None:
    (folder / name).write_text(json.dumps(MINE))
    first = read_problem(write_spec(folder, pool(name)))
    assert first.cluster.pools[0].own_gpu == OWN
    (folder / name).write_text(json.dumps(MINE | {"memory_gib": 80}))
    assert read_problem(write_spec(folder, pool(name))).digest != first.digest


def test_a_named_generation_lends_its_efficiency_and_else_the_nearest_does() -> None:
    assert hardware_of(OwnGpu("mine", 80, 3350, Tflops(989, 1978), 450)).generation == "hopper"
    like_l4 = OwnGpu("mine", 24, 300, Tflops(121, 242), 32)
    assert nearest_gpu(like_l4).name == "l4"
    ada, hopper = (
        hardware_of(like_l4),
        hardware_of(OwnGpu("mine", 24, 300, Tflops(121, 242), generation="hopper")),
    )
    assert ada.efficiency == gpu("l4").efficiency
    assert (hopper.generation, hopper.efficiency) == ("hopper", gpu("h100").efficiency)
    assert hardware_of(OwnGpu("mine", 200, 5000, Tflops(1300, 2600), 448, vendor="amd")).generation == "cdna3"


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ({k: v for k, v in MINE.items() if k != "memory_gib"}, "gpu.memory_gib: is missing"),
        (MINE | {"tflops": {"fp8": 3}}, "gpu.tflops.bf16: is missing"),
        (MINE | {"bandwidth_gbs": 3}, "gpu.bandwidth_gbs: unknown key; did you mean 'bandwidth_gb_s'?"),
        (MINE | {"bandwidth_gb_s": 0}, "gpu.bandwidth_gb_s: must be greater than 0, is 0"),
        (MINE | {"memory_gib": "96GB"}, "gpu.memory_gib: must be a number, is '96GB'"),
        (MINE | {"generation": "hoper"}, "gpu.generation: 'hoper' is not known; write one of"),
        (MINE | {"name": "H100"}, "gpu.name: 'H100' is a GPU of the catalogue"),
        ("nothing.json", "gpu: FOLDER/nothing.json: no such file"),
        ("h100-smx", "gpu: unknown GPU 'h100-smx'; did you mean h100-sxm"),
        (7, "gpu: must be text, is 7"),
    ],
)
def test_errors_name_the_field(folder: Path, described: object, message: str) -> None:
    assert f"cascade.yaml: cluster.pools[0].{message}" in told(folder, pool(described))


def test_a_file_names_its_own_field(folder: Path) -> None:
    (folder / "gpu.json").write_text(json.dumps(MINE | {"tflops": 500}))
    assert "gpu: gpu.json: tflops: must be a mapping, is 500" in told(folder, pool("gpu.json"))
    (folder / "gpu.json").write_text("[1]")
    assert "gpu: gpu.json: must be a mapping, is [1]" in told(folder, pool("gpu.json"))


def test_its_price_is_asked_for(folder: Path) -> None:
    document = pool(MINE)
    del document["cluster"]["pools"][0]["usd_per_gpu_hour"]
    assert "cluster.pools[0].usd_per_gpu_hour: is missing; add what an hour of my-gpu costs" in told(
        folder, document
    )


@pytest.fixture(scope="module")
def planned() -> Any:
    mine = Pool("mine", "my-gpu", 1, 8, 1.9, OWN)
    return briefly(problem(pools=[mine])).plan


@pytest.mark.long
def test_the_plan_carries_it_through_a_file_a_replay_and_the_manifests(planned: Any) -> None:
    back = parse_plan(plan_json(planned), "plan.json")
    assert back == planned
    assert back.cluster.pools[0].own_gpu == OWN
    again = replay(back, traffic(), folder=Path())
    assert again.predicted.e2e.p95_s == pytest.approx(planned.predicted.e2e.p95_s, rel=0.5)
    assert targets_for(back) == ("compose", "local")
    assert "my-gpu" not in render(back, back.cluster, "local")  # nothing but the plan needs its name
    with pytest.raises(BadInput, match="no node label is known for it; write product"):
        render(back, back.cluster, "kubernetes")


@pytest.mark.long
def test_with_a_product_it_is_deployed_to_kubernetes(planned: Any) -> None:
    labelled = replace(OWN, product="ACME-X1")
    cluster = Cluster((replace(planned.cluster.pools[0], own_gpu=labelled),))
    there = replace(planned, cluster=cluster)
    assert "kubernetes" in targets_for(there)
    assert "ACME-X1" in render(there, cluster, "kubernetes")


def test_an_edit_that_parts_name_and_figures_is_refused(planned: Any) -> None:
    text = plan_json(planned).replace('"gpu": "my-gpu"', '"gpu": "h100-sxm"')
    with pytest.raises(BadInput, match=r"own_gpu\.name"):
        parse_plan(text, "plan.json")
    with pytest.raises(BadInput, match="memory_gib"):
        parse_plan(plan_json(planned).replace('"memory_gib": 96.0', '"memory_gib": -1.0'), "plan.json")


@pytest.mark.long
def test_twice_the_bandwidth_and_peak_never_plan_slower(planned: Any) -> None:
    fast = OwnGpu("my-gpu", 96, 3600, Tflops(1000, 2000), 256, generation=hardware_of(OWN).generation)
    faster = briefly(problem(pools=[Pool("mine", "my-gpu", 1, 8, 1.9, fast)])).plan
    assert faster.predicted.e2e.p95_s < planned.predicted.e2e.p95_s


UNMEASURED = ("b300-sxm", "gb200", "gb300", "mi325x", "mi355x", "rtx-pro-6000", "rtx5090", "v100", "t4")


@pytest.mark.parametrize("name", UNMEASURED)
def test_gpus_from_data_sheets_are_named_as_unmeasured(folder: Path, name: str) -> None:
    assert name in known_gpus()
    read = read_problem(write_spec(folder, pool(name, gpus_per_node=4, nodes=8)))
    assert any(f"{name} is unmeasured" in note for note in read.notes)


def test_gpus_that_were_measured_are_not() -> None:
    assert [why_unmeasured(gpu(name)) for name in ("h100", "h200", "b200", "a100", "rtx4090", "cpu")] == [
        None
    ] * 6
    assert all(why_unmeasured(gpu(name)) for name in ("l4", "l40s", "a10g", "mi300x", "h20"))


@pytest.mark.parametrize("field", ["memory_gib", "bandwidth_gb_s", "link_gb_s"])
def test_a_figure_as_small_as_floats_go_has_a_nearest_gpu(field: str) -> None:
    nearest_gpu(replace(OWN, **{field: 5e-324}))
