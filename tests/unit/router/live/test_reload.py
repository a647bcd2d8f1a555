"""A new plan while requests run: none fails, each ends under what it began with, and bad files change nothing."""

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from cascadia.domain.errors import BadInput
from cascadia.router.access.keys_file import add_key, revoke_key
from cascadia.router.live.last_good import signature
from cascadia.router.live.reload import Reloader
from cascadia.router.settings.model import (
    GearSettings,
    KeySettings,
    ReplicaSettings,
    RouterSettings,
    StageSettings,
)
from cascadia.testing.engines import FakeEngine, completion, send, started, stream
from cascadia.testing.routers import PATIENT, QUICK, Running, ScriptedGate, run, running, stages, until
from tests.unit.router.access.test_keys import made


def pair(
    small: FakeEngine | list[FakeEngine], large: FakeEngine, threshold: float = 50.0, **more: Any
) -> RouterSettings:
    return RouterSettings(stages(small, large, thresholds=(threshold,)), None, health=QUICK, **more)


def names(up: Running, stage: int = 0) -> list[str]:
    return [replica.name for replica in up.router.stages[stage].replicas]


def gated() -> tuple[Callable[..., Any], asyncio.Event]:
    """An engine's answer that waits for the event where the request says `wait`."""
    go = asyncio.Event()

    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if body.get("wait"):
            await go.wait()
        if body.get("stream"):
            stream(writer, engine.text, body)
        else:
            send(writer, 200, completion(engine.text))

    return answer, go


def test_a_request_ends_under_the_thresholds_that_it_began_with() -> None:
    async def main() -> None:
        answer, go = gated()
        small, large = FakeEngine("s", answer=answer), FakeEngine("l")
        async with started(small, large):
            before = pair(small, large, threshold=50.0)
            async with running(before, ScriptedGate({"s": 60.0})) as up:
                asking = asyncio.create_task(up.chat(wait=True))
                await small.arrived.wait()
                up.router.swap(pair(small, large, threshold=70.0, limits=up.router.settings.limits))
                assert (await up.chat()).headers["x-cascadia-stage"] == "large"
                go.set()
                assert (await asking).headers["x-cascadia-stage"] == "small"

    run(main)


def test_a_replica_of_both_plans_keeps_its_connections_its_breaker_and_its_name() -> None:
    async def main() -> None:
        first, second, third, large = (FakeEngine(text) for text in "123l")
        async with started(first, second, third, large):
            async with running(pair([first, second], large)) as up:
                await asyncio.gather(*(up.chat("small") for _ in range(4)))
                kept = up.router.stages[0].replicas[1]
                kept.breaker.failures = 3
                connections = second.connections
                limits = replace(up.router.settings.limits, breaker_failures=7)
                up.router.swap(pair([third, second], large, limits=limits))
                assert names(up) == ["small-2", "small-1"]
                assert up.router.stages[0].replicas[1] is kept
                assert (kept.breaker.failures, kept.breaker.limit) == (3, 7)
                assert up.router.stages[0].replicas[0].state == "starting"
                await until(lambda: up.router.stages[0].ready)
                await until(lambda: up.router.stages[0].replicas[0].state == "ready")
                for _ in range(10):
                    assert (await up.chat("small")).json()["choices"][0]["message"]["content"] in "23"
                assert second.connections <= connections + 1
                await until(lambda: not first.tasks)
            assert len(up.router.plans._watchers) == 0

    run(main)


def test_a_replica_of_neither_plan_finishes_its_streams_and_is_then_closed() -> None:
    async def main() -> None:
        answer, go = gated()
        old, new, large = FakeEngine("old", answer=answer), FakeEngine("new"), FakeEngine("l")
        async with started(old, new, large), running(pair(old, large)) as up:
            asking = [
                asyncio.create_task(up.chat("small", wait=True, stream=streamed))
                for streamed in (False, True)
            ]
            await until(lambda: len(old.requests) == 2)
            up.router.swap(pair(new, large, limits=up.router.settings.limits))
            ready = (await up.client.get("/ready")).json()
            assert ready["leaving"] == {"small-0": 2}
            assert "cascadia_replicas_leaving 1.0" in (await up.client.get("/metrics")).text
            assert (await up.chat("small")).json()["choices"][0]["message"]["content"] == "new"
            go.set()
            assert [(await task).status_code for task in asking] == [200, 200]
            await until(lambda: not list(up.router.departing))
            await until(lambda: not old.tasks)
        assert len(old.requests) == 2

    run(main)


def test_who_waits_for_a_replica_that_is_taken_away_gets_one_of_the_new() -> None:
    async def main() -> None:
        answer, go = gated()
        old, new, large = FakeEngine("old", answer=answer), FakeEngine("new"), FakeEngine("l")
        async with started(old, new, large):
            narrow = StageSettings("small", "m", (ReplicaSettings(old.url, max_concurrency=1),))
            wide = StageSettings("small", "m", (ReplicaSettings(new.url, max_concurrency=9),))
            async with running(RouterSettings((narrow,), None, health=QUICK)) as up:
                busy = asyncio.create_task(up.chat("small", wait=True))
                await old.arrived.wait()
                waiting = [asyncio.create_task(up.chat("small")) for _ in range(5)]
                await until(lambda: len(up.router.stages[0].wait_queue) == 5)
                up.router.swap(replace(up.router.settings, stages=(wide,)))
                answers = [(await task).json()["choices"][0]["message"]["content"] for task in waiting]
                assert answers == ["new"] * 5
                go.set()
                assert (await busy).json()["choices"][0]["message"]["content"] == "old"

    run(main)


def test_a_stage_that_is_gone_still_serves_who_began_when_it_was_there() -> None:
    async def main() -> None:
        answer, go = gated()
        small, medium, large = FakeEngine("s", answer=answer), FakeEngine("m"), FakeEngine("l")
        async with started(small, medium, large):
            gate = ScriptedGate({"s": 10.0, "m": 90.0})
            three = RouterSettings(stages(small, medium, large, thresholds=(50, 50)), None, health=QUICK)
            async with running(three, gate) as up:
                asking = asyncio.create_task(up.chat(wait=True))
                await small.arrived.wait()
                kept = tuple(stage for stage in up.router.settings.stages if stage.name != "medium")
                up.router.swap(replace(up.router.settings, stages=kept))
                up.router.swap(replace(up.router.settings, stages=kept[:1]))
                assert up.router.active_plan.service.aliases == {"medium": "small", "large": "small"}
                go.set()
                assert (await asking).headers["x-cascadia-stage"] == "medium"
                await until(lambda: not up.router.plans._retired)
                await until(lambda: not medium.tasks and not large.tasks)
                assert [replica.name for _, replica in up.router.active_plan.replicas] == ["small-0"]

    run(main)


def test_verdicts_are_kept_where_the_judge_is_the_same() -> None:
    from cascadia.router.settings.model import JudgeSettings

    async def main() -> None:
        small, large, judge, moved = FakeEngine("s"), FakeEngine("l"), FakeEngine("7"), FakeEngine("7")
        async with started(small, large, judge, moved):

            def asked(engine: FakeEngine, **more: Any) -> JudgeSettings:
                return JudgeSettings(
                    "llm", StageSettings("judge", "j", (ReplicaSettings(engine.url),)), **more
                )

            async with running(pair(small, large), judge=None) as up:
                limits = up.router.settings.limits
                for settings in (asked(judge), asked(judge), asked(moved, timeout_s=60.0)):
                    up.router.swap(replace(pair(small, large, limits=limits), judge=settings))
                    await until(lambda: all(r.state == "ready" for _, r in up.router.active_plan.replicas))
                    assert (await up.chat()).status_code == 200
                assert (len(judge.requests) > 0, len(moved.requests)) == (True, 0)
                other = asked(moved, reads_tokens=99)
                up.router.swap(replace(pair(small, large, limits=limits), judge=other))
                await until(lambda: all(r.state == "ready" for _, r in up.router.active_plan.replicas))
                assert (await up.chat()).status_code == 200
                assert len(moved.requests) > 0

    run(main)


def test_a_hundred_swaps_under_load_fail_no_request() -> None:
    async def main() -> None:
        engines = [FakeEngine("s") for _ in range(3)]
        large = FakeEngine("l")
        async with started(*engines, large):

            def settings(i: int) -> RouterSettings:
                chosen = [engines[i % 3], engines[(i + 1) % 3]] if i % 4 else engines[:1]
                health = QUICK if i % 5 else replace(QUICK, interval_s=0.04)
                limits = replace(PATIENT, max_tries=4)
                return (
                    pair(chosen, large, threshold=50.0 + i % 2, limits=limits)
                    if i % 7
                    else replace(pair(chosen, large, limits=limits), health=health)
                )

            statuses: list[int] = []
            over = False

            async def client(up: Running, k: int) -> None:
                while not over:
                    answer = await up.chat(("small", "cascadia", "large")[k % 3], stream=k % 2 == 0)
                    statuses.append(answer.status_code)
                    assert k % 2 or answer.text.endswith("data: [DONE]\n\n")

            async with running(settings(0), ScriptedGate({"s": 50.5})) as up:
                clients = [asyncio.create_task(client(up, k)) for k in range(12)]
                for i in range(1, 101):
                    up.router.swap(settings(i))
                    served = len(statuses)
                    await until(lambda served=served: len(statuses) >= served + 3)
                over = True
                await asyncio.gather(*clients)
                await until(lambda: not up.router.plans._retired and not list(up.router.departing))
                metrics = (await up.client.get("/metrics")).text
            assert len(statuses) >= 300
            assert set(statuses) == {200}
            assert "cascadia_in_flight 0.0" in metrics

    run(main)


# Files.


def yaml(tmp_path: Path, url: str, threshold: float, more: str = "") -> Path:
    path = tmp_path / "router.yaml"
    replica = f'[{{url: "{url}"}}]'
    path.write_text(
        "judge: {kind: certainty}\nwatch_s: 0.02\n"
        f"stages:\n- {{name: small, threshold: {threshold}, replicas: {replica}}}\n"
        f"- {{name: large, replicas: {replica}}}\n{more}"
    )
    return path


def reloading(path: Path) -> Callable[[Any], None]:
    from cascadia.router.settings.file import read_settings

    def prepare(router: Any) -> None:
        router.reloader = Reloader(router, lambda: replace(read_settings(path), health=QUICK, limits=PATIENT))

    return prepare


def threshold(up: Running) -> float:
    return up.router.stages[0].settings.threshold


def test_a_file_that_changes_is_taken_up_and_a_bad_one_leaves_all_as_it_is(tmp_path: Path) -> None:
    from cascadia.router.settings.file import read_settings

    async def main() -> None:
        engine = FakeEngine()
        async with started(engine):
            path = yaml(tmp_path, engine.url, 50)
            settings = replace(read_settings(path), health=QUICK)
            async with running(settings, prepare=reloading(path)) as up:
                before = up.router.digest
                yaml(tmp_path, engine.url, 60)
                await until(lambda: threshold(up) == 60)
                assert up.router.digest != before
                path.write_text(path.read_text().replace("name: small", "nmae: small"))
                reloader = up.router.reloader
                assert reloader is not None
                await until(lambda: reloader.last is not None and reloader.last.outcome == "refused")
                assert threshold(up) == 60
                ready = (await up.client.get("/ready")).json()
                assert ready["reload"]["outcome"] == "refused"
                assert (await up.chat("small")).status_code == 200
                metrics = (await up.client.get("/metrics")).text
                assert 'cascadia_reloads_total{outcome="refused"} 1.0' in metrics
                assert f'cascadia_plan{{digest="{up.router.digest}"}} 1.0' in metrics
                yaml(tmp_path, engine.url, 50)
                await until(lambda: threshold(up) == 50)
                assert up.router.digest == before
                up.router.events.flush()
        told = [line for line in up.lines if line.get("event") == "reload"]
        assert [line["outcome"] for line in told] == ["swapped", "refused", "swapped"]
        assert "did you mean 'name'" in told[1]["error"]

    run(main)


def test_files_read_anew_release_a_gear_though_they_are_as_they_were() -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine):
            gears = (GearSettings(0, 9, ("small", "large")), GearSettings(1, None, ("small",)))
            async with running(pair(engine, engine, gears=gears)) as up:
                settings = up.router.settings
                reloader = Reloader(up.router, lambda: settings)
                await up.router.operator.gear(b'{"gear": 1}')
                assert up.router.gears is not None
                assert up.router.gears.number == 1
                assert (await reloader.reload("file")).outcome == "unchanged"
                assert up.router.gears.number == 1
                assert (await reloader.reload("admin")).outcome == "unchanged"
                assert up.router.gears.number == 0

    run(main)


def test_what_needs_a_restart_is_said_and_the_rest_is_taken_up(tmp_path: Path) -> None:
    from cascadia.router.settings.file import read_settings

    async def main() -> None:
        engine = FakeEngine()
        async with started(engine):
            path = yaml(tmp_path, engine.url, 50)
            async with running(replace(read_settings(path), health=QUICK), prepare=reloading(path)) as up:
                yaml(tmp_path, engine.url, 60, "port: 1234\n")
                await until(lambda: threshold(up) == 60)
                assert up.router.reloader is not None
                assert up.router.reloader.last is not None
                assert up.router.reloader.last.restart == ("port",)

    run(main)


def test_a_change_of_keys_changes_keys_only(tmp_path: Path) -> None:
    from cascadia.router.access.keys_file import read_keys
    from cascadia.router.settings.file import read_settings

    async def main() -> None:
        engine = FakeEngine()
        keys = tmp_path / "keys.json"
        old, header = made("old")
        add_key(keys, old, datetime.now(UTC))
        async with started(engine):
            path = yaml(tmp_path, engine.url, 50, "keys: {file: keys.json}\n")
            settings = replace(read_settings(path), health=QUICK)
            assert settings.keys == KeySettings(keys)
            async with running(settings, keyring=read_keys(keys), prepare=reloading(path)) as up:
                active = up.router.active_plan
                assert (await up.chat("small", headers=header)).status_code == 200
                new, other = made("new")
                add_key(keys, new, datetime.now(UTC))
                access = up.router.access
                assert access is not None
                await until(lambda: len(access.keyring) == 2)
                assert (await up.chat("small", headers=other)).status_code == 200
                revoke_key(keys, "old")
                await until(lambda: len(access.keyring) == 1)
                assert (await up.chat("small", headers=header)).status_code == 401
                keys.write_text("{")
                reloader = up.router.reloader
                assert reloader is not None
                await until(lambda: reloader.last is not None and reloader.last.outcome == "refused")
                assert (await up.chat("small", headers=other)).status_code == 200
                assert up.router.active_plan is active

    run(main)


def test_a_fault_of_ours_in_a_reload_is_told_and_the_old_plan_serves_on(tmp_path: Path) -> None:
    def fail() -> RouterSettings:
        raise RuntimeError("broken")

    async def main() -> None:
        engine = FakeEngine()
        async with started(engine):

            def prepare(router: Any) -> None:
                router.reloader = Reloader(router, fail)

            async with running(stages(engine), prepare=prepare) as up:
                assert up.router.reloader is not None
                told = await up.router.reloader.reload("admin")
                assert (told.outcome, told.error) == ("refused", "RuntimeError")
                assert (await up.chat("small")).status_code == 200

    run(main)


def test_a_file_is_known_by_time_place_and_size(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    assert signature([path]) == (None,)
    path.write_text("one")
    first = signature([path])
    other.write_text("two")
    other.replace(path)
    assert signature([path]) != first


@pytest.mark.long
def test_the_process_reads_again_on_sighup_and_ends_on_sigterm(tmp_path: Path) -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine):
            path = yaml(tmp_path, engine.url, 50)
            path.write_text(path.read_text().replace("watch_s: 0.02", "watch_s: 0"))
            program = Path(sys.executable).with_name("cascadia")
            process = await asyncio.create_subprocess_exec(
                program, "serve", path, "--port=0", "--json",
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert process.stdout is not None
            assert process.stderr is not None
            document = json.loads(await process.stdout.readuntil(b"}\n"))
            async with httpx.AsyncClient(base_url=document["url"], timeout=60, trust_env=False) as client:
                before = (await client.get("/ready")).json()["plan"]
                yaml(tmp_path, engine.url, 60)
                process.send_signal(signal.SIGHUP)
                line = json.loads(await process.stderr.readline())
                after = (await client.get("/ready")).json()["plan"]
            process.send_signal(signal.SIGTERM)
            await process.communicate()
            assert process.returncode == 0
        assert (line["event"], line["why"], line["outcome"]) == ("reload", "signal", "swapped")
        assert after != before
        assert line["plan"] == after

    run(main)


def test_settings_that_make_no_sense_are_refused_before_anything_changes(tmp_path: Path) -> None:
    from cascadia.router.settings.file import read_settings

    path = yaml(tmp_path, "http://127.0.0.1:1", 50, "admin: {port: 9901}\n")
    with pytest.raises(BadInput, match="needs keys"):
        read_settings(path)
