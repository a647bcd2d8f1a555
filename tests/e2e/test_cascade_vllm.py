"""The demo's cascade on vLLM's CPU build: the same models in BF16, the same judge, the same questions.

The judge's head learned from llama.cpp's 4-bit answers; the gate must hold all the same. Needs about 8 GB of memory.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from cascadia.clients.local_ports import free_port
from cascadia.clients.model_catalogue import model_named
from cascadia.clients.model_catalogue_fetch import fetch
from cascadia.demo.children import Children
from cascadia.demo.measured import Pass, paired
from cascadia.demo.questions import demo_questions
from cascadia.demo.replay import replay
from cascadia.demo.stages import ENCODER, LARGE, SMALL, cascadia_command
from tests.e2e.engine_packages import HERE, engines_dir, run_or_fail, vllm_python
from tests.e2e.engine_servers import CORES, running

KV_BYTES = 134_217_728
CONTEXT = 1024
THRESHOLD = 50.0
"""Of the judge's score, which is a quality: more likely right than not."""
SKIP_BELOW = 25.0
QUESTIONS = 30
EVERY_S = 1.5


@contextmanager
def vllm(name: str, model: Path, core: int, log: Path) -> Iterator[str]:
    python, port = vllm_python(), free_port()
    command = [python.with_name("vllm"), "serve", model, "--host", "127.0.0.1", "--port", port]
    command += [
        "--served-model-name",
        name,
        "--max-model-len",
        CONTEXT,
        "--max-num-seqs",
        4,
        "--block-size",
        32,
    ]
    command += ["--kv-cache-memory-bytes", KV_BYTES, "--enforce-eager"]
    settings = {
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_CPU_OMP_THREADS_BIND": str(core),
    }
    with running([str(part) for part in command], settings, port, log, core) as url:
        yield url


def checkpoint(stage_model: str, name: str) -> Path:
    """The catalogue's GGUF file widened to BF16, as vLLM reads it, with vLLM's own libraries; kept."""
    folder = engines_dir() / f"{name}-bf16"
    if not (folder / "config.json").exists():
        weights = fetch(model_named(stage_model)) / model_named(stage_model).files[0].name
        run_or_fail([str(vllm_python()), str(HERE / "gguf_to_checkpoint.py"), str(weights), str(folder)])
    return folder


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Started together, since each takes its time; two on one core where there is no other."""
    logs = tmp_path_factory.mktemp("vllm")
    small, large = (
        checkpoint(SMALL.catalogue_name, "smollm2"),
        checkpoint(LARGE.catalogue_name, "qwen2.5-coder"),
    )
    with (
        vllm("small", small, CORES[0], logs / "small.log") as small_url,
        vllm("large", large, CORES[-1], logs / "large.log") as large_url,
    ):
        yield {"small": small_url, "large": large_url}


@pytest.fixture(scope="module")
def router(engines: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("router")
    judge_at, router_at = free_port(), free_port()
    document = {
        "stages": [
            {
                "name": "small",
                "threshold": THRESHOLD,
                "skip_below": SKIP_BELOW,
                "replicas": [{"url": engines["small"]}],
            },
            {"name": "large", "replicas": [{"url": engines["large"]}]},
        ],
        "judge": {"kind": "embedding", "replicas": [{"url": f"http://127.0.0.1:{judge_at}"}]},
        "port": router_at,
    }
    file = folder / "router.yaml"
    file.write_text(yaml.safe_dump(document))
    head = str(files("cascadia_judge").joinpath("data", "demo_head.json"))
    encoder = str(fetch(model_named(ENCODER)))
    with Children(folder) as children:
        judge = cascadia_command("judge", "serve", head, "--encoder", encoder, "--port", str(judge_at))
        children.start("judge", judge, judge_at)
        children.start("router", cascadia_command("serve", str(file)), router_at)
        children.wait()
        yield f"http://127.0.0.1:{router_at}"


@pytest.fixture(scope="module")
def passes(router: str) -> dict[str, Pass]:
    questions = demo_questions()[:QUESTIONS]
    at_s = [EVERY_S * i for i in range(len(questions))]

    def ask(model: str) -> Pass:
        return Pass(model, tuple(asyncio.run(replay(router, model, questions, at_s))), {})

    return {model: ask(model) for model in ("cascadia", "small", "large")}


def test_the_cascade_is_better_than_the_small_model(
    passes: dict[str, Pass], capsys: pytest.CaptureFixture[str]
) -> None:
    cascade, small, large = (passes[name] for name in ("cascadia", "small", "large"))
    with capsys.disabled():
        for each in passes.values():
            print(
                f"\nvLLM {each.name}: {each.accuracy.value:.0%} right, p50 {each.quantile_s(0.5):.2f} s",
                end="",
            )
        print(f"; small answered {cascade.answered_by('small'):.0%}")
    assert paired(cascade.answers, small.answers).gain > 0
    assert large.accuracy.value > small.accuracy.value


def test_the_gate_decides_on_vllms_log_probabilities(passes: dict[str, Pass]) -> None:
    cascade = passes["cascadia"]
    assert 0 < cascade.answered_by("small") < 1
    scores = [answer.score for answer in cascade.answers if answer.stage == "small"]
    assert scores
    assert all(score is not None and score >= THRESHOLD for score in scores)
    assert all(a.certainty is None for a in cascade.answers), "what the client did not ask for is taken out"
