"""A machine's clock that is set, on or back, while its fleet runs: it is told once, nothing is planned for traffic that
never came, and what comes after is looked at as ever.
"""

import asyncio
from pathlib import Path

import pytest

from cascadia.controller.detect.samples_file import SampleFiles
from cascadia.controller.loop import Controller
from cascadia.controller.memory.history import Entry, changed_at_s, latest_s, moved_at_s
from cascadia.controller.memory.state import FileState
from cascadia.controller.move.carry_out import Journal, Timed
from cascadia.controller.move.hold import Holder
from cascadia.controller.move.state import Observed
from cascadia.controller.move.steps import AwaitReady, Start, Step, Stop, apply
from cascadia.router.observers.samples_rows import REQUESTS
from tests.unit.controller.detect.test_samples_file import request, write
from tests.unit.controller.move.test_loop import HOUR_S, OLD, SMALL, Machine, Plans, World
from tests.unit.controller.traffic import joined, traffic

DAY_S = 86_400.0
BEGAN_S = 1.8e9
"""Unix time of a world's beginning."""
SET_S, CHANGE_S, UNTIL_S = 6 * HOUR_S, 9 * HOUR_S, 10 * HOUR_S


class Dated(World):
    """A world whose router and controller date by one clock, which is set by `by_s` after six hours."""

    def __init__(self, folder: Path, by_s: float, rate_rps: float) -> None:
        steady = traffic(1, CHANGE_S), traffic(2, HOUR_S, start_s=CHANGE_S, rate_rps=rate_rps)
        super().__init__(folder, joined(*steady))
        self.by_s = by_s
        self.log = folder / "samples"
        self.log.mkdir()
        self.files = SampleFiles(self.log, clock=self.clock)
        self.written_s = 0.0

    def clock(self) -> float:
        return BEGAN_S + self.now_s + (self.by_s if self.now_s >= SET_S else 0.0)

    def read(self) -> object:
        """As a router writes its log: a file a minute."""
        came = self.samples.between(self.written_s, self.now_s)
        self.written_s = self.now_s
        off_s = self.clock() - self.now_s
        rows = [
            request(at + off_s, ("small", score)) | {"input_tokens": read, "output_tokens": wrote}
            for at, score, read, wrote in zip(
                came.arrival_s.tolist(),
                came.scores["small"].tolist(),
                came.input_tokens.tolist(),
                came.output_tokens.tolist(),
                strict=True,
            )
        ]
        if rows:
            write(self.log, f"{self.now_s:.0f}", REQUESTS, *rows)
        return self.files.read()

    def dated(self) -> Controller:
        return Controller(
            self.settings,
            Plans(self.machine),
            self.read,  # type: ignore[arg-type]
            self.replan,
            clock=self.clock,
            steady_s=lambda: self.now_s,
            forget=self.files.forget,
        )


@pytest.mark.long
@pytest.mark.parametrize("days", [0.05, 1.0, 30.0, -0.05, -1.0, -30.0])
def test_steady_traffic_is_left_alone_and_a_change_after_is_noticed(tmp_path: Path, days: float) -> None:
    def live(name: str, rate_rps: float) -> tuple[Dated, list[Entry]]:
        folder = tmp_path / name
        folder.mkdir()
        world = Dated(folder, days * DAY_S, rate_rps)
        controller = world.dated()
        world.live(UNTIL_S, controller)
        return world, controller.state.entries()

    _, told = live("steady", 0.5)
    assert [entry.kind for entry in told] == ["clock"]
    assert told[0].facts["by_s"] == days * DAY_S
    world, told = live("change", 1.0)
    assert [entry.kind for entry in told if entry.kind != "step"] == [
        *("clock", "alarm", "decision", "begun", "moved")
    ]
    (planned,) = world.asked
    assert 1.0 < planned.rate_rps < 1.3


class Slow(Machine):
    """Each step takes a minute, in the first of which the clock is set by `by_s`."""

    def __init__(self, by_s: float) -> None:
        super().__init__()
        self.by_s = by_s
        self.now_s = 0.0

    def clock(self) -> float:
        return BEGAN_S + self.now_s + (self.by_s if self.now_s else 0.0)

    def steady_s(self) -> float:
        return self.now_s

    async def take(self, step: Step) -> None:
        self.now_s += 60.0
        await super().take(step)


@pytest.mark.parametrize("by_s", [-DAY_S, DAY_S])
def test_what_a_step_took_is_what_passed(tmp_path: Path, by_s: float) -> None:
    machine = Slow(by_s)
    journal = Journal(FileState(tmp_path), lambda _: None, machine.clock, machine.steady_s)
    timed = Timed(machine, journal)

    async def main() -> None:
        await timed.take(Start("small-9", SMALL))
        await timed.take(AwaitReady("small-9"))

    asyncio.run(main())
    start, ready = journal.state.entries()
    assert (start.facts["took_s"], ready.facts["took_s"], ready.facts["startup_s"]) == (60.0, 60.0, 120.0)


@pytest.mark.parametrize("by_s", [-DAY_S, DAY_S])
def test_a_plan_that_could_not_be_made_so_is_tried_again_in_a_minute(tmp_path: Path, by_s: float) -> None:
    machine = Slow(by_s)
    journal = Journal(FileState(tmp_path), lambda _: None, machine.clock, machine.steady_s)

    async def began() -> None: ...

    holder = Holder(Timed(machine, journal), journal, 1, began)
    machine.now = apply(machine.now, Stop("small-0"))
    machine.refuse = 0

    async def main() -> list[bool]:
        found = []
        for wait_s in (0.0, 30.0, 31.0):
            machine.now_s += wait_s
            found.append(await holder.hold(OLD, machine.now, "old"))
        return found

    assert asyncio.run(main()) == [False, True, True]
    assert [entry.kind for entry in journal.state.entries() if entry.kind != "step"] == [
        *("holding", "failed", "holding", "held")
    ]
    assert Observed(machine.now.replicas, machine.now.gpus, OLD.routing).ready("small") == 1


def test_what_a_clock_that_was_ahead_dated_holds_nothing_up() -> None:
    entries = [
        Entry(100.0, "alarm", "rate", {"since_s": 90.0}),
        Entry(110.0, "begun", "to a"),
        Entry(110.0 + DAY_S, "alarm", "rate", {"since_s": 105.0 + DAY_S}),
        Entry(120.0 + DAY_S, "begun", "to b"),
    ]
    assert moved_at_s(entries, 200.0) == [110.0]
    assert changed_at_s(entries, 200.0) == [90.0]
    assert latest_s(entries, "begun", 200.0) == 110.0
    assert latest_s(entries, "begun", 130.0 + DAY_S) == 120.0 + DAY_S
