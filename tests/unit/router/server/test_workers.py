"""Several processes serve as one: their figures add up, a dead one is replaced, signals reach them all."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
import uvloop
from prometheus_client.parser import text_string_to_metric_families

from cascadia.domain.errors import BadInput
from cascadia.domain.plan import ReplicaGroup
from cascadia.files.plan_file import plan_json
from cascadia.router.admin.commands import put_plan
from cascadia.router.server.app import Router
from cascadia.router.server.peers import Peers
from cascadia.router.server.workers import shared
from cascadia.router.settings.from_plan import settings_of
from cascadia.router.settings.model import (
    JudgeSettings,
    Limits,
    ReplicaSettings,
    RouterSettings,
    ShadowSettings,
    StageSettings,
)
from cascadia.router.telemetry.merge import merge
from cascadia.testing.engines import FakeEngine, begin_stream, completion, delta, event, send, started
from cascadia.testing.plans import POOLS, plan, stage
from cascadia.testing.routers import until
from cascadia_sim.iteration.engine_config import EngineConfig
from tests.unit.planner.policies.one_pass_plans import planned as planned_one_pass
from tests.unit.router.server.test_serve import CERTAINTY

PROGRAM = Path(sys.executable).with_name("cascadia")


def test_what_is_limited_for_the_router_is_parted_among_its_processes() -> None:
    stage = StageSettings("small", "m", (ReplicaSettings("http://h:1", max_concurrency=10),))
    settings = RouterSettings(
        (stage,), JudgeSettings("llm", stage), limits=Limits(max_queue=5, max_connections=2)
    )
    part = shared(settings, 4)
    assert part.stages[0].replicas[0].max_concurrency == 3
    assert part.judge is not None
    assert part.judge.stage is not None
    assert part.judge.stage.replicas[0].max_concurrency == 3
    assert (part.limits.max_queue, part.limits.max_connections) == (2, 1)
    assert shared(settings, 1) is settings


def test_the_parts_of_all_processes_are_the_whole_or_one_each() -> None:
    for whole, workers in ((10, 4), (256, 3), (7, 7), (2, 4)):
        stage = StageSettings("small", "m", (ReplicaSettings("http://h:1", max_concurrency=whole),))
        shadow = ShadowSettings(0.1, tokens_per_hour=100)
        settings = RouterSettings((stage,), None, shadow=shadow)
        parts = [shared(settings, workers, number) for number in range(workers)]
        assert sum(part.stages[0].replicas[0].max_concurrency for part in parts) == max(whole, workers)
        assert sum(part.shadow.tokens_per_hour for part in parts) <= 100


def test_a_plan_put_is_parted_among_processes_as_the_files_are(tmp_path: Path) -> None:
    one = ReplicaGroup("h100", 1, 1, 1, 1.0)
    few = EngineConfig(max_num_seqs=5)
    planned = plan([stage("small", one, config=few), stage("large", one, config=few)], POOLS, CERTAINTY)
    files = settings_of(planned, {"small": ["http://h:1"], "large": ["http://h:2"]}, "plan.json")
    put = plan_json(replace(planned, thresholds=(70.0,))).encode()

    async def main() -> None:
        found = []
        for number, count in ((0, 1), (0, 4), (3, 4)):
            router = Router(files, peers=Peers(tmp_path, number, count))
            await put_plan(router, put)
            found.append((router.digest, [replica.max_concurrency for _, replica in router.replicas]))
            await router.plans.stop()
        digests, places = zip(*found, strict=True)
        assert list(places) == [[10, 10], [3, 3], [2, 2]]
        assert len(set(digests)) == 1

    uvloop.run(main())


def test_a_group_with_policies_is_put_to_no_several_processes(tmp_path: Path) -> None:
    planned = planned_one_pass().plan
    urls = [f"http://h:{8100 + number}" for number in range(planned.gpus)]
    settings = settings_of(planned, {"guard": urls}, "plan.json")
    with pytest.raises(BadInput, match="a queue in each process"):
        Router(settings, peers=Peers(tmp_path, 0, 2))


def test_processes_together_keep_the_limit_of_an_api() -> None:
    api = ReplicaSettings("https://h", health_path=None, requests_per_minute=10)
    settings = RouterSettings((StageSettings("frontier", "m", (api,)),), None)
    assert shared(settings, 4).stages[0].replicas[0].requests_per_minute == 2
    with pytest.raises(BadInput, match=r"10 a minute are fewer than the 11 processes .* --workers 10"):
        shared(settings, 11)


FIGURES = """\
# HELP cascadia_requests_total Requests.
# TYPE cascadia_requests_total counter
cascadia_requests_total{{model="small"}} {requests}
# HELP cascadia_request_seconds End to end.
# TYPE cascadia_request_seconds histogram
cascadia_request_seconds_bucket{{le="0.1"}} {quick}
cascadia_request_seconds_bucket{{le="+Inf"}} {requests}
cascadia_request_seconds_count {requests}
cascadia_request_seconds_sum 1.5
# HELP cascadia_in_flight Under way.
# TYPE cascadia_in_flight gauge
cascadia_in_flight 2.0
"""


def test_counters_and_histograms_are_added_and_gauges_kept_apart() -> None:
    texts = {0: FIGURES.format(requests=3, quick=1), 1: FIGURES.format(requests=4, quick=4)}
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in merge(texts)
        for sample in family.samples
    }
    assert found["cascadia_requests_total", ("model", "small")] == 7
    assert found["cascadia_request_seconds_bucket", ("le", "0.1")] == 5
    assert found["cascadia_request_seconds_bucket", ("le", "+Inf")] == 7
    assert found[("cascadia_request_seconds_sum",)] == 3.0
    assert found["cascadia_in_flight", ("worker", "0")] == found["cascadia_in_flight", ("worker", "1")] == 2
    assert found[("cascadia_workers",)] == 2


REQUESTS = "cascadia_requests_total[('model', 'small'), ('status', '200')]"


def workers_of(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


@asynccontextmanager
async def serving(
    folder: Path, engine: FakeEngine, count: int, descriptors: int | None = None, *, settled: bool = True
) -> AsyncIterator[tuple[Process, str, Path]]:
    """The process, its address, and its router.yaml. It may open no more than `descriptors`.
    `settled`: once all workers are there."""
    path = folder / "router.yaml"
    path.write_text(json.dumps({"stages": [{"name": "small", "replicas": [{"url": engine.url}]}]}))
    arguments = ["serve", path, "--port=0", "--json", "--no-log", f"--workers={count}"]
    limited = [] if descriptors is None else ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh"]
    process = await asyncio.create_subprocess_exec(*limited, PROGRAM, *arguments, stdout=PIPE, stderr=PIPE)
    assert process.stdout is not None
    try:
        url = json.loads(await process.stdout.readuntil(b"}\n"))["url"]
        await until(lambda: count == 1 or not settled or len(workers_of(process.pid)) == count)
        yield process, url, path
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def asked(url: str, model: str = "small") -> int:
    """The status of a request on a connection of its own."""
    async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
        answer = await client.post(f"{url}/v1/completions", json={"model": model, "prompt": "x"})
    return answer.status_code


T = TypeVar("T")


async def once(holds: Callable[[T], bool], look: Callable[[], Awaitable[T]]) -> T:
    """What `look` finds when it `holds`: of all processes, one that does not answer for a second is left out."""
    async with asyncio.timeout(60):
        while not holds(found := await look()):
            await asyncio.sleep(0.01)
    return found


async def until_figure(url: str, name: str, value: float) -> None:
    async def look() -> float:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            lines = (await client.get(f"{url}/metrics")).text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    await once(lambda found: found == value, look)


def test_two_processes_serve_as_one_and_a_dead_one_is_replaced(tmp_path: Path) -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), serving(tmp_path, engine, 2) as (process, url, path):
            assert [await asked(url) for _ in range(30)] == [200] * 30
            await until_figure(url, "cascadia_workers ", 2)
            await until_figure(url, 'cascadia_requests_total{model="small",status="200"}', 30)
            first, second = workers_of(process.pid)
            os.kill(first, signal.SIGKILL)
            await until(lambda: len(set(workers_of(process.pid)) - {first}) == 2)
            assert second in workers_of(process.pid)
            # Whoever connected meanwhile waited for the new one.
            assert [await asked(url) for _ in range(20)] == [200] * 20
            path.write_text(path.read_text().replace("small", "renamed"))
            process.send_signal(signal.SIGHUP)
            renamed: list[int] = []
            while renamed[-8:] != [200] * 8:
                renamed.append(await asked(url, "renamed"))
            process.terminate()
            assert await process.wait() == 0

    uvloop.run(main())


async def plans_of(url: str, count: int) -> set[str]:
    """Plans in force, as `count` connections find them."""

    async def one() -> str:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            return str((await client.get(f"{url}/ready")).json()["plan"])

    return set(await asyncio.gather(*(one() for _ in range(count))))


async def until_one_plan(url: str, *, but: str) -> str:
    """The plan that all processes serve, once that is another than `but`."""
    async with asyncio.timeout(60):
        while len(plans := await plans_of(url, 12)) != 1 or but in plans:
            pass
    return plans.pop()


@pytest.mark.long
def test_no_counter_goes_back_where_a_process_is_slow_dies_or_leaves(tmp_path: Path) -> None:
    """Prometheus takes a smaller sum for a new beginning, and counts all of it once more."""

    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), serving(tmp_path, engine, 2) as (process, url, _):
            last: dict[str, float] = {}

            async def look(client: httpx.AsyncClient | None = None) -> dict[str, float]:
                """Without a `client` any process may be asked, and another where that one is ended meanwhile."""
                nonlocal last
                text = ""
                while not text:
                    with contextlib.suppress(httpx.TransportError):
                        async with httpx.AsyncClient(timeout=60, trust_env=False) as fresh:
                            text = (await (client or fresh).get(f"{url}/metrics")).text
                families = list(text_string_to_metric_families(text))
                counted = {
                    f"{sample.name}{sorted(sample.labels.items())}": sample.value
                    for family in families
                    if family.type in ("counter", "histogram")
                    for sample in family.samples
                }
                back = {name: value for name, value in last.items() if counted.get(name, -1.0) < value}
                assert back == {}
                last = counted
                figures = {sample.name: sample.value for family in families for sample in family.samples}
                return figures | {"requests": counted.get(REQUESTS, 0.0)}

            async def looked(holds: Callable[[dict[str, float]], bool]) -> None:
                # More than once: each may come to another process.
                for _ in range(4):
                    await once(holds, look)

            assert [await asked(url) for _ in range(30)] == [200] * 30
            await looked(lambda found: (found["requests"], found["cascadia_workers"]) == (30, 2))
            first, second = workers_of(process.pid)
            async with client_of(second, url) as client:
                os.kill(first, signal.SIGSTOP)
                found = await look(client)
                assert (found["requests"], found["cascadia_workers"], found["cascadia_workers_stale"]) == (
                    30,
                    1,
                    1,
                )
            os.kill(first, signal.SIGCONT)
            await looked(lambda found: (found["cascadia_workers"], found["cascadia_workers_stale"]) == (2, 0))
            for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
                before = set(workers_of(process.pid))
                os.kill(min(before), number)
                while min(before) in workers_of(process.pid):
                    await look()
                await until(lambda: len(workers_of(process.pid)) == 2)
                await looked(lambda found: (found["requests"], found["cascadia_workers"]) == (30, 2))
            assert [await asked(url) for _ in range(10)] == [200] * 10
            await looked(lambda found: found["requests"] == 40)

    uvloop.run(main())


@pytest.mark.long
def test_a_process_that_takes_anothers_place_goes_on_with_what_is_in_force(tmp_path: Path) -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), serving(tmp_path, engine, 2) as (process, url, path):
            first = await until_one_plan(url, but="")
            path.write_text(path.read_text().replace("small", "renamed"))
            process.send_signal(signal.SIGHUP)
            second = await until_one_plan(url, but=first)
            # What makes no sense is refused by who serves, and by who comes.
            path.write_text("stages: nonsense")
            for before in workers_of(process.pid):
                os.kill(before, signal.SIGKILL)
                await until(lambda before=before: len(set(workers_of(process.pid)) - {before}) == 2)
            assert await plans_of(url, 24) == {second}
            assert [await asked(url, "renamed") for _ in range(12)] == [200] * 12
            process.terminate()
            _, errors = await process.communicate()
        told = [json.loads(line) for line in errors.splitlines() if b'"event":"reload"' in line]
        refused = [line["error"] for line in told if line["outcome"] == "refused"]
        assert all("stages" in error for error in refused)
        assert process.returncode == 0

    uvloop.run(main())


@pytest.mark.long
def test_a_sighup_while_it_starts_ends_no_router(tmp_path: Path) -> None:
    def holds(pid: int) -> bool:
        """Whether it keeps SIGHUP waiting."""
        status = Path(f"/proc/{pid}/status").read_text()
        return bool(int(status.partition("SigBlk:")[2].split()[0], 16) & 1 << signal.SIGHUP - 1)

    async def hung_up(process: asyncio.subprocess.Process, *, logs: bool) -> bool:
        """Tells whether it was still starting then: on busy cores it may serve before anybody has looked."""
        assert process.stdout is not None
        assert process.stderr is not None
        serves = asyncio.ensure_future(process.stdout.readuntil(b"}\n"))
        await until(lambda: serves.done() or holds(process.pid))
        starting = not serves.done()
        if starting:
            process.send_signal(signal.SIGHUP)
        url = json.loads(await serves)["url"]
        assert await asked(url) == 200
        # On busy cores the request's line may come before that of the reload.
        while logs and starting:
            line = json.loads(await process.stderr.readuntil(b"}\n"))
            if "event" in line:
                assert (line["event"], line["why"]) == ("reload", "signal")
                break
        process.terminate()
        await process.communicate()
        assert process.returncode == 0
        return starting

    async def started_and_hung_up(path: Path, count: str) -> bool:
        process = await asyncio.create_subprocess_exec(
            PROGRAM, "serve", path, "--port=0", "--json", "--workers", count, stdout=PIPE, stderr=PIPE
        )
        try:
            return await hung_up(process, logs=count == "1")
        finally:
            # uvloop waits for a process that is left, however long that takes.
            if process.returncode is None:
                process.kill()
            await process.communicate()

    async def main() -> None:
        engine = FakeEngine()
        async with started(engine):
            path = tmp_path / "router.yaml"
            path.write_text(json.dumps({"stages": [{"name": "small", "replicas": [{"url": engine.url}]}]}))
            for count in ("1", "2"):
                tries = 5
                while not await started_and_hung_up(path, count):
                    tries -= 1
                    assert tries, "never seen while it starts"

    uvloop.run(main())


def test_sigterm_lets_all_finish_what_they_began_and_closes_the_port(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def wait(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await go.wait()
        send(writer, 200, completion("done"))

    async def main() -> None:
        engine = FakeEngine(answer=wait)
        async with started(engine), serving(tmp_path, engine, 2) as (process, url, _):
            asking = [asyncio.create_task(asked(url)) for _ in range(8)]
            await until(lambda: len(engine.requests) == 8)
            process.terminate()
            await until_closed(url)
            go.set()
            assert await asyncio.gather(*asking) == [200] * 8
            assert await process.wait() == 0

    uvloop.run(main())


async def until_closed(url: str) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            except OSError:
                return
            writer.close()
            await asyncio.sleep(0.01)


@pytest.mark.long
def test_workers_whose_parent_is_killed_finish_what_they_began_however_often_they_are_told_to_end(
    tmp_path: Path,
) -> None:
    writers: list[asyncio.StreamWriter] = []

    async def begin(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        event(writer, delta("a"))
        writers.append(writer)
        await asyncio.Event().wait()

    async def main() -> None:
        engine = FakeEngine(answer=begin)
        async with started(engine), serving(tmp_path, engine, 2) as (process, url, _):
            streams = [
                await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2])) for _ in range(8)
            ]
            for reader, writer in streams:
                writer.write(STREAM)
                await reader.readuntil(b'"a"')
            pids = workers_of(process.pid)
            process.kill()
            await process.wait()
            await until_closed(url)
            # As systemd does when a service's first process has died.
            for pid in pids:
                os.kill(pid, signal.SIGTERM)
            # Each worker has its turns after the signal.
            for letter in "bcd":
                for writer in writers:
                    event(writer, delta(letter))
                for reader, _ in streams:
                    await reader.readuntil(f'"{letter}"'.encode())
            for writer in writers:
                event(writer, "[DONE]")
                writer.write(b"0\r\n\r\n")
            for reader, writer in streams:
                await reader.readuntil(b"[DONE]\n\n\r\n0\r\n\r\n")
                writer.close()
            await until(lambda: not any(alive(pid) for pid in pids))

    uvloop.run(main())


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_whoever_asks_when_serving_was_told_is_answered_though_it_ends_at_once(
    tmp_path: Path, number: signal.Signals
) -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), serving(tmp_path, engine, 2, settled=False) as (process, url, _):
            asking = [await stream(url) for _ in range(30)]
            process.send_signal(number)
            await asyncio.gather(*(whole(*one) for one in asking))
            await process.wait()
            await until_closed(url)

    uvloop.run(main())


@pytest.mark.long
def test_new_clients_go_past_a_worker_that_ends_to_its_successor(tmp_path: Path) -> None:
    """The long streams of the first go on, though it is told once more to end."""
    writers: list[asyncio.StreamWriter] = []
    over = asyncio.Event()

    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        event(writer, delta("a"))
        if len(writers) < 8:
            writers.append(writer)
            await over.wait()
        event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")

    async def main() -> None:
        engine = FakeEngine(answer=answer)
        async with started(engine), serving(tmp_path, engine, 2) as (process, url, _):
            long = [asyncio.create_task(streamed(url)) for _ in range(8)]
            await until(lambda: len(writers) == 8)
            before = workers_of(process.pid)
            for pid in before:
                os.kill(pid, signal.SIGTERM)
            # None waits for a stream that began before, neither now nor when the successors serve.
            await asyncio.gather(*(streamed(url) for _ in range(30)))
            await until(lambda: len(workers_of(process.pid)) == 4)
            os.kill(before[0], signal.SIGTERM)
            await asyncio.gather(*(streamed(url) for _ in range(30)))
            assert not any(one.done() for one in long)
            over.set()
            await asyncio.gather(*long)
            await until(lambda: not any(alive(pid) for pid in before))
            await until_figure(url, "cascadia_workers ", 2)
            process.terminate()
            assert await process.wait() == 0

    uvloop.run(main())


@pytest.mark.long
def test_a_killed_worker_breaks_its_own_streams_and_no_others_and_who_waits_is_served(tmp_path: Path) -> None:
    over = asyncio.Event()

    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        event(writer, delta("a"))
        await over.wait()
        event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")

    async def main() -> None:
        engine = FakeEngine(answer=answer)
        async with started(engine), serving(tmp_path, engine, 2) as (process, url, _):
            streams = [await stream(url) for _ in range(16)]
            for reader, _ in streams:
                await reader.readuntil(b'"a"')
            first = workers_of(process.pid)[0]
            own = {writer.get_extra_info("sockname")[1] for _, writer in streams} & clients_of(first, url)
            assert 0 < len(own) < 16
            # It takes nobody any more, though the kernel still gives it clients.
            os.kill(first, signal.SIGSTOP)
            waiting = [await stream(url) for _ in range(16)]
            os.kill(first, signal.SIGKILL)
            over.set()
            for reader, writer in (*streams, *waiting):
                if writer.get_extra_info("sockname")[1] not in own:
                    await whole(reader, writer)
                writer.close()

    uvloop.run(main())


async def stream(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection of its own that asked for a stream, and nothing more."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    writer.write(STREAM.replace(b"host: x\r\n", b"host: x\r\nconnection: close\r\n"))
    return reader, writer


async def streamed(url: str) -> None:
    await whole(*await stream(url))


async def whole(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    assert (await asyncio.wait_for(reader.read(), 60)).endswith(b"[DONE]\n\n\r\n0\r\n\r\n")
    writer.close()


@asynccontextmanager
async def client_of(pid: int, url: str) -> AsyncIterator[httpx.AsyncClient]:
    """Client whose connection this process has taken."""
    while True:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            answer = await client.get(f"{url}/health")
            if answer.extensions["network_stream"].get_extra_info("client_addr")[1] in clients_of(pid, url):
                yield client
                return


def clients_of(pid: int, url: str) -> set[int]:
    """Ports of the clients that this process has taken."""
    here = f":{int(url.rpartition(':')[2]):04X}"
    own = {os.readlink(one) for one in Path(f"/proc/{pid}/fd").iterdir() if one.is_symlink()}
    found = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return {
        int(there[-4:], 16)
        for _, at, there, _, _, _, _, _, _, inode, *_ in found
        if at.endswith(here) and f"socket:[{inode}]" in own
    }


BODY = b'{"model":"small","messages":[{"role":"user","content":"q"}],"stream":true}'
STREAM = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(BODY), BODY)


def alive(pid: int) -> bool:
    """A zombie that nobody has buried yet is not."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
