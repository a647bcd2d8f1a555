"""The demo's cascade on vLLM's CPU build, and on SGLang on a CPU with stubs: the same models in BF16, the same judge,
the same questions.

The judge's head learned from llama.cpp's 4-bit answers; the gate must hold all the same. Needs about 8 GB of memory.
"""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import yaml

from cascadia.clients.hub.catalogue import model_named
from cascadia.clients.hub.fetch import fetch
from cascadia.clients.processes.ports import free_port
from cascadia.demo.children import Children
from cascadia.demo.measuring.measured import Pass, paired
from cascadia.demo.measuring.replay import replay
from cascadia.demo.questions.questions import demo_questions
from cascadia.demo.stages import ENCODER, HEAD, LARGE, SMALL, cascadia_command
from tests.e2e.engine_commands import COMMANDS
from tests.e2e.engine_packages import catalogue_checkpoint
from tests.e2e.engine_servers import CORES, running

CONTEXT = 1024
THRESHOLD = 50.0
"""Of the judge's score, which is a quality: more likely right than not."""
SKIP_BELOW = 25.0
QUESTIONS = 30
EVERY_S = 1.5


@pytest.fixture(scope="module", params=list(COMMANDS))
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def engines(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Started together, since each takes its time; two on one core where there is no other."""
    logs = tmp_path_factory.mktemp(engine)
    urls = {}
    with ExitStack() as stack, ThreadPoolExecutor() as threads:
        starting = {}
        for stage, core in ((SMALL, CORES[0]), (LARGE, CORES[-1])):
            port = free_port()
            command = COMMANDS[engine](stage.name, catalogue_checkpoint(stage), port, core, CONTEXT)
            server = running(command.argv, dict(command.env), port, logs / f"{stage.name}.log", core)
            starting[stage.name] = threads.submit(stack.enter_context, server)
        for name, started in starting.items():
            urls[name] = started.result()
        yield urls


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
    encoder = str(fetch(model_named(ENCODER)))
    with Children(folder) as children:
        judge = cascadia_command("judge", "serve", str(HEAD), "--encoder", encoder, "--port", str(judge_at))
        children.start("judge", judge, judge_at)
        children.start("router", cascadia_command("serve", str(file)), router_at)
        children.wait(limit_s=300)
        yield f"http://127.0.0.1:{router_at}"


@pytest.fixture(scope="module")
def passes(router: str) -> dict[str, Pass]:
    questions = demo_questions()[:QUESTIONS]
    at_s = [EVERY_S * i for i in range(len(questions))]

    def ask(model: str) -> Pass:
        return Pass(model, tuple(asyncio.run(replay(router, model, questions, at_s))), {})

    return {model: ask(model) for model in ("cascadia", "small", "large")}


def test_the_cascade_is_better_than_the_small_model(
    engine: str, passes: dict[str, Pass], capsys: pytest.CaptureFixture[str]
) -> None:
    cascade, small, large = (passes[name] for name in ("cascadia", "small", "large"))
    with capsys.disabled():
        for each in passes.values():
            print(
                f"\n{engine} {each.name}: {each.accuracy.value:.0%} right, p50 {each.quantile_s(0.5):.2f} s",
                end="",
            )
        print(f"; small answered {cascade.answered_by('small'):.0%}")
    assert paired(cascade.answers, small.answers).gain > 0
    assert large.accuracy.value > small.accuracy.value


def test_the_gate_decides_on_the_engines_log_probabilities(passes: dict[str, Pass]) -> None:
    cascade = passes["cascadia"]
    assert 0 < cascade.answered_by("small") < 1
    scores = [answer.score for answer in cascade.answers if answer.stage == "small"]
    assert scores
    assert all(score is not None and score >= THRESHOLD for score in scores)
    assert all(a.certainty is None for a in cascade.answers), "what the client did not ask for is taken out"
