from dataclasses import replace

import pytest

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.errors import BadInput
from cascadia.domain.plan import JudgePlan, ReplicaGroup
from cascadia.render.engine_groups import LONGEST_DRAIN_S, engine_groups
from cascadia.render.gpu_nodes import GPU_NODES
from cascadia.testing.plans import POOLS, plan, prediction, stage, three_stages
from cascadia_sim.hardware.catalogue import known_gpus

ONE = ReplicaGroup("h100", 1, 1, 1, 1.0)


def test_two_groups_of_one_shape_have_different_names() -> None:
    groups = engine_groups(plan([stage("s", ONE, ONE)], POOLS), POOLS)
    assert len({g.name for g in groups}) == 2
    assert len({g.service for g in groups}) == 1


def test_a_stage_called_judge_is_not_the_judge() -> None:
    judge = JudgePlan(
        "llm",
        "self-hosted",
        "org/judge",
        engine="vllm",
        quantization=None,
        max_model_len=4096,
        replicas=(ONE,),
    )
    groups = engine_groups(plan([stage("judge", ONE)], POOLS, judge), POOLS)
    assert [g.role for g in groups] == ["stage", "judge"]
    assert len({g.service for g in groups}) == len({g.name for g in groups}) == 2


def test_an_engine_may_finish_what_it_has_begun() -> None:
    base = three_stages()
    slow = tuple(replace(prediction(s.name, 100.0)) for s in base.stages)
    groups = engine_groups(replace(base, predicted=replace(base.predicted, stages=slow)), base.cluster)
    assert {g.drain_s for g in groups if g.role == "stage"} == {600}
    endless = tuple(replace(prediction(s.name, float("inf"))) for s in base.stages)
    groups = engine_groups(replace(base, predicted=replace(base.predicted, stages=endless)), base.cluster)
    assert {g.drain_s for g in groups if g.role == "stage"} == {LONGEST_DRAIN_S}


def test_a_pool_that_is_not_there_is_named() -> None:
    lost = plan([stage("s", replace(ONE, pool="b200"))], POOLS)
    with pytest.raises(BadInput, match=r"pool b200: the cluster has no such pool; it has h100, l4"):
        engine_groups(lost, POOLS)


def test_a_gpu_without_a_node_label_is_refused() -> None:
    cluster = Cluster((Pool("h100", "abacus", 1, 8, 1.0),))
    with pytest.raises(BadInput, match="gpu abacus: no node label is known"):
        engine_groups(plan([stage("s", ONE)], cluster), cluster)


def test_every_gpu_of_the_catalogue_has_a_node_label() -> None:
    assert set(known_gpus()) <= set(GPU_NODES)


def test_a_name_used_twice_is_refused() -> None:
    with pytest.raises(BadInput, match=r"stages\[1\].name: 's' is used twice"):
        engine_groups(plan([stage("s", ONE), stage("s", ONE)], POOLS), POOLS)
