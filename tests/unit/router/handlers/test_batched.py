"""Requests of a group that have no answer are counted and charged as those straight to a stage are."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cascadia.router.access.keys import Keyring
from cascadia.router.replicas import batcher
from cascadia.router.replicas.replica import Replica
from cascadia.router.settings.model import KeySettings, RouterSettings
from cascadia.router.upstream.connection import Connection
from cascadia.router.upstream.deadlines import TICK_S
from cascadia.router.upstream.errors import UpstreamError
from cascadia.testing.engines import FakeEngine, send, started
from cascadia.testing.one_pass import classification
from cascadia.testing.routers import Running, run, running, until
from tests.unit.router.access.test_keys import made
from tests.unit.router.replicas.test_batcher import SECTION, greedy, settings

INPUTS = ["a text of some length", "another"]
LEAST_TOKENS = sum(len(text) for text in INPUTS) // 4 - 1
REFUSAL = b'{"error":{"message":"cannot be read","code":400}}'
MODELS = ["quick", "intent", "cascadia"]


def grouped(engine: FakeEngine, tmp_path: Path) -> RouterSettings:
    """At $1 a token."""
    found = settings([engine], greedy(), SECTION)
    stages = tuple(replace(stage, price=(1e6, 0.0)) for stage in found.stages)
    return replace(found, stages=stages, keys=KeySettings(tmp_path / "keys.json", ("/metrics",)))


async def closed(up: Running) -> dict[str, Any]:
    """The log's line of the request that is over."""
    await until(lambda: up.router.metrics.running == 0 and bool(up.lines))
    return up.lines[-1]


def asked_of_quick(up: Running) -> float:
    return float(up.router.stages[0].metrics.requests.value)


def ends_with(status: int, body: bytes, more: str = "") -> Callable[..., Any]:
    async def answer(engine: FakeEngine, asked: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, status, body, more=more)

    return answer


async def hangs(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    await engine.left.wait()


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("model", MODELS)
def test_what_an_engine_is_reading_for_who_gives_up_is_charged(
    model: str, leaves: bool, tmp_path: Path
) -> None:
    key, header = made()

    async def main() -> None:
        engine = FakeEngine(answer=hangs)
        async with (
            started(engine),
            running(grouped(engine, tmp_path), keyring=Keyring([key])) as up,
        ):
            body: dict[str, Any] = {"model": model, "input": INPUTS}
            # Enough for a busy machine to have it read by then.
            body |= {} if leaves else {"deadline_ms": 400}
            task = asyncio.create_task(up.client.post("/v1/classify", json=body, headers=header))
            await engine.arrived.wait()
            if leaves:
                task.cancel()
            else:
                assert (await task).status_code == 504
            line = await closed(up)
            assert up.router.access is not None
            spent = up.router.access.spending.of(key.id)
        assert line["tokens"]["quick"] == spent["quick"] >= LEAST_TOKENS
        assert model == "cascadia" or line["stage"] == "quick"
        assert asked_of_quick(up) == 1

    run(main)


@pytest.mark.parametrize("model", MODELS)
def test_a_clock_that_rings_a_little_early_is_no_failure_of_the_engine(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's breaker counted it, its batch was halved, and what was being read was charged to nobody."""
    key, header = made()

    async def early(replica: Replica, sent: bytes, first_byte_s: float, total_s: float) -> Connection:
        assert 0 < total_s < first_byte_s
        # Of the clock as it is after a wait that was cut short by half a tick.
        monkeypatch.setattr(batcher, "monotonic", lambda: clock() + total_s - TICK_S / 2)
        raise UpstreamError("total")

    clock = batcher.monotonic

    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(grouped(engine, tmp_path), keyring=Keyring([key])) as up:
            monkeypatch.setattr(Replica, "begin", early)
            body = {"model": model, "input": INPUTS, "deadline_ms": 20_000}
            found = await up.client.post("/v1/classify", json=body, headers=header)
            line = await closed(up)
            monkeypatch.undo()
            assert [replica.breaker.failures for replica in up.router.stages[0].replicas] == [0]
        assert found.status_code == 504
        assert line["tokens"]["quick"] >= LEAST_TOKENS

    run(main)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("engine_status", "status"), [(400, 400), (200, 400), (500, 502)])
def test_a_refusal_or_failure_is_of_its_stage_and_in_its_engines_words(
    model: str, engine_status: int, status: int, tmp_path: Path
) -> None:
    """Be it with a status of its own, or within a 200."""
    key, header = made()

    async def main() -> None:
        engine = FakeEngine(answer=ends_with(engine_status, REFUSAL))
        async with started(engine), running(grouped(engine, tmp_path), keyring=Keyring([key])) as up:
            body = {"model": model, "input": INPUTS}
            found = await up.client.post("/v1/classify", json=body, headers=header)
            line = await closed(up)
            assert up.router.access is not None
            spent = up.router.access.spending.of(key.id)
        assert found.status_code == status
        assert "cannot be read" in found.json()["error"]["message"]
        assert asked_of_quick(up) == 1
        assert spent == {}
        if model != "cascadia":
            assert line["stage"] == "quick"
            assert status != 400 or found.headers["x-cascadia-stage"] == "quick"

    run(main)


def test_a_refusal_within_a_200_is_no_failure_of_an_engine_that_has_no_group(tmp_path: Path) -> None:
    key, header = made()

    async def main() -> None:
        engine = FakeEngine(answer=ends_with(200, REFUSAL))
        async with started(engine):
            found = grouped(engine, tmp_path)
            alone = tuple(replace(stage, group=None) for stage in found.stages)
            async with running(replace(found, stages=alone, groups=()), keyring=Keyring([key])) as up:
                body = {"model": "cascadia", "input": INPUTS}
                answer = await up.client.post("/v1/classify", json=body, headers=header)
        assert (answer.status_code, answer.content, len(engine.requests)) == (400, REFUSAL, 1)

    run(main)


def test_of_inputs_that_an_engine_answers_apart_each_is_charged_once(tmp_path: Path) -> None:
    """The whole batch fails, as do its halves; alone each is answered but the last."""
    key, header = made()

    async def singly(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if len(body["input"]) > 1 or body["input"] == ["d"]:
            send(writer, 500, b'{"error":{"message":"died"}}')
        else:
            send(writer, 200, classification([[0.6, 0.4]]))

    async def main() -> None:
        engine = FakeEngine(answer=singly)
        async with (
            started(engine),
            running(grouped(engine, tmp_path), keyring=Keyring([key]), breaker_failures=9) as up,
        ):
            body = {"model": "intent", "input": ["a", "b", "c", "d"]}
            found = await up.client.post("/v1/classify", json=body, headers=header)
            line = await closed(up)
            assert up.router.access is not None
            spent = up.router.access.spending.of(key.id)
        assert found.status_code == 502
        assert spent == line["tokens"] == {"quick": 15}
        assert asked_of_quick(up) == 1

    run(main)


@pytest.mark.parametrize("model", MODELS)
def test_engines_that_are_full_for_longer_than_anybody_waits_are_busy_and_not_gone(
    model: str, tmp_path: Path
) -> None:
    key, header = made()

    async def main() -> None:
        engine = FakeEngine(answer=ends_with(429, b"{}", more="retry-after: 7\r\n"))
        async with (
            started(engine),
            running(grouped(engine, tmp_path), keyring=Keyring([key]), queue_s=0.05) as up,
        ):
            body = {"model": model, "input": INPUTS}
            found = await up.client.post("/v1/classify", json=body, headers=header)
        assert (found.status_code, found.headers["retry-after"]) == (429, "7")

    run(main)
