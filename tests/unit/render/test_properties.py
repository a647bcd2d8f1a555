"""Claims that hold for any plan."""

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.names import NAME, name_fault
from cascadia.domain.plan import Plan, ReplicaGroup
from cascadia.render import FILE_NAMES, render
from cascadia.render.compose.file import JUDGE, ROUTER
from cascadia.testing.plans import plan, stage
from tests.examples import examples
from tests.unit.render.kubernetes_schemas import validate
from tests.unit.render.manifests import WITHOUT_DASHBOARDS, engines, gpus, objects, pods
from tests.unit.render.reading import documents

NAMES = st.from_regex(NAME, fullmatch=True).filter(lambda name: name_fault(name) is None)
# Words that YAML parsers take for something else.
WEIRD = st.sampled_from(["on", "null", "1e3", "0x1f", "2001-01-01", "a/../b", "1.", "7--help"])
GROUPS = st.lists(
    st.builds(
        ReplicaGroup,
        pool=st.sampled_from(["h100", "Größe 1e3"]),
        tp=st.sampled_from([1, 2, 4, 8]),
        pp=st.integers(1, 5),
        count=st.integers(0, 3),
        share=st.floats(0, 1),
    ),
    max_size=3,
)
DNS_LABEL = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """On a cluster that is just large enough."""
    names = draw(st.lists(NAMES | WEIRD, min_size=1, max_size=3, unique=True))
    groups = [draw(GROUPS) for _ in names]
    engines = [draw(st.sampled_from(["vllm", "sglang"])) for _ in names]
    pools = []
    for name, gpu in (("h100", "h100-sxm"), ("Größe 1e3", "mi300x")):
        need = sum(g.gpus for stage_groups in groups for g in stage_groups if g.pool == name)
        pools.append(Pool(name, gpu, max(1, -(-need // 8)), 8, 2.0))
    stages = [
        stage(name, *stage_groups, engine=engine)
        for name, stage_groups, engine in zip(names, groups, engines, strict=True)
    ]
    return plan(stages, Cluster(tuple(pools)))


several = settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(plans())
@several
def test_kubernetes_objects_are_valid_and_ask_for_the_plans_gpus(any_plan: Plan) -> None:
    found = objects(any_plan)
    for o in found:
        assert DNS_LABEL.fullmatch(o["metadata"]["name"])
        if o["kind"] in ("Service", "PodDisruptionBudget", "Deployment"):
            validate(o, "1.37", strict=True)
    workloads = [*engines(found), *engines(found, "LeaderWorkerSet")]
    assert len(workloads) == sum(bool(g.count) for s in any_plan.stages for g in s.replicas)
    assert gpus(found) == any_plan.gpus
    for _, pod in pods(found):
        assert all(len(value) <= 63 for value in pod["metadata"]["labels"].values())


@given(plans())
@several
def test_processes_never_share_a_gpu_or_a_port(any_plan: Plan) -> None:
    found = json.loads(render(any_plan, any_plan.cluster, "local"))
    used = [(p["node"], gpu) for p in found for gpu in p["gpu_ids"]]
    assert len(used) == len(set(used)) == any_plan.gpus
    assert len({p["port"] for p in found}) == len({p["name"] for p in found}) == len(found)
    named = {s.name for s in any_plan.stages if s.deployed}
    assert {p["stage"] for p in found} == named
    assert all(f"--served-model-name={p['stage']}" in p["argv"] for p in found)


@pytest.mark.long
@given(plans())
@several
def test_every_target_is_deterministic_and_reads_back(any_plan: Plan) -> None:
    for target in FILE_NAMES:
        text = render(any_plan, any_plan.cluster, target, values=WITHOUT_DASHBOARDS)
        assert text == render(any_plan, any_plan.cluster, target, values=WITHOUT_DASHBOARDS)
        assert text.encode().decode() == text
        assert "!!python" not in text
        documents(text)
    services = documents(render(any_plan, any_plan.cluster, "compose"))[0]["services"]
    reserved = [service for service in services.values() if service["image"].startswith(("vllm", "lmsysorg"))]
    assert len(reserved) == len(services.keys() - {ROUTER, JUDGE})
    (values,) = documents(render(any_plan, any_plan.cluster, "helm-values"))
    assert values["cascade"]["stages"] == [s.name for s in any_plan.stages]
