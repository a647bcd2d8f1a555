"""What compose and the local target have in common, and each by itself."""

import json
from typing import Any

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.plan import Plan, ReplicaGroup
from cascadia.render import render
from cascadia.testing.plans import POOLS, plan, stage, three_stages
from tests.unit.render.reading import documents

ONE_NODE = Cluster((Pool("h100", "h100-sxm", 1, 8, 2.67),))
WHOLE = three_stages()


def local(of: Plan) -> list[dict[str, Any]]:
    return list(json.loads(render(of, of.cluster, "local")))


def compose(of: Plan) -> dict[str, Any]:
    """The engines' services."""
    services = documents(render(of, of.cluster, "compose"))[0]["services"]
    return {name: service for name, service in services.items() if name != "router"}


def test_processes_use_the_plans_gpus_and_share_none() -> None:
    used = [(p["node"], gpu) for p in local(WHOLE) for gpu in p["gpu_ids"]]
    assert len(used) == len(set(used)) == WHOLE.gpus


def test_a_process_sees_its_own_gpus_only() -> None:
    for process in local(WHOLE):
        assert process["env"]["CUDA_VISIBLE_DEVICES"] == ",".join(map(str, process["gpu_ids"]))


def test_no_two_processes_listen_on_one_port() -> None:
    ports = [p["port"] for p in local(WHOLE)]
    ports += {a.partition("=")[2] for p in local(WHOLE) for a in p["argv"] if a.startswith("--master-port=")}
    ports += {
        a.rpartition(":")[2] for p in local(WHOLE) for a in p["argv"] if a.startswith("--dist-init-addr=")
    }
    assert len(ports) == len(set(ports)) == len(local(WHOLE)) + 2
    assert all(f"--port={p['port']}" in p["argv"] for p in local(WHOLE))


def test_the_shares_of_a_stage_add_up() -> None:
    for name in ("small", "medium", "large", "judge"):
        assert abs(sum(p["share"] for p in local(WHOLE) if p["stage"] == name) - 1) < 1e-6


def test_ranks_find_their_first_by_its_nodes_name() -> None:
    first, second = (p for p in local(WHOLE) if p["stage"] == "large")
    assert first["node"] != second["node"]
    assert f"--master-addr={first['node']}" in second["argv"]
    assert (first["health_path"], second["health_path"]) == ("/health", None)


def test_on_one_node_nothing_listens_beyond_it() -> None:
    small = plan([stage("s", ReplicaGroup("h100", 2, 1, 2, 1.0))], ONE_NODE)
    assert all("--host=127.0.0.1" in p["argv"] for p in local(small))
    services = compose(small).values()
    assert [s["ports"] for s in services] == [["127.0.0.1:8100:8000"], ["127.0.0.1:8101:8000"]]
    assert all("profiles" not in s for s in services)


def test_a_model_given_by_path_is_loaded_from_its_folder() -> None:
    mine = plan([stage("s", ReplicaGroup("h100", 1, 1, 1, 1.0), model="models/mine/config.json")], ONE_NODE)
    assert local(mine)[0]["argv"][2] == "models/mine"
    (service,) = compose(mine).values()
    assert service["command"][0] == "/models/models/mine"
    assert "${CASCADIA_MODELS:-./models}:/models:ro" in service["volumes"]


def test_each_node_of_several_has_a_profile() -> None:
    services = compose(WHOLE)
    by_node = {p["name"]: p["node"] for p in local(WHOLE)}
    assert {name: s["profiles"] for name, s in services.items()} == {n: [node] for n, node in by_node.items()}


def test_compose_reserves_the_gpus_by_id() -> None:
    services = compose(WHOLE)
    for process in local(WHOLE):
        (device,) = services[process["name"]]["deploy"]["resources"]["reservations"]["devices"]
        assert device["driver"] == "nvidia"
        assert device["capabilities"] == ["gpu"]
        assert device["device_ids"] == [str(gpu) for gpu in process["gpu_ids"]]


def test_containers_run_without_privileges() -> None:
    for service in compose(WHOLE).values():
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["user"] == "${CASCADIA_UID:-1000}:${CASCADIA_GID:-1000}"
        assert not {"privileged", "pid", "ipc"} & service.keys()


def test_a_container_outlives_its_engines_shutdown() -> None:
    for service in compose(WHOLE).values():
        grace_s = int(service["stop_grace_period"].removesuffix("s"))
        drains = [int(a.partition("=")[2]) for a in service["command"] if a.startswith("--shutdown-timeout=")]
        assert grace_s > max(drains, default=0)


def test_the_token_comes_from_a_file_that_need_not_be_there() -> None:
    for service in compose(WHOLE).values():
        assert service["env_file"] == [{"path": "hf.env", "required": False}]
        assert not [name for name in service["environment"] if "TOKEN" in name]


def test_ranks_of_one_replica_share_the_hosts_network() -> None:
    services = compose(WHOLE)
    for process in local(WHOLE):
        service = services[process["name"]]
        if process["stage"] == "large":
            assert service["network_mode"] == "host"
            assert "ports" not in service
        else:
            assert ("network_mode" in service) != ("ports" in service)


def test_compose_leaves_dollar_signs_alone() -> None:
    dollars = plan([stage("a${HOME}", ReplicaGroup("h100", 1, 1, 1, 1.0))], POOLS)
    (service,) = compose(dollars).values()
    assert "--served-model-name=a$${HOME}" in service["command"]
    assert "--served-model-name=a${HOME}" in local(dollars)[0]["argv"]


def test_amd_gpus_are_passed_as_devices() -> None:
    cluster = Cluster((Pool("mi", "mi300x", 1, 8, 2.0),))
    found = plan([stage("s", ReplicaGroup("mi", 2, 1, 2, 1.0))], cluster)
    second = list(compose(found).values())[1]
    assert second["devices"] == ["/dev/kfd", "/dev/dri"]
    assert second["environment"]["HIP_VISIBLE_DEVICES"] == "2,3"
    assert local(found)[1]["env"]["HIP_VISIBLE_DEVICES"] == "2,3"
