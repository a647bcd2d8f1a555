"""What breaks under load is not seen by clients: real processes, killed, stopped, and told to misbehave.

Each prints what was seen; docs/reference/reliability.md holds the figures of one run.
"""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.chaos_fleet import Fleet, Process, fleet
from tests.e2e.chaos_load import HELD, MIX, PATIENCE_S, Kind, Load, Seen

BEFORE_S, BROKEN_S, AFTER_S = 0.5, 3.0, 1.5
CLEAN = {"answered", "stage_failed", "stage_timeout", "stage_unavailable", "overloaded"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("fleet")) as found:
        yield found


@pytest.fixture
def up(shared: Fleet) -> Fleet:
    """As good as new."""
    shared.heal()
    shared.until_ready()
    return shared


Told = Callable[[str, Seen], None]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    def tell(name: str, seen: Seen) -> None:
        with capsys.disabled():
            print(f"\n{seen.told(name)}", end="")

    return tell


def under_load(
    up: Fleet,
    breaks: Callable[[], None],
    mends: Callable[[], None],
    *,
    broken_s: float = BROKEN_S,
    kinds: tuple[Kind, ...] = MIX,
) -> Seen:
    """Load before, while and after things are broken."""

    async def main() -> Seen:
        async with Load(up.port, kinds) as load:
            await load.after(BEFORE_S)
            await asyncio.to_thread(breaks)
            await load.after(broken_s)
            await asyncio.to_thread(mends)
            await load.after(AFTER_S)
        return load.seen

    return asyncio.run(main())


def all_answered(seen: Seen) -> None:
    assert set(seen.counts) == {"answered"}, seen.counts
    assert len(seen.outcomes) > 30


def all_held_answered(seen: Seen) -> None:
    """Nothing is lost, and only streams that a client was already reading may have broken off."""
    assert set(seen.counts) <= {"answered", "broken off"}, seen.counts
    assert {o.what for o in seen.outcomes if o.kind in HELD} == {"answered"}
    assert len(seen.outcomes) > 30


def one_of_each(up: Fleet) -> list[Process]:
    return [up.engines["small"][0], up.engines["large"][0]]


def test_without_faults_all_is_answered(up: Fleet, told: Told) -> None:
    seen = under_load(up, lambda: None, lambda: None)
    told("no fault", seen)
    all_answered(seen)


def test_kill_9_of_a_replica(up: Fleet, told: Told) -> None:
    def kill() -> None:
        for engine in one_of_each(up):
            engine.kill()

    seen = under_load(up, kill, up.heal)
    told("kill -9 of a replica of each stage", seen)
    all_held_answered(seen)
    up.until_ready()


def test_a_replica_that_hangs(up: Fleet, told: Told) -> None:
    def stop() -> None:
        for engine in one_of_each(up):
            engine.send(signal.SIGSTOP)

    seen = under_load(up, stop, up.heal, broken_s=6.0)
    told("SIGSTOP of a replica of each stage", seen)
    all_held_answered(seen)
    assert seen.slowest_s < 6.0


BEFORE_THE_FIRST_BYTE = [
    "hangs",
    "resets",
    "resets in the body",
    "cuts streams at once",
    "garbage",
    "garbage json",
    "truncated json",
    "html",
    "says 429",
    "says 500",
    "says 503",
    "first byte late",
    "drips",
]


@pytest.mark.parametrize("mode", BEFORE_THE_FIRST_BYTE)
def test_a_replica_that_fails_before_its_answer_is_seen(mode: str, up: Fleet, told: Told) -> None:
    def break_() -> None:
        for engine in one_of_each(up):
            engine.told(mode)

    seen = under_load(up, break_, up.heal)
    told(f"a replica of each stage {mode}", seen)
    all_answered(seen)


def test_streams_cut_in_the_middle(up: Fleet, told: Told) -> None:
    def cut() -> None:
        for engine in one_of_each(up):
            engine.told("cuts streams")

    seen = under_load(up, cut, up.heal)
    told("a replica of each stage cuts streams", seen)
    all_held_answered(seen)
    assert seen.counts["broken off"] > 0


@pytest.mark.parametrize("mode", ["says 429", "says 500", "says 503"])
def test_a_burst_from_all_replicas_of_the_first_stage(mode: str, up: Fleet, told: Told) -> None:
    def burst() -> None:
        for engine in up.engines["small"]:
            engine.told(mode)

    kinds = tuple(kind for kind in MIX if kind.model == "cascadia")
    seen = under_load(up, burst, up.heal, broken_s=1.5, kinds=kinds)
    told(f"all of the first stage: {mode}", seen)
    all_answered(seen)


def test_a_burst_of_429_from_every_engine_is_waited_out(up: Fleet, told: Told) -> None:
    def burst() -> None:
        for engine in up.all_engines:
            engine.told("says 429")

    seen = under_load(up, burst, up.heal, broken_s=1.0)
    told("every engine says 429 for a second", seen)
    all_answered(seen)


@pytest.mark.parametrize("stage", ["small", "large"])
def test_all_replicas_of_a_stage_gone(stage: str, up: Fleet, told: Told) -> None:
    """Of the first the next one answers; of the last the best earlier answer is what there is."""

    def kill() -> None:
        for engine in up.engines[stage]:
            engine.kill()

    kinds = tuple(kind for kind in MIX if kind.model == "cascadia")
    seen = under_load(up, kill, up.heal, kinds=kinds)
    told(f"all of {stage} gone", seen)
    all_held_answered(seen)


def test_everything_gone_is_told_in_openais_words_and_comes_back_by_itself(up: Fleet, told: Told) -> None:
    def kill() -> None:
        for engine in up.all_engines:
            engine.kill()

    seen = under_load(up, kill, up.heal)
    told("every engine gone", seen)
    assert set(seen.counts) <= CLEAN | {"broken off"}, seen.counts
    up.until_ready()
    again = under_load(up, lambda: None, lambda: None, broken_s=0.5)
    told("and after they came back", again)
    all_answered(again)


@pytest.mark.parametrize("mode", ["hangs", "first byte late", "garbage json", "html", "says 500", "lies"])
def test_a_judge_that_does_not_judge(mode: str, up: Fleet, told: Told) -> None:
    seen = under_load(up, lambda: up.engines["judge"][0].told(mode), up.heal)
    told(f"the judge {mode}", seen)
    all_answered(seen)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_judge_that_is_gone(number: signal.Signals, up: Fleet, told: Told) -> None:
    judge = up.engines["judge"][0]
    breaks = judge.kill if number == signal.SIGKILL else lambda: judge.send(signal.SIGSTOP)
    seen = under_load(up, breaks, up.heal, broken_s=6.0)
    told(f"the judge gets {number.name}", seen)
    all_answered(seen)
    up.until_ready()


def test_a_port_that_somebody_else_took(up: Fleet, told: Told, tmp_path: Path) -> None:
    engine = up.engines["small"][0]
    foreign: list[subprocess.Popen[bytes]] = []

    def take() -> None:
        engine.kill()
        command = [sys.executable, "-m", "http.server", str(engine.port), "--bind", "127.0.0.1"]
        foreign.append(subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL))

    def give_back() -> None:
        foreign[0].kill()
        foreign[0].wait(timeout=60)
        up.heal()

    seen = under_load(up, take, give_back)
    told("another service on a replica's port", seen)
    all_held_answered(seen)


def test_a_name_that_does_not_resolve(tmp_path: Path, told: Told) -> None:
    with fleet(tmp_path) as up:
        document = up.document()
        document["stages"][0]["replicas"].append({"url": "http://nowhere.invalid:80", "health_path": None})
        up.settings["stages"] = document["stages"]
        router = up.routers[0]
        router.kill()
        up.router(router.port, 0, [])
        router.start()
        seen = under_load(up, lambda: None, lambda: None)
    told("a replica's name does not resolve", seen)
    all_answered(seen)


@pytest.mark.parametrize("where", ["full", "unread"])
def test_a_log_that_nobody_takes(where: str, tmp_path: Path, told: Told) -> None:
    """A full disk, and a pipe whose reader has stopped reading."""
    with fleet(tmp_path) as up:
        router = up.routers[0]
        router.kill()
        if where == "full":
            router.log = Path("/dev/full")
            router.start()
            end = None
        else:
            end = subprocess.Popen(router.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            router.running = end
        up.until_ready()
        seen = under_load(up, lambda: None, lambda: None, broken_s=6.0)
        metrics = httpx.get(f"{router.url}/metrics", trust_env=False).text
        if end is not None and end.stderr is not None:
            end.stderr.close()
    told(f"the log: {where}", seen)
    all_answered(seen)
    lost = next(line for line in metrics.splitlines() if line.startswith("cascadia_log_failures_total "))
    assert (float(lost.split()[1]) > 0) == (where == "full")


def test_a_router_killed_with_another_behind_its_address(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SO_REUSEPORT. The official client tries again by itself where a connection breaks."""
    import openai

    with fleet(tmp_path, routers=2) as up:
        first, second = up.routers
        assert first.port == second.port

        async def main() -> tuple[int, float]:
            url = f"http://127.0.0.1:{first.port}/v1"
            answered, slowest_s, ended = 0, 0.0, asyncio.Event()

            async def work() -> None:
                nonlocal answered, slowest_s
                async with openai.AsyncOpenAI(base_url=url, api_key="none", timeout=20) as client:
                    while not ended.is_set():
                        began_s = time.monotonic()
                        await client.chat.completions.create(
                            model="cascadia", messages=[{"role": "user", "content": "easy"}]
                        )
                        answered += 1
                        slowest_s = max(slowest_s, time.monotonic() - began_s)

            async def until_answered(count: int) -> None:
                while answered < count:
                    await asyncio.sleep(0.02)

            async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as workers:
                for _ in range(4):
                    workers.create_task(work())
                await until_answered(20)
                await asyncio.to_thread(first.kill)
                await until_answered(answered + 40)
                ended.set()
            return answered, slowest_s

        answered, slowest_s = asyncio.run(main())
    # A client that was not told of it would wait for all of its 20 s.
    assert slowest_s < 15.0
    with capsys.disabled():
        print(f"\na router killed: {answered} answered, slowest {slowest_s:.2f} s", end="")
