"""What `cascadia profile latency` says when it cannot begin: one line, exit code 2, before any time is spent."""

import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cascadia.cli.main import main
from cascadia.cli.profile.latency_setup import LatencyFlags, setup_of
from cascadia.clients.engines.facts import EngineFacts, samples
from cascadia.domain.errors import BadInput

SMALL = "HuggingFaceTB/SmolLM2-135M-Instruct"


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["profile", "latency", *args])


def asked(**flags: object) -> LatencyFlags:
    plain = {
        "base_url": "http://127.0.0.1:8000",
        "model": "m",
        "architecture": SMALL,
        "gpu": "cpu",
        "tp": 1,
        "pp": 1,
    }
    rest = dict.fromkeys(("quantization", "max_num_seqs", "max_num_batched_tokens"))
    return LatencyFlags(**(plain | rest | flags))  # type: ignore[arg-type]


@pytest.fixture
def closed_port() -> int:
    """Nobody listens there."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_an_engine_that_is_not_there(closed_port: int) -> None:
    done = run("--base-url", f"http://127.0.0.1:{closed_port}/v1", "--model", "m")
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert "cannot be reached" in done.stderr
    assert (
        "check that the engine runs, has finished loading, and listens on this host and port" in done.stderr
    )


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (
            ["--base-url", "engine", "--model", "m"],
            "--base-url: engine/v1/models is no address; write e.g. http",
        ),
        (
            ["--base-url", "http://h", "--model", "m", "--api-key-env", "NOT_SET_HERE"],
            "$NOT_SET_HERE is not set",
        ),
        (
            ["--base-url", "http://h", "--model", "m", "--out", "/no/such/folder/x.json"],
            "a folder that does not exist",
        ),
        (["--base-url", "http://h", "--model", "m", "--max-seconds", "0"], "0 is not above 0"),
    ],
)
def test_flags_that_cannot_be_used(args: list[str], told: str) -> None:
    done = run(*args)
    assert done.exit_code == 2
    assert told in done.stderr


def test_a_failure_is_a_document_too(closed_port: int) -> None:
    done = run("--json", "--base-url", f"http://127.0.0.1:{closed_port}", "--model", "m")
    assert json.loads(done.stdout)["error"]["where"] == "--base-url"


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"gpu": "h100-smx"}, "--gpu: unknown GPU 'h100-smx'; did you mean h100-sxm"),
        (
            {"gpu": None, "base_url": "http://elsewhere:8000"},
            "--gpu: which GPU the engine runs on cannot be asked",
        ),
        ({"architecture": None}, "--architecture: the engine does not tell what 'm' is made of"),
        ({"architecture": "SmolLM9"}, "--architecture: model: unknown model 'SmolLM9'"),
        ({"quantization": "q9_9"}, "--quantization: unknown format 'q9_9'; write one of bf16"),
        ({"tp": 7}, "7"),
    ],
)
def test_what_cannot_be_measured(flags: dict[str, object], told: str) -> None:
    with pytest.raises(BadInput, match=told.replace("(", r"\(")):
        setup_of(asked(**flags), EngineFacts("vllm", "1"))


def test_what_the_engine_tells_need_not_be_given(tmp_path: Path) -> None:
    config = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config |= {
        "num_key_value_heads": 2,
        "intermediate_size": 128,
        "vocab_size": 1000,
        "max_position_embeddings": 512,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    facts = EngineFacts("llama.cpp", "b1", root=str(tmp_path), max_num_seqs=4)
    found = setup_of(asked(architecture=None), facts)
    assert (found.architecture.layers, found.architecture.hidden) == (2, 64)
    assert (found.config.max_num_seqs, found.config.max_num_batched_tokens) == (4, 2048)


def test_metrics_are_read_with_their_labels() -> None:
    text = '# HELP x y\nvllm:cache_config_info{block_size="16",a="b\\"c"} 1.0\nvllm:num_requests_running 3\nbad line\n'
    assert samples(text) == {
        "vllm:cache_config_info": [({"block_size": "16", "a": 'b\\"c'}, 1.0)],
        "vllm:num_requests_running": [({}, 3.0)],
    }


def test_a_gpu_of_ones_own_is_measured_under_its_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("{name: my-gpu, memory_gib: 96, bandwidth_gb_s: 1800, tflops: {bf16: 500}}")
    found = setup_of(asked(gpu=str(file)), EngineFacts("vllm", "1")).gpu
    assert (found.name, found.bf16_flops) == ("my-gpu", 500e12)
    file.write_text("{name: my-gpu}")
    with pytest.raises(BadInput, match=r"--gpu: mine\.yaml: memory_gib: is missing"):
        setup_of(asked(gpu=str(file)), EngineFacts("vllm", "1"))
