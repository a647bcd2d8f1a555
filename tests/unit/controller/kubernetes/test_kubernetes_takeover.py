"""Engines that Helm made are taken over only as what they run as."""

from typing import Any

import pytest

from cascadia.controller.kubernetes.adopt_from_helm import made_for
from cascadia.controller.kubernetes.desired import KubernetesPlan, kubernetes_plan
from cascadia.domain.errors import BadInput
from cascadia.domain.plan import ReplicaGroup
from cascadia.render.kubernetes.engines.workloads import workload
from cascadia.testing.plans import POOLS, plan, stage
from tests.unit.deploy.matrix import CERTAINTY, values_of

PLAN = plan([stage("small", ReplicaGroup("h100", 1, 1, 3, 1.0))], POOLS, CERTAINTY)


@pytest.fixture
def known() -> KubernetesPlan:
    return kubernetes_plan(PLAN, values_of(PLAN), "cascadia", "llm", frozenset())


def pod(of: KubernetesPlan) -> dict[str, Any]:
    """One that the chart's own Deployment of the group has."""
    (made,) = of.made.values()
    template: dict[str, Any] = workload(of.release, made.unit, made.group)["spec"]["template"]
    return {**template, "metadata": {**template["metadata"], "name": "p"}}


def test_a_pod_of_a_planned_group_is_of_its_kind(known: KubernetesPlan) -> None:
    (kind,) = known.made
    assert made_for(known, pod(known))[0] == kind


def test_a_pod_that_runs_with_other_settings_is_refused(known: KubernetesPlan) -> None:
    found = pod(known)
    found["spec"]["containers"][0]["image"] = "another"
    with pytest.raises(
        BadInput, match="pod p: runs with other settings than the values say; change nothing else"
    ):
        made_for(known, found)


def test_a_pod_of_a_group_that_the_plan_lacks_is_refused(known: KubernetesPlan) -> None:
    found = pod(known)
    found["metadata"]["labels"]["cascadia/workload"] = "gone"
    with pytest.raises(BadInput, match="pod p: is of gone, and the plan has none; give the plan that runs"):
        made_for(known, found)
