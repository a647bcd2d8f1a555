"""llama.cpp's server from a plan: its flags, where it is started, and where it is not."""

import itertools
import json
import sys
from dataclasses import replace

import pytest

from cascadia.clients.processes import llama_server
from cascadia.controller.local.desired import local_plan
from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.errors import BadInput
from cascadia.domain.plan import JudgePlan, Plan, ReplicaGroup
from cascadia.render import render, targets_for
from cascadia.render.engine_args import Launch, arguments
from cascadia.testing.plans import plan, stage
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.engine_config import LLAMA_CPP, EngineConfig
from tests.unit.render.reading import documents

FILE = "/models/small.gguf"
CONFIG = EngineConfig(max_num_seqs=4, max_num_batched_tokens=2048, max_model_len=1024, engine=LLAMA_CPP)
LAUNCH = Launch(
    LLAMA_CPP,
    "org/model",
    FILE,
    served_name="--odd",
    config=CONFIG,
    gpu=gpu("l4"),
    tp=1,
    pp=1,
    host="127.0.0.1",
    port=8100,
    drain_s=60,
)
CERTAINTY = JudgePlan(
    "certainty", "router", None, engine="vllm", quantization=None, max_model_len=0, replicas=()
)


def cascade(gpu: str, weights: str | None = FILE) -> Plan:
    cluster = Cluster((Pool("here", gpu, 1, 2, 0.5),))
    stages = [
        stage(
            name,
            ReplicaGroup("here", 1, 1, 1, 1.0),
            engine=LLAMA_CPP,
            quantization="q4_k_m",
            max_model_len=1024,
            config=CONFIG,
            weights=weights,
        )
        for name in ("small", "large")
    ]
    return plan(stages, cluster, CERTAINTY)


def test_each_slot_has_room_for_the_longest_request() -> None:
    flags = arguments(LAUNCH)
    assert dict(itertools.pairwise(flags))["--parallel"] == "4"
    assert dict(itertools.pairwise(flags))["--ctx-size"] == str(4 * 1024)


def test_on_a_gpu_all_layers_are_there_and_on_a_core_there_is_one_thread() -> None:
    assert "--n-gpu-layers" in arguments(LAUNCH)
    on_core = arguments(replace(LAUNCH, gpu=gpu("cpu")))
    assert on_core[on_core.index("--threads") + 1] == "1"
    assert "--n-gpu-layers" not in on_core


def test_weights_of_the_hub_are_named_by_their_id() -> None:
    flags = arguments(replace(LAUNCH, weights="owner/name-GGUF:Q4_K_M"))
    assert flags[:2] == ("--hf-repo", "owner/name-GGUF:Q4_K_M")


def test_without_a_file_it_says_where_to_name_one() -> None:
    with pytest.raises(BadInput, match=r"stage --odd: weights: .*write weights: FILE\.gguf"):
        arguments(replace(LAUNCH, weights="org/model"))


def test_the_server_that_comes_with_cascadia_understands_what_is_written() -> None:
    found = llama_server.values(list(arguments(replace(LAUNCH, gpu=gpu("cpu")))))
    assert (found["--model"], found["--alias"], found["--port"]) == (FILE, "--odd", "8100")
    with pytest.raises(SystemExit, match="--hf-repo is not known here"):
        llama_server.values(["--hf-repo", "owner/name-GGUF"])


def test_on_cores_it_is_started_by_this_very_interpreter() -> None:
    pytest.importorskip("xllamacpp")
    launch = next(iter(local_plan(cascade("cpu")).launches.values()))
    argv, env = launch.filled(port=8123, name="small-0", gpus=(1,))
    assert argv[:2] == (sys.executable, llama_server.__file__)
    assert llama_server.values(list(argv[2:]))["--port"] == "8123"
    assert env == {}
    assert launch.cores


def test_on_a_gpu_the_program_itself_is_started_and_sees_that_gpu_alone() -> None:
    launch = next(iter(local_plan(cascade("l4")).launches.values()))
    argv, env = launch.filled(port=8123, name="small-0", gpus=(1,))
    assert argv[0] == "llama-server"
    assert env == {"CUDA_VISIBLE_DEVICES": "1"}


def test_a_compose_file_asks_for_the_image_and_binds_cores() -> None:
    services = documents(render(cascade("cpu"), cascade("cpu").cluster, "compose"))[0]["services"]
    services.pop("router")
    small = services["cascadia-small-here-tp1pp1-0"]
    assert small["image"].startswith("${CASCADIA_LLAMA_CPP_IMAGE:?")
    assert small["command"][:2] == ["--model", "/models/models/small.gguf"]
    assert {service["cpuset"] for service in services.values()} == {"0", "1"}


def test_processes_of_cores_see_no_gpu_variable() -> None:
    for process in json.loads(render(cascade("cpu"), cascade("cpu").cluster, "local")):
        assert "CUDA_VISIBLE_DEVICES" not in process["env"]
        assert process["argv"][0] == "llama-server"


def test_kubernetes_is_refused_in_one_line() -> None:
    for target in ("kubernetes", "helm-values"):
        with pytest.raises(BadInput, match=r"stage small: engine: llama\.cpp is not deployed to Kubernetes"):
            render(cascade("l4"), cascade("l4").cluster, target)  # type: ignore[arg-type]


def test_a_plan_is_rendered_for_what_can_run_it() -> None:
    assert targets_for(cascade("cpu")) == targets_for(cascade("l4")) == ("compose", "local")
    assert targets_for(cascade("cpu", weights=None)) == ()
    of_vllm = cascade("cpu")
    of_vllm = replace(of_vllm, stages=tuple(replace(s, engine="vllm") for s in of_vllm.stages))
    assert targets_for(of_vllm) == ()


def test_other_engines_on_cores_need_a_local_yaml() -> None:
    of_vllm = cascade("cpu")
    of_vllm = replace(of_vllm, stages=tuple(replace(s, engine="vllm") for s in of_vllm.stages))
    with pytest.raises(BadInput, match=r"how to start vllm there is not known; use engine: llama\.cpp, or"):
        local_plan(of_vllm)
