"""What the engines' own metrics teach: who drifts, what the next plan takes them to be, and that it is said."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cascadia.controller.decide.replan import Request
from cascadia.controller.decide.replan import _document as document
from cascadia.controller.decide.replan import _request as request_of
from cascadia.controller.memory.history import read_history
from cascadia.controller.move.state import Kind
from cascadia.controller.speed.as_served import plan_as_served, problem_as_served
from cascadia.controller.speed.drift import Drift, Served, drifts
from cascadia.controller.speed.expected import expected, key_of, learned_of
from cascadia.controller.speed.speed import Speed, others, together
from cascadia.controller.speed.watch import Lengths, SpeedWatch, metrics_of
from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.plan import Plan, ReplicaGroup
from cascadia.files.plan_file import write_plan
from cascadia.testing.plans import plan, stage
from cascadia_sim.iteration.scaled_timing import scaled
from tests.calls import calls
from tests.unit.controller.machine import NO_GPU_JUDGE
from tests.unit.controller.move.test_loop import World
from tests.unit.controller.speed.test_speed import WINDOW_S, served
from tests.unit.planner.problems import hosted_judge, problem

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
ONE, TWO = Kind("small", "here", 1, "a"), Kind("large", "here", 2, "b")


def two_stage_plan(learned: tuple[tuple[str, float], ...] = ()) -> Plan:
    small = replace(stage("small", ReplicaGroup("here", 1, 1, 3, 1.0)), model=MODEL)
    large = replace(stage("large", ReplicaGroup("here", 2, 1, 1, 1.0)), model=MODEL)
    small = replace(small, config=replace(small.config, learned=learned))
    return plan([small, large], Cluster((Pool("here", "h100-sxm", 1, 8, 2.5),)), NO_GPU_JUDGE)


def sure(times: float, spread: float = 0.05, windows: int = 20, seed: int = 0) -> Speed:
    rng, speed = np.random.default_rng(seed), Speed()
    for _ in range(windows):
        speed = speed.learnt(float(times * np.exp(spread * rng.standard_normal())), 2000)
    return speed


def one(times: float, *, kind: Kind = ONE, error: float = 0.2, seed: int = 0, windows: int = 20) -> Served:
    return Served(kind, kind.stage, "h100-sxm", sure(times, seed=seed, windows=windows), error)


def test_alike_replicas_as_fast_as_planned_are_nothing_to_tell() -> None:
    assert drifts({f"small-{i}": one(1.0, seed=i) for i in range(4)}) == []


def test_one_replica_slower_than_its_siblings_is_named_and_it_alone() -> None:
    fleet = {f"small-{i}": one(1.0, seed=i) for i in range(3)} | {"small-3": one(1.4, seed=3)}
    found = drifts(fleet)
    assert [d.about for d in found] == ["small-3"]
    assert "small-3 takes 1.4" in found[0].what
    assert found[0].facts["stage"] == "small"


def test_replicas_of_another_kind_are_no_siblings() -> None:
    assert drifts({"small-0": one(1.0), "large-0": one(1.15, kind=TWO)}) == []


@pytest.mark.parametrize(("times", "told"), [(1.1, False), (1.4, True), (0.9, False), (0.7, True)])
def test_a_stage_is_told_of_beyond_the_calibrations_error(times: float, told: bool) -> None:
    found = drifts({f"small-{i}": one(times, seed=i) for i in range(2)})
    assert bool(found) is told
    if told:
        assert found[0].about == "small on h100-sxm"
        assert "times as long as planned" in found[0].what
        assert "within 20 %" in found[0].what


def test_nothing_is_said_before_it_is_sure() -> None:
    assert drifts({"small-0": one(3.0, windows=3), "small-1": one(1.0, windows=3)}) == []


def test_four_hundred_replicas_are_held_against_each_other_in_steps_as_many_as_they_are() -> None:
    def held(count: int) -> int:
        fleet = dict(zip(map(str, range(count)), [one(1.0)] * count, strict=True))
        return calls(lambda: drifts(fleet))

    assert held(400) < 12 * held(40)


def test_the_others_speed_is_that_of_all_but_one() -> None:
    speeds = [sure(times) for times in (0.9, 1.0, 1.1, 2.0)]
    for i, rest in enumerate(others(speeds)):
        assert rest.factor == pytest.approx(together(speeds[:i] + speeds[i + 1 :]).factor, rel=1e-12)
        assert rest.error == pytest.approx(together(speeds[:i] + speeds[i + 1 :]).error, rel=1e-9)
    assert others(speeds[:1]) == [Speed()]


Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(answer: Answer) -> AsyncIterator[str]:
    """The address of what answers so; at its end all connections are closed."""
    under_way: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        under_way.add(task)
        with suppress(OSError):
            await reader.readuntil(b"\r\n\r\n")
            await answer(writer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, backlog=200) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await asyncio.gather(*under_way)


def test_engines_that_hang_keep_none_of_the_others_from_being_read() -> None:
    async def main() -> None:
        read = asyncio.Event()

        async def hang(_: asyncio.StreamWriter) -> None:
            await read.wait()

        async def tell(writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            read.set()

        async with listening(hang) as hangs, listening(tell) as tells:
            # As many as a pool of connections has by default.
            engines = {f"hangs-{i}": (ONE, hangs) for i in range(100)} | {"tells": (ONE, tells)}
            try:
                assert await metrics_of(engines) == {"tells": (ONE, "ok")}
            finally:
                read.set()

    asyncio.run(main())


def test_an_engine_that_never_ends_telling_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cascadia.controller.speed.watch.TIMEOUT_S", 0.05)

    async def main() -> None:
        async def drip(writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            for _ in range(100):
                writer.write(b"vllm:one 1.0\n")
                await writer.drain()
                await asyncio.sleep(0.01)

        async with listening(drip) as drips:
            assert await metrics_of({"drips": (ONE, drips)}) == {}

    asyncio.run(main())


class FakeEngines:
    """Replicas in virtual time, each so many times as slow as the plan says, counting as vLLM does."""

    def __init__(self, plan_: Plan, times: Mapping[str, tuple[Kind, float]], windows: int = 30) -> None:
        known = expected(plan_, Path())
        self.at = 0
        self.kinds = {name: kind for name, (kind, _) in times.items()}
        self.seen = {
            name: served(
                scaled(known[key_of(kind)].timing, slow, slow), 4.0, windows, seed=sum(map(ord, name))
            )
            for name, (kind, slow) in times.items()
        }
        self.silent: set[str] = set()

    async def metrics(self) -> Mapping[str, tuple[Kind, str]]:
        self.at += 1
        return {n: (self.kinds[n], self._text(n)) for n in self.seen if n not in self.silent}

    def _text(self, name: str) -> str:
        past = self.seen[name][: self.at]
        requests = sum(w.prompt_tokens / w.prompt for w in past if w.prompt)
        tokens = sum(w.tokens for w in past)
        lines = {
            "vllm:prompt_tokens_total": sum(w.prompt_tokens for w in past),
            "vllm:generation_tokens_total": tokens + requests,
            "vllm:inter_token_latency_seconds_sum": sum(w.decode_s for w in past),
            "vllm:time_to_first_token_seconds_count": requests,
            "vllm:time_to_first_token_seconds_sum": 1.0,
        }
        return "".join(f'{metric}{{engine="0"}} {value}\n' for metric, value in lines.items())


def watch(tmp_path: Path, times: Mapping[str, tuple[Kind, float]], plan_: Plan | None = None):  # type: ignore[no-untyped-def]
    made = plan_ or two_stage_plan()
    (tmp_path / "p").mkdir(exist_ok=True)
    write_plan(made, tmp_path / "p" / "plan.json")
    engines, clock = FakeEngines(made, times), iter(np.arange(0.0, 1e6, WINDOW_S).tolist())
    ticks = [0.0]
    found = SpeedWatch(engines, tmp_path, lambda: ticks[0])

    def looks(count: int) -> list[Drift]:
        news: list[Drift] = []
        for _ in range(count):
            ticks[0] = next(clock)
            news += asyncio.run(found.look(tmp_path / "p" / "plan.json", Lengths()))
        return news

    return found, engines, looks


def test_a_slow_replica_is_said_once_and_the_next_plan_is_made_as_served(tmp_path: Path) -> None:
    times = {"small-0": (ONE, 1.0), "small-1": (ONE, 1.0), "small-2": (ONE, 1.5), "large-0": (TWO, 1.0)}
    found, _, looks = watch(tmp_path, times)
    news = looks(20)
    assert [d.about for d in news if "siblings" in d.what] == ["small-2"]
    learned = found.learned()
    assert learned["large"]["h100-sxm"] == pytest.approx(1.0, rel=0.06)
    assert 1.0 < learned["small"]["h100-sxm"] < 1.3
    assert "small on h100-sxm" in found.told()


def test_a_stage_slower_than_planned_is_followed_from_plan_to_plan(tmp_path: Path) -> None:
    times = {"small-0": (ONE, 1.5), "small-1": (ONE, 1.5)}
    found, _, looks = watch(tmp_path, times)
    news = looks(20)
    assert [d.about for d in news] == ["small on h100-sxm"]
    learned = found.learned()["small"]["h100-sxm"]
    assert learned == pytest.approx(1.5, rel=0.06)
    # The next plan is made with it: the same engines are then as planned, and the factor over the calibration stays.
    made = two_stage_plan(learned=(("h100-sxm", learned),))
    assert learned_of(made) == {"small": {"h100-sxm": learned}}
    again, _, looks = watch(
        tmp_path, {name: (kind, 1.5 / learned) for name, (kind, _) in times.items()}, made
    )
    assert looks(20) == []
    assert again.learned()["small"]["h100-sxm"] == pytest.approx(1.5, rel=0.08)


def test_engines_that_are_silent_or_start_anew_teach_nothing_and_break_nothing(tmp_path: Path) -> None:
    found, engines, looks = watch(tmp_path, {"small-0": (ONE, 1.0), "small-1": (ONE, 1.0)})
    engines.silent = {"small-0", "small-1"}
    assert looks(5) == []
    assert found.learned() == {}
    engines.silent = set()
    looks(4)
    engines.at = 0
    assert looks(12) == []


def test_a_plan_and_a_problem_take_what_was_learnt() -> None:
    given = problem(judge=hosted_judge())
    learned = {given.stages[0].name: {"h100-sxm": 1.3}, "judge": {"h100-sxm": 0.9}}
    changed = problem_as_served(given, learned)
    assert changed.stages[0].config.times_on("h100-sxm") == 1.3
    assert changed.stages[1] == given.stages[1]
    assert changed.judge.config is not None
    assert changed.judge.config.times_on("h100-sxm") == 0.9
    as_served = plan_as_served(two_stage_plan(), {"large": {"h100-sxm": 1.2}})
    assert as_served.stages[1].config.times_on("h100-sxm") == 1.2
    assert as_served.stages[0] == two_stage_plan().stages[0]


def test_what_was_learnt_reaches_the_planner(tmp_path: Path) -> None:
    learned = {"small": {"h100-sxm": 1.31}}
    asked = Request(
        tmp_path, tmp_path, 1.0, tmp_path, {"here": 1}, tmp_path, learned=learned, time_limit_s=9.0
    )
    assert request_of(json.loads(json.dumps(document(asked)))) == asked


class FakeSpeeds:
    """Says one thing once."""

    def __init__(self) -> None:
        self.looks = 0

    async def look(self, plan: Path, lengths: Lengths) -> list[Drift]:
        self.looks += 1
        assert lengths.context > lengths.prompt > 0
        return (
            [Drift("small-1", "small-1 takes 1.40 times as long", {"stage": "small"})]
            if self.looks == 3
            else []
        )

    def learned(self) -> dict[str, dict[str, float]]:
        return {"small": {"gpu": 1.2}}

    def told(self) -> str:
        return "small on gpu 1.20 (1.15 to 1.25)"


def test_the_loop_notes_drift_and_hands_what_was_learnt_to_the_planner(tmp_path: Path) -> None:
    world = World(tmp_path)
    speeds = FakeSpeeds()
    controller = world.controller(speeds=speeds)  # type: ignore[arg-type]
    world.live(8 * 3600.0, controller)
    assert speeds.looks > 100
    notes = [entry for entry in read_history(tmp_path) if entry.kind == "speed"]
    assert notes[0].what == "small-1 takes 1.40 times as long"
    assert any("planning with times as served" in note.what and "1.20" in note.what for note in notes)
    assert world.asked
    assert world.asked[0].learned == {"small": {"gpu": 1.2}}


def test_a_replica_of_several_pods_is_known_by_all_of_its_gpus() -> None:
    assert key_of(Kind("large", "here", 16, "b", pods=2)) == ("large", "here", 16)


def test_a_replica_that_has_left_is_forgotten_and_another_may_have_its_name(tmp_path: Path) -> None:
    times = {"small-0": (ONE, 1.0), "small-1": (ONE, 1.0), "small-2": (ONE, 1.5)}
    found, engines, looks = watch(tmp_path, times)
    looks(20)
    assert "small-2" in found.drifting
    engines.silent.add("small-2")
    looks(2)
    assert "small-2" in found.served(), "it may be busy"
    looks(4)
    assert set(found.served()) == {"small-0", "small-1"}
    assert "small-2" not in found.drifting
