"""Other people's clients and load generators against a router as a process, each in an environment of its own."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from schemathesis import GenerationMode

from tests.e2e.chaos_engine import expected
from tests.e2e.chaos_fleet import Fleet, fleet
from tests.e2e.engine_packages import HERE, clients_python, guidellm_program, vllm_python
from tests.unit.router.http.test_fuzz import address, fuzzed

__all__ = ["address"]
LIMIT_S = 200
LONG = 200
"""Requests of the fuzz for each operation."""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("fleet")) as found:
        yield found


@pytest.mark.parametrize(
    ("client", "not_found"), [("litellm", "NotFoundError"), ("langchain", "OpenAIModelNotFoundError")]
)
def test_a_client_that_others_wrote(client: str, not_found: str, up: Fleet) -> None:
    command = [str(clients_python()), str(HERE / "client_programs.py"), client, f"{up.routers[0].url}/v1"]
    # A client's own telemetry and price lists have no business in a test.
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=os.environ | quiet)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["whole"] == f"small {expected('easy question')}"
    assert said["streamed"] == f"large {expected('hard question')}"
    assert said["async"] == f"small {expected('easy question')}"
    assert said["tokens"] == 15
    assert said["error"] == not_found
    if "batch" in said:
        assert [text.split()[0] for text in said["batch"]] == ["small", "large", "small"]


@pytest.mark.parametrize("model", ["small", "cascadia"])
def test_vllms_own_load_generator(
    model: str, up: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = vllm_python()
    command = [python.with_name("vllm"), "bench", "serve", "--backend", "openai-chat"]
    command += ["--base-url", up.routers[0].url, "--endpoint", "/v1/chat/completions", "--model", model]
    command += ["--tokenizer", tokenizer(python), "--dataset-name", "random", "--random-input-len", "32"]
    command += ["--random-output-len", "16", "--num-prompts", "200", "--request-rate", "40"]
    command += ["--save-result", "--result-dir", tmp_path, "--result-filename", "found.json"]
    settings = os.environ | {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=LIMIT_S, env=settings
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["completed"] == 200
    assert found["total_output_tokens"] > 0
    with capsys.disabled():
        print(f"\nvllm bench serve, {model}: {found['completed']} of 200,", end=" ")
        print(
            f"TTFT {found['median_ttft_ms']:.0f} ms at the median, {found['p99_ttft_ms']:.0f} at p99", end=""
        )


def test_guidellms_load_generator(up: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Streams through the cascade, at a constant rate."""
    questions, out = tmp_path / "questions.jsonl", tmp_path / "found.json"
    questions.write_text("".join(json.dumps({"prompt": f"easy question {i}"}) + "\n" for i in range(200)))
    command = [guidellm_program(), "run", "--disable-console", "--profile", "kind=constant,rate=20"]
    command += ["--backend", f"kind=openai_http,target={up.routers[0].url},model=cascadia"]
    command += ["--data", f"kind=json_file,path={questions}", "--output", f"kind=json,path={out}"]
    command += ["--constraint", "kind=max_requests,count=100"]
    settings = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=LIMIT_S, env=settings
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (found,) = json.loads(out.read_text())["benchmarks"]
    assert found["metrics"]["request_totals"] == {
        "successful": 100,
        "errored": 0,
        "incomplete": 0,
        "total": 100,
    }
    ttft = found["metrics"]["time_to_first_token_ms"]["successful"]
    with capsys.disabled():
        print(f"\nGuideLLM: 100 of 100, TTFT {ttft['median']:.0f} ms at the median", end="")


def tokenizer(python: Path) -> Path:
    """Of the model that the other tests run."""
    from tests.e2e.engine_packages import checkpoint

    return checkpoint(python)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_a_long_fuzz(address: str, mode: GenerationMode) -> None:
    fuzzed(address, mode, LONG)
