import jsonschema
import pytest

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.plan import ReplicaGroup
from cascadia.testing.plans import POOLS, plan, stage, three_stages
from tests.data import data_path
from tests.unit.render.crd import strict_schema
from tests.unit.render.kubernetes_schemas import validate
from tests.unit.render.manifests import Object, engines, gpus, objects, of_kind, only_container, pods

FOUND = objects(three_stages())
CUSTOM_KINDS = {("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")}
VERSIONS = ["1.28", "1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37"]


@pytest.mark.parametrize("version", VERSIONS)
def test_objects_fit_the_schemas_of_kubernetes(version: str) -> None:
    """Strictly: an unknown field or kind is a failure."""
    for o in FOUND:
        if (o["apiVersion"], o["kind"]) not in CUSTOM_KINDS:
            assert validate(o, version, strict=True) == version


@pytest.mark.data
def test_leader_worker_sets_fit_their_definition() -> None:
    definition = data_path("crds/leaderworkerset.x-k8s.io_leaderworkersets.yaml")
    schema = strict_schema(definition, "v1")
    sets = [o for o in FOUND if o["kind"] == "LeaderWorkerSet"]
    assert len(sets) == 2
    validator = jsonschema.Draft202012Validator(schema)
    for o in sets:
        validator.validate(o)
    wrong = {**sets[0], "spec": {**sets[0]["spec"], "replica": 2}}
    with pytest.raises(jsonschema.ValidationError, match="replica"):
        validator.validate(wrong)


@pytest.mark.parametrize("version", ["1.28", "1.37"])
def test_pods_of_leader_worker_sets_fit_the_schemas_too(version: str) -> None:
    for _, pod in pods(FOUND):
        whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", **pod["metadata"]}}
        validate({**whole, "spec": pod["spec"]}, version, strict=True)


def test_the_gpus_asked_for_are_the_plans() -> None:
    assert gpus(FOUND) == three_stages().gpus == 41


def test_pods_pass_the_restricted_security_standard() -> None:
    for _, pod in pods(FOUND):
        spec = pod["spec"]
        container = only_container(pod)
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & spec.keys()
        assert all(v.keys() & {"emptyDir", "persistentVolumeClaim"} for v in spec["volumes"])
        assert all("hostPort" not in port for port in container.get("ports", []))
        assert spec["automountServiceAccountToken"] is False


def test_no_pod_holds_a_secret() -> None:
    for _, pod in pods(FOUND):
        token = next(e for e in only_container(pod)["env"] if e["name"] == "HF_TOKEN")
        assert token["valueFrom"] == {
            "secretKeyRef": {"name": "cascadia-hf-token", "key": "token", "optional": True}
        }
    assert "Secret" not in {o["kind"] for o in FOUND}


def test_a_pod_lives_longer_than_its_engines_shutdown() -> None:
    for _, pod in pods(FOUND):
        container = only_container(pod)
        sleep_s = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
        drain_s = max(
            (int(a.partition("=")[2]) for a in container["args"] if "shutdown-timeout" in a), default=0
        )
        assert pod["spec"]["terminationGracePeriodSeconds"] > sleep_s + drain_s


def test_an_engine_has_an_hour_to_load() -> None:
    for o in FOUND:
        for _, pod in pods([o]):
            container = only_container(pod)
            if "ports" not in container:
                continue
            probe = container["startupProbe"]
            assert probe["periodSeconds"] * probe["failureThreshold"] == 3600
            assert o["spec"].get("progressDeadlineSeconds", 3601) > 3600


def test_every_port_names_its_protocol() -> None:
    """Server-side apply of old API servers merges ports by it."""
    ports = [p for o in of_kind(FOUND, "Service").values() for p in o["spec"]["ports"]]
    rules = [r for o in of_kind(FOUND, "NetworkPolicy").values() for r in o["spec"]["ingress"]]
    ports += [p for rule in rules for p in rule.get("ports", [])]
    ports += [p for _, pod in pods(FOUND) for p in only_container(pod).get("ports", [])]
    assert ports
    assert all(port["protocol"] == "TCP" for port in ports)


def test_a_groups_service_reaches_the_first_rank_of_each_replica() -> None:
    for name, service in of_kind(FOUND, "Service").items():
        if name == "cascadia-router":
            continue
        selector = service["spec"]["selector"].items()
        reached = [(n, pod) for n, pod in pods(FOUND) if selector <= pod["metadata"]["labels"].items()]
        assert reached
        for _, pod in reached:
            assert "--headless" not in only_container(pod)["args"]
            assert only_container(pod)["ports"][0]["name"] == "http"
        slot = service["spec"]["selector"]["cascadia/slot"]
        assert {pod["metadata"]["labels"]["cascadia/slot"] for _, pod in reached} == {slot}


def test_no_service_has_a_leader_worker_sets_name() -> None:
    """Its controller makes a headless Service of that name for the pods to find each other."""
    assert not set(of_kind(FOUND, "Service")) & set(of_kind(FOUND, "LeaderWorkerSet"))


def test_selectors_match_their_own_pods_only() -> None:
    for name, o in engines(FOUND).items():
        selector = o["spec"]["selector"]["matchLabels"].items()
        matching = [pod["metadata"]["labels"]["cascadia/slot"] for _, pod in pods(FOUND)
                    if selector <= pod["metadata"]["labels"].items()]  # fmt: skip
        assert [f"cascadia-{slot}" for slot in matching] == [name]


def test_a_disruption_takes_one_pod_of_a_stage_at_most() -> None:
    budgets = of_kind(FOUND, "PodDisruptionBudget")
    units = {f"cascadia-{name}" for name in ("small", "medium", "large", "judge")}
    assert set(budgets) == {*units, "cascadia-router"}
    for budget in (budgets[name] for name in units):
        covered = budget["spec"]["selector"]["matchLabels"].items()
        mine = [(n, pod) for n, pod in pods(FOUND) if covered <= pod["metadata"]["labels"].items()]
        replicas = sum(n for n, pod in mine if "ports" in only_container(pod))
        assert budget["spec"]["minAvailable"] == sum(n for n, _ in mine) - (replicas > 1)


@pytest.mark.parametrize(("shape", "pods"), [((1, 1), 1), ((8, 1), 1), ((8, 2), 2)])
def test_no_disruption_takes_the_only_replica_of_a_stage(shape: tuple[int, int], pods: int) -> None:
    found = objects(plan([stage("large", ReplicaGroup("h100", *shape, 1, 1.0))], POOLS))
    assert of_kind(found, "PodDisruptionBudget")["cascadia-large"]["spec"]["minAvailable"] == pods


def test_a_replica_over_nodes_is_a_leader_and_workers() -> None:
    large = of_kind(FOUND, "LeaderWorkerSet")["cascadia-large-0"]["spec"]["leaderWorkerTemplate"]
    assert large["size"] == 2
    leader, worker = (only_container(large[f"{role}Template"])["args"] for role in ("leader", "worker"))
    assert "--node-rank=0" in leader
    assert {"--node-rank=$(LWS_WORKER_INDEX)", "--master-addr=$(LWS_LEADER_ADDRESS)"} <= set(worker)
    assert "readinessProbe" not in only_container(large["workerTemplate"])


def test_pods_go_to_nodes_with_the_pools_gpus() -> None:
    found = engines(FOUND)
    wanted = {name: gpu_wanted(o["spec"]["template"]) for name, o in found.items()}
    assert wanted["cascadia-small-1"] == ("nvidia.com/gpu.product", ["NVIDIA-L4"])
    assert wanted["cascadia-small-0"] == ("nvidia.com/gpu.product", ["NVIDIA-H100-80GB-HBM3"])


def gpu_wanted(pod: Object) -> tuple[str, list[str]]:
    affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    ((expression,),) = (term["matchExpressions"] for term in affinity["nodeSelectorTerms"])
    assert expression["operator"] == "In"
    return expression["key"], expression["values"]


def test_pods_of_one_replica_prefer_to_be_near_one_another() -> None:
    for o in of_kind(FOUND, "LeaderWorkerSet").values():
        for _, pod in pods([o]):
            near = pod["spec"]["affinity"]["podAffinity"]
            (preferred,) = near["preferredDuringSchedulingIgnoredDuringExecution"]
            term = preferred["podAffinityTerm"]
            assert term["topologyKey"] == "topology.kubernetes.io/zone"
            assert term["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()


def test_amd_gpus_have_their_own_resource_label_and_image() -> None:
    cluster = Cluster((Pool("mi", "mi300x", 1, 8, 2.0),))
    found = objects(plan([stage("s", ReplicaGroup("mi", 8, 1, 1, 1.0))], cluster))
    ((_, pod),) = pods(found)
    assert gpu_wanted(pod) == ("amd.com/gpu.product-name", ["AMD_Instinct_MI300X_OAM"])
    assert only_container(pod)["resources"]["limits"] == {"memory": "1024Gi", "amd.com/gpu": "8"}
    assert "rocm" in only_container(pod)["image"]


def test_a_model_given_by_path_is_mounted() -> None:
    group = ReplicaGroup("h100", 1, 1, 1, 1.0)
    found = objects(plan([stage("s", group, model="../models/mine/config.json")], POOLS))
    ((_, pod),) = pods(found)
    assert only_container(pod)["args"][0] == "/models/models/mine"
    assert {"name": "models", "mountPath": "/models", "readOnly": True} in only_container(pod)["volumeMounts"]


def test_dollar_signs_stay_what_they_are() -> None:
    """Kubernetes would expand $(HOME) in arguments; $$ is its way to write $."""
    found = objects(
        plan([stage("s", ReplicaGroup("h100", 1, 1, 1, 1.0), model="a$(HOME)$$b/config.json")], POOLS)
    )
    ((_, pod),) = pods(found)
    assert only_container(pod)["args"][0] == "/models/a$$(HOME)$$$$b"


def test_the_largest_pods_are_applied_first() -> None:
    sizes = [
        int(only_container(pod)["resources"]["limits"]["nvidia.com/gpu"])
        for o in FOUND
        for _, pod in list(pods([o]))[:1]
    ]
    assert sizes == sorted(sizes, reverse=True)


def test_a_stage_without_replicas_is_left_out() -> None:
    found: list[Object] = objects(
        plan([stage("first"), stage("second", ReplicaGroup("h100", 1, 1, 1, 1.0))], POOLS)
    )
    assert set(of_kind(found, "Service")) == {"cascadia-second-0-http", "cascadia-router"}
    assert set(engines(found)) == {"cascadia-second-0"}
