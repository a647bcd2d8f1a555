"""Which GPUs of the machine each replica sees."""

from dataclasses import replace

import pytest

from cascadia.controller.local.desired import LocalPlan, local_plan
from cascadia.controller.local.engines_file import Engine, Local
from cascadia.controller.local.supervisor import gpu_ids
from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.errors import BadInput
from cascadia.domain.plan import JudgePlan, Plan, ReplicaGroup
from cascadia.testing.plans import plan, stage
from tests.unit.controller.machine import NO_GPU_JUDGE, two_stages


def on(*pools: Pool) -> Plan:
    """A stage on each pool, with as many replicas of one GPU as it has."""
    stages = [stage(pool.name, ReplicaGroup(pool.name, 1, 1, pool.gpus, 1.0)) for pool in pools]
    return plan(stages, Cluster(pools), NO_GPU_JUDGE)


def two_pools() -> LocalPlan:
    return local_plan(on(Pool("a", "h100-sxm", 1, 6, 2.67), Pool("b", "l4", 1, 2, 0.5)))


@pytest.mark.parametrize(
    ("gpu", "variable"),
    [("h100-sxm", "CUDA_VISIBLE_DEVICES"), ("mi300x", "HIP_VISIBLE_DEVICES")],
)
def test_each_vendor_has_its_variable(gpu: str, variable: str) -> None:
    found = local_plan(on(Pool("a", gpu, 1, 2, 2.0)))
    (launch,) = found.launches.values()
    assert {name: launch.env[name] for name in launch.env if "VISIBLE" in name} == {variable: "{gpus}"}
    commanded = local_plan(on(Pool("a", gpu, 1, 2, 2.0)), Local(stages={"a": Engine(command=["engine"])}))
    assert next(iter(commanded.launches.values())).env == {variable: "{gpus}"}


def test_a_command_of_ones_own_may_choose_its_gpus() -> None:
    own = Engine(command=["engine"], env={"CUDA_VISIBLE_DEVICES": "7"})
    found = local_plan(on(Pool("a", "l4", 1, 2, 2.0)), Local(stages={"a": own}))
    assert next(iter(found.launches.values())).env == {"CUDA_VISIBLE_DEVICES": "7"}


def test_all_shapes_of_a_judge_are_one_stage_under_its_models_own_name() -> None:
    groups = (ReplicaGroup("here", 1, 1, 1, 0.5), ReplicaGroup("here", 2, 1, 1, 0.5))
    judge = JudgePlan(
        "llm",
        "self-hosted",
        "org/judge",
        engine="vllm",
        quantization=None,
        max_model_len=4096,
        replicas=groups,
    )
    made = plan(two_stages(1, 1).stages, Cluster((Pool("here", "l4", 1, 8, 0.5),)), judge)
    found = local_plan(made)
    stages = {kind.stage for kind in found.counts} - {"small", "large"}
    assert found.routing.stages == ("small", "large", *stages)
    assert len(stages) == 1
    assert found.router["judge"] == {"kind": "llm", "model": "org/judge"}
    served = [
        argument for launch in found.launches.values() for argument in launch.argv if "served" in argument
    ]
    assert served.count("--served-model-name=org/judge") == 2
    other = local_plan(replace(made, judge=replace(judge, model="org/other")))
    assert other.routing.stages[-1] not in stages


def test_pools_share_a_machines_numbers() -> None:
    assert gpu_ids(two_pools(), {}) == {"a": (0, 1, 2, 3, 4, 5), "b": (6, 7)}


def test_of_a_shared_machine_only_the_gpus_that_are_shown_are_used() -> None:
    shown = gpu_ids(
        two_pools(), {"CUDA_VISIBLE_DEVICES": "8, 9,10,11,12,13,14,15", "HIP_VISIBLE_DEVICES": "0"}
    )
    assert shown == {"a": (8, 9, 10, 11, 12, 13), "b": (14, 15)}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("0,1", "shows 2 GPUs, and the plan's pools have 8; show more, or plan for these"),
        ("", "shows 0 GPUs"),
        ("GPU-8932f937", "is 'GPU-8932f937'; name the GPUs by their numbers"),
    ],
)
def test_too_few_or_unnumbered_gpus_are_one_line(value: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        gpu_ids(two_pools(), {"CUDA_VISIBLE_DEVICES": value})
    assert said in str(caught.value)


def test_cores_are_counted_by_themselves() -> None:
    found = local_plan(two_stages(1, 1), Local(stages={n: Engine(command=["e"]) for n in ("small", "large")}))
    cores = {kind: replace(launch, cores=True) for kind, launch in found.launches.items()}
    assert gpu_ids(replace(found, launches=cores), {}) == {"here": (0, 1, 2)}
