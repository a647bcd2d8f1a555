"""The judge's service as a process, with the real encoder and the demo's head: what waits goes together, a judge that
hangs is given up, and the same answer is judged once."""

import asyncio
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from cascadia.clients.hub.catalogue import model_named
from cascadia.clients.hub.fetch import fetch
from cascadia.clients.processes.ports import free_port
from cascadia.domain.errors import CascadiaError
from cascadia.router.settings.model import JudgeSettings, ReplicaSettings, StageSettings
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import running, stages
from tests.e2e.commands import PROGRAM
from tests.unit.router.gates.test_judges import LOGPROBS, ready

BATCH, QUEUE = 8, 64
HEAD = Path(str(files("cascadia_judge").joinpath("data", "demo_head.json")))
TIMEOUT_S = 2.0


class Service:
    def __init__(self, process: "subprocess.Popen[bytes]", url: str) -> None:
        self.process, self.url = process, url

    def metric(self, name: str, **labels: str) -> float:
        text = httpx.get(f"{self.url}/metrics", trust_env=False).text
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == f"cascadia_judge_{name}" and labels.items() <= sample.labels.items()
        )


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    try:
        encoder = fetch(model_named("minilm-l6-v2"))
    except CascadiaError as error:
        pytest.skip(f"the encoder cannot be fetched: {error}")
    port = free_port()
    command = [PROGRAM, "judge", "serve", HEAD, "--encoder", encoder, "--port", port, "--quiet"]
    command += ["--batch", BATCH, "--queue", QUEUE]
    with subprocess.Popen([str(part) for part in command]) as process:
        found = Service(process, f"http://127.0.0.1:{port}")
        try:
            _wait_until_ready(found)
            yield found
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()


def _wait_until_ready(service: Service, limit_s: float = 60.0) -> None:
    until_s = time.monotonic() + limit_s
    while time.monotonic() < until_s:
        assert service.process.poll() is None, "the service has ended"
        try:
            if httpx.get(f"{service.url}/ready", trust_env=False).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            continue
    raise AssertionError("the service is not ready in time")


def _body(i: int) -> dict[str, str]:
    return {"question": f"What is {i} + {i + 1}?", "answer": str(2 * i + 1), "stage": "small"}


def test_what_waits_goes_to_the_judge_together_and_each_gets_its_own_verdict(service: Service) -> None:
    async def asked(client: httpx.AsyncClient, i: int) -> float:
        reply = await client.post("/v1/score", json=_body(i), timeout=60)
        assert reply.status_code == httpx.codes.OK, reply.text
        return float(reply.json()["score"])

    async def main() -> tuple[list[float], list[float]]:
        async with httpx.AsyncClient(base_url=service.url, trust_env=False) as client:
            together = await asyncio.gather(*(asked(client, i) for i in range(40)))
            return together, [await asked(client, i) for i in range(40)]

    batches, verdicts = service.metric("batch_size_count"), service.metric("verdicts_total")
    together, alone = asyncio.run(main())
    assert together == pytest.approx(alone, abs=2.0), "a batch changes only the last digits of a vector"
    assert service.metric("verdicts_total") - verdicts == 80
    few = service.metric("batch_size_count") - batches - 40
    assert 40 / BATCH <= few < 40, "of 40 that came at once some went together"
    assert service.metric("batch_size_bucket", le="+Inf") == service.metric(
        "batch_size_bucket", le=f"{BATCH}.0"
    )


def test_a_full_queue_refuses_at_once_and_what_waited_is_judged(service: Service) -> None:
    async def main() -> list[int]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=service.url, trust_env=False, limits=limits) as client:
            items = [_body(i) for i in range(QUEUE)]
            replies = await asyncio.gather(
                *(client.post("/v1/scores", json={"items": items}, timeout=60) for _ in range(4))
            )
        assert all(r.headers["retry-after"] == "1" for r in replies if r.status_code == 429)
        assert all(len(r.json()["verdicts"]) == QUEUE for r in replies if r.status_code == 200)
        return [reply.status_code for reply in replies]

    statuses = asyncio.run(main())
    assert set(statuses) == {200, 429}


def test_the_same_answer_is_judged_once_and_a_judge_that_hangs_is_given_up(service: Service) -> None:
    judge = StageSettings("judge", "judge", (ReplicaSettings(service.url),))

    async def main() -> None:
        small, large = FakeEngine("four", logprobs=LOGPROBS), FakeEngine("4")
        async with started(small, large):
            settings = stages(small, large, thresholds=(0.5,))
            told = JudgeSettings("embedding", judge, timeout_s=TIMEOUT_S)
            async with running(settings, judge=told) as up:
                await ready(up)
                before = service.metric("verdicts_total")
                first, again = await up.chat(), await up.chat()
                assert first.headers["x-cascadia-stage"] == again.headers["x-cascadia-stage"] == "small"
                assert first.headers["x-cascadia-score"] == again.headers["x-cascadia-score"]
                assert service.metric("verdicts_total") - before == 1
                other = await up.chat(messages=[{"role": "user", "content": "How much is 2 and 2?"}])
                assert service.metric("verdicts_total") - before == 2
                assert other.headers["x-cascadia-stage"] == "small"

                service.process.send_signal(signal.SIGSTOP)
                start_s = time.monotonic()
                late = await up.chat(messages=[{"role": "user", "content": "And three and three?"}])
                assert TIMEOUT_S <= time.monotonic() - start_s < 2 * TIMEOUT_S
                assert late.headers["x-cascadia-stage"] == "large"
                known = await up.chat()
                assert known.headers["x-cascadia-stage"] == "small", "what is known needs no judge"
                service.process.send_signal(signal.SIGCONT)
        async with started(small := FakeEngine("four", logprobs=LOGPROBS), large := FakeEngine("4")):
            told = replace(told, on_failure="accept")
            service.process.send_signal(signal.SIGSTOP)
            async with running(stages(small, large, thresholds=(0.5,)), judge=told) as up:
                accepted = await up.chat()
                assert accepted.headers["x-cascadia-stage"] == "small"
                assert large.requests == []
            service.process.send_signal(signal.SIGCONT)

    asyncio.run(main())
