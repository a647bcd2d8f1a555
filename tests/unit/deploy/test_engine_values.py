"""What a user says of engines' pods, for all or for one stage, is in them; the plan's GPU stays wanted."""

from typing import Any

from tests.unit.deploy.chart import by_us
from tests.unit.render.manifests import pods

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def specs(case: str) -> dict[str, dict[str, Any]]:
    """By stage; a worker's pod after its leader's."""
    found = {}
    for _, pod in pods(list(by_us(case).values())):
        found[pod["metadata"]["labels"]["cascadia/service"]] = pod["spec"]
    return found


def test_every_term_for_nodes_wants_the_gpu_too() -> None:
    for spec in specs("engines with more").values():
        terms = spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
        assert [term["matchExpressions"][1]["key"] for term in terms] == ["disk", "site"]
        assert {term["matchExpressions"][0]["key"] for term in terms} == {"nvidia.com/gpu.product"}


def test_infiniband_can_be_asked_for() -> None:
    for spec in specs("engines with more").values():
        (engine,) = spec["containers"]
        assert engine["resources"]["requests"]["rdma/hca_shared_devices_a"] == "1"
        assert engine["resources"]["limits"]["rdma/hca_shared_devices_a"] == "1"
        assert engine["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}


def test_what_is_said_of_one_stage_is_of_it_alone() -> None:
    found = specs("engines of one stage")
    large, small, judge = found["large"], found["small"], found["judge"]
    assert large["priorityClassName"] == "high"
    assert not {"priorityClassName", "nodeSelector"} & small.keys()
    assert judge["nodeSelector"] == {"a": "b"}
    keys = [[toleration["key"] for toleration in spec["tolerations"]] for spec in (large, small)]
    assert keys == [["nvidia.com/gpu", "gpu", "large"], ["nvidia.com/gpu", "gpu"]]
    values = [
        [one["value"] for one in spec["containers"][0]["env"] if one["name"] == "A"]
        for spec in (large, small)
    ]
    assert values == [["large"], ["all"]]
    assert large["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is False
    assert small["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True


def test_a_variable_of_the_users_stands_in_the_place_of_the_charts() -> None:
    for spec in specs("engines with more").values():
        homes = [one["value"] for one in spec["containers"][0]["env"] if one["name"] == "HF_HOME"]
        assert homes == ["/elsewhere"]
