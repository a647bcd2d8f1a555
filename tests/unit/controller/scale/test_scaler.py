"""The inner loop on a fleet in memory and a clock wound by hand: what it starts, what it stops, and what it leaves."""

import asyncio
import resource
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cascadia.controller.decide.settings import Settings
from cascadia.controller.loop import Controller
from cascadia.controller.memory.history import Entry
from cascadia.controller.memory.state import State, write_in_force
from cascadia.controller.move.backend import StepFailed
from cascadia.controller.move.state import Desired, Kind, Observed, Replica, Routing
from cascadia.controller.move.steps import AwaitReady, Drain, Start, Step, Stop, apply
from cascadia.controller.scale.load import RoutersLoad
from cascadia.controller.scale.size import Load
from cascadia.controller.scale.turned_away import TurnedAway
from cascadia.domain.objective import Goal, Objective
from cascadia.domain.plan import Peak, Scale, Scaling
from cascadia.files.plan_file import read_plan, write_plan
from tests.unit.controller.machine import two_stages
from tests.unit.controller.traffic import traffic

SMALL, LARGE = Kind("small", "here", 1), Kind("large", "here", 1)
ROUTING = Routing(("small", "large"), (50.0,))
STARTUP_S, LOOK_S = 60.0, 5.0


class World:
    """A plan of one small and one large replica on `gpus`, for the rate that it was made for."""

    def __init__(
        self, folder: Path, rate_rps: Callable[[float], float], gpus: int = 12, goal: Goal = "cost"
    ) -> None:
        plan = two_stages(1, 1, gpus)
        stages = tuple(replace(told, load=0.6, rate_rps=rps) for told, rps in zip(
            plan.predicted.stages, (10.0, 2.5), strict=True
        ))  # fmt: skip
        predicted = replace(plan.predicted, rate_rps=10.0, stages=stages)
        self.plan = folder / "plan" / "plan.json"
        self.plan.parent.mkdir(exist_ok=True)
        objective = replace(plan.objective, goal=goal)
        write_plan(replace(plan, predicted=predicted, objective=objective), self.plan)
        write_in_force(folder, self.plan)
        self.folder, self.rate_rps = folder, rate_rps
        self.now_s, self.came = 0.0, 0.0
        self.clock_off_s: Callable[[float], float] = lambda _: 0.0
        self.in_hand = {"small": 1.0, "large": 1.0}
        self.turned_away = 0.0
        """Of `small`, a second."""
        self.gpus = gpus
        self.now = Observed(
            (Replica("small-0", SMALL, "ready"), Replica("large-0", LARGE, "ready")), {"here": gpus}, ROUTING
        )
        self.taken: list[tuple[float, Step]] = []
        self.refuses: Kind | None = None
        self.never_ready: Kind | None = None
        self.backend = self

    def desired(self, plan: Path, need_rps: dict[str, float]) -> Desired:
        return Desired({SMALL: 1, LARGE: 1}, ROUTING, need_rps, {SMALL: 10.0, LARGE: 2.5})

    async def observe(self) -> Observed:
        return self.now

    async def take(self, step: Step) -> None:
        began_s = self.now_s
        if isinstance(step, Start) and step.kind == self.refuses:
            raise StepFailed(f"{step}: no such weights")
        if isinstance(step, AwaitReady):
            while self.now_s < began_s + STARTUP_S:
                await asyncio.sleep(0.0)
            if self.now.replica(step.name).kind == self.never_ready:
                raise StepFailed(f"{step}: the router refused its new plan")
        self.taken.append((self.now_s, step))
        self.now = apply(self.now, step)

    async def load(self) -> Load | None:
        return Load(self.came, self.in_hand, {"small": self.now_s * self.turned_away})

    def controller(self, state: State | None = None) -> Controller:
        async def never(*_: object) -> None:
            raise AssertionError("nothing was to be planned")

        settings = Settings(self.folder, self.folder / "cascade.yaml", startup_s=STARTUP_S)
        return Controller(
            settings,
            self,
            lambda: traffic(1, 60.0),
            never,  # type: ignore[arg-type]
            clock=lambda: self.now_s + self.clock_off_s(self.now_s),
            steady_s=lambda: self.now_s,
            load=self,
            state=state,
        )

    def live(self, until_s: float, controller: Controller | None = None) -> Controller:
        controller = controller or self.controller()

        async def main() -> None:
            while self.now_s < until_s:
                self.now_s += LOOK_S
                self.came += LOOK_S * self.rate_rps(self.now_s)
                await asyncio.sleep(0.0)
                await controller.scale()
                await asyncio.sleep(0.0)
            await controller.rest()

        asyncio.run(main())
        return controller

    def serving(self, stage: str) -> int:
        return self.now.ready(stage)

    def steps(self, kind: type) -> list[float]:
        return [at_s for at_s, step in self.taken if isinstance(step, kind)]


@pytest.mark.long
def test_a_jump_that_comes_every_day_finds_its_replicas_ready(tmp_path: Path) -> None:
    """A controller that starts anew goes on with the days that those before it wrote down."""

    def daily(at_s: float) -> float:
        return 25.0 if 1200.0 <= at_s % 86_400.0 < 4800.0 else 5.0

    world = World(tmp_path, lambda at_s: daily(at_s))
    world.now_s = world.came = 4 * 86_400.0
    days = {str(n): daily(300.0 * n) for n in range(4 * 288)}
    world.controller().note("profile", "four days", {"stretches": days})
    began_s = world.now_s
    world.live(began_s + 3600.0 + 1400.0)
    first = min(world.steps(Start)) - began_s
    assert 1200.0 - STARTUP_S - 60.0 <= first <= 1200.0 - STARTUP_S
    told = [entry.what for entry in world.controller().state.entries() if entry.kind == "scaled"]
    assert "25 req/s foretold by 3 days, of which 100 % counts" in told[0]


def test_what_a_burst_asks_for_is_not_kept_as_long_as_what_a_load_does(tmp_path: Path) -> None:
    """A burst of half a minute has passed before its replicas are ready; they leave in minutes, those of a load in
    ten."""

    def live(name: str, ends_s: float) -> World:
        folder = tmp_path / name
        folder.mkdir()
        world = World(folder, lambda at_s: 17.0 if 600.0 <= at_s < ends_s else 5.0)
        world.live(ends_s + 420.0)
        assert world.steps(Start)
        return world

    burst, load = live("burst", 630.0), live("load", 900.0)
    assert burst.serving("small") == 1
    assert load.serving("small") == 2


def test_a_jump_starts_all_that_is_missing_at_once_and_within_a_minute(tmp_path: Path) -> None:
    """No alarm, no cool-down, and no budget of moves."""
    world = World(tmp_path, lambda at_s: 5.0 if at_s < 1200.0 else 25.0)
    world.live(1400.0)
    starts = world.steps(Start)
    assert len(starts) >= 2
    assert 1200.0 < min(starts) <= 1240.0
    assert world.serving("small") >= 3


@pytest.mark.long
@pytest.mark.parametrize("off_s", [-86_400.0, -3600.0, -60.0, 60.0, 3600.0, 86_400.0])
def test_whoever_sets_the_clock_starts_nothing_and_stops_nothing(tmp_path: Path, off_s: float) -> None:
    """Set back, it told no rate for as long; set on, that nobody had come for as long."""

    def live(name: str, off_s: float) -> list[tuple[float, Step]]:
        folder = tmp_path / name
        folder.mkdir()
        world = World(folder, lambda at_s: 25.0 if 300.0 <= at_s < 900.0 or at_s >= 2400.0 else 5.0)
        world.clock_off_s = lambda at_s: 0.0 if at_s < 800.0 else off_s
        world.live(2600.0)
        return world.taken

    taken = live("set", off_s)
    assert taken == live("left alone", 0.0)
    assert {type(step) for _, step in taken} == {Start, AwaitReady, Drain, Stop}


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("off_s", [-86_400.0, -400.0, 400.0, 86_400.0, 1.7e9])
def test_a_clock_that_is_set_tells_no_rate_of_a_time_that_never_was(tmp_path: Path, off_s: float) -> None:
    world = World(tmp_path, lambda _: 5.0)
    world.clock_off_s = lambda at_s: 2e9 + (0.0 if at_s < 1000.0 else off_s)
    controller = world.live(2200.0)
    assert controller.scaler is not None
    rates = controller.scaler.profile.rates([*range(6_666_000, 6_667_400), *range(12_333_000, 12_333_700)])
    assert list(rates.values()) == pytest.approx([5.0] * len(rates))
    # Of seven stretches, less those under way at the beginning, at the end, and as the clock was set on both its sides.
    assert 3 <= len(rates) <= 6


def test_a_disk_that_takes_nothing_keeps_nobody_from_starting(tmp_path: Path) -> None:
    """A load that fills it with logs is one that wants more replicas."""
    world = World(tmp_path, lambda at_s: 5.0 if at_s < 600.0 else 25.0)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    controller = world.controller()
    told: list[Entry] = []
    controller._journal._tell = told.append
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
        world.live(900.0, controller)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert world.serving("small") == 3
    assert controller.state.entries() == []
    assert all("(not in the history: [Errno 27] File too large)" in entry.what for entry in told)
    assert {entry.kind for entry in told} == {"scaled", "step"}


def test_who_waits_in_vain_does_not_at_each_look(tmp_path: Path) -> None:
    """As where the router refuses its file, and so whoever starts."""
    world = World(tmp_path, lambda at_s: 5.0 if at_s < 300.0 else 12.0)
    world.never_ready = SMALL
    controller = world.live(1200.0)
    said = [e.what for e in controller.state.entries() if "the router refused its new plan" in e.what]
    assert 2 <= len(said) <= 1200.0 / STARTUP_S / 2


def test_what_a_start_took_is_learnt_from_its_own_beginning_alone(tmp_path: Path) -> None:
    """A move takes up the wait for one that the inner loop began. Hours later that dies, and is started again."""
    world = World(tmp_path, lambda at_s: 5.0 if at_s < 300.0 else 12.0)
    controller = world.controller()
    while not world.steps(Start):
        world.live(world.now_s + LOOK_S, controller)
    world.now = apply(world.now, AwaitReady("small-1"))
    world.live(world.now_s + 600.0, controller)
    world.now = replace(
        world.now,
        replicas=tuple(
            replace(r, state="starting") if r.name == "small-1" else r for r in world.now.replicas
        ),
    )
    world.live(world.now_s + 2 * STARTUP_S, controller)
    assert world.now.replica("small-1").state == "ready"
    took_s = [e.facts["startup_s"] for e in controller.state.entries() if "startup_s" in e.facts]
    assert all(seconds <= STARTUP_S + LOOK_S for seconds in took_s)


def test_a_replica_is_not_stopped_as_the_next_burst_begins(tmp_path: Path) -> None:
    """Two minutes are not full of it yet, and of half a minute nothing is sure: it asks for no start."""
    world = World(tmp_path, lambda at_s: 17.0 if at_s % 910.0 >= 610.0 else 5.0)
    world.live(4 * 910.0)
    assert world.steps(Start)
    assert not world.steps(Drain)


def test_what_is_not_wanted_is_stopped_after_ten_quiet_minutes_and_never_the_last(tmp_path: Path) -> None:
    world = World(tmp_path, lambda at_s: 25.0 if at_s < 1200.0 else 2.0)
    world.live(3000.0)
    drains = world.steps(Drain)
    assert min(drains) >= 1200.0 + 600.0
    assert len(world.steps(Stop)) == len(drains)
    assert (world.serving("small"), world.serving("large")) == (1, 1)


def test_where_latency_is_sought_none_is_stopped_and_another_rate_asks_for_another_plan(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, lambda at_s: 10.0 if at_s < 600.0 else 1.0, goal="latency")
    controller = world.live(1800.0)
    assert world.taken == []
    assert controller.scaler is not None
    assert not controller.scaler.follows
    assert controller.scaler.basis(world.plan) is None


def test_what_another_plan_is_compared_with_has_no_more_gpus_than_there_are(tmp_path: Path) -> None:
    """At ten times the planned rate: a plan that cannot be written would end the controller."""
    world = World(tmp_path, lambda at_s: 100.0, gpus=6)
    scaler = world.live(1200.0).scaler
    assert scaler is not None
    basis = scaler.basis(world.plan)
    assert basis is not None
    write_plan(basis.today, tmp_path / "today.json")
    assert basis.today.gpus_by_pool() == {"here": 6}


@pytest.mark.long
def test_a_load_that_swings_within_the_quiet_time_stops_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, lambda at_s: 25.0 if at_s % 600.0 < 300.0 else 5.0)
    world.live(7200.0)
    assert not world.steps(Drain)


def test_a_queue_counts_though_the_rate_is_the_same(tmp_path: Path) -> None:
    world = World(tmp_path, lambda _: 5.0)
    controller = world.live(600.0)
    assert not world.taken
    world.in_hand = {"small": 1.0, "large": 1e4}
    world.live(700.0, controller)
    assert {step.kind.stage for _, step in world.taken if isinstance(step, Start)} == {"large"}


def test_who_is_turned_away_counts_as_waiting(tmp_path: Path) -> None:
    """A full stage has no more in hand, however many more come."""
    world = World(tmp_path, lambda _: 5.0)
    controller = world.live(600.0)
    world.turned_away = 2.0
    world.live(900.0, controller)
    assert {step.kind.stage for _, step in world.taken if isinstance(step, Start)} == {"small"}


def in_time_with_80(tmp_path: Path) -> World:
    world = World(tmp_path, lambda _: 10.0)
    told = read_plan(world.plan)
    e2e = replace(told.predicted.e2e, mean_s=4.0, p95_s=10.0)
    write_plan(
        replace(
            told, objective=Objective("cost", 0.95, None, 20.0), predicted=replace(told.predicted, e2e=e2e)
        ),
        world.plan,
    )
    return world


def test_overload_is_more_in_hand_for_a_minute_than_can_be_in_time(tmp_path: Path) -> None:
    world = in_time_with_80(tmp_path)
    controller = world.live(600.0)
    assert controller.scaler is not None
    for in_hand, until_s, overloaded in (
        (75.0, 800.0, False),
        (90.0, 850.0, False),
        (90.0, 870.0, True),
        (75.0, 875.0, False),
        (90.0, 930.0, False),
    ):
        world.in_hand = {"small": 1.0, "large": in_hand}
        world.live(until_s, controller)
        assert controller.scaler.overloaded is overloaded, until_s


def test_a_stage_that_is_fuller_than_planned_is_no_queue_while_the_whole_is_in_time(tmp_path: Path) -> None:
    """By Little's law 10 requests a second of a plan whose p95 is half of what is allowed may have twice its mean
    latency in hand."""
    world = in_time_with_80(tmp_path)
    controller = world.live(600.0)
    world.in_hand = {"small": 1.0, "large": 75.0}
    world.live(800.0, controller)
    assert not world.taken
    world.in_hand = {"small": 1.0, "large": 85.0}
    world.live(1000.0, controller)
    assert {step.kind.stage for _, step in world.taken if isinstance(step, Start)} == {"large"}


def with_bursts(world: World, times: float) -> None:
    """A plan whose own trace went so far above its mean for minutes, and that grows by one small replica an eighth."""
    plan = read_plan(world.plan)
    scales = tuple(Scale(1.0 + 0.125 * n, {"small": (1 + n,), "large": (1,)}) for n in range(9))
    peaks = tuple(Peak(span_s, times) for span_s in (30.0, 60.0, 120.0, 300.0))
    write_plan(replace(plan, scaling=Scaling((*peaks, Peak(900.0, 1.0)), scales)), world.plan)


def bursts(at_s: float) -> float:
    """Half as much again for two minutes of ten."""
    return 15.0 if at_s % 600.0 < 120.0 else 8.0


@pytest.mark.long
def test_bursts_as_the_plans_own_start_nothing_and_others_do(tmp_path: Path) -> None:
    for name, times, starts in (("same", 1.6, 0), ("larger", 1.2, 2)):
        (folder := tmp_path / name).mkdir()
        world = World(folder, bursts)
        with_bursts(world, times)
        world.live(3600.0)
        assert bool(starts) == bool(world.steps(Start)), name


@pytest.mark.long
def test_a_plans_own_bursts_count_where_more_are_late_than_may_be(tmp_path: Path) -> None:
    world = World(tmp_path, bursts)
    with_bursts(world, 1.6)
    controller = world.live(1315.0)
    assert controller.scaler is not None
    assert controller.scaler.rate_rps == pytest.approx(9.5, abs=1.0)
    world.in_hand = {"small": 400.0, "large": 1.0}
    world.live(1315.0 + 600.0, controller)
    world.in_hand = {"small": 1.0, "large": 1.0}
    world.live(3115.0, controller)
    assert controller.scaler.rate_rps == pytest.approx(15.0, abs=1.0)
    world.live(10_315.0, controller)
    assert controller.scaler.rate_rps == pytest.approx(9.5, abs=1.0), "none were late for two hours"


def test_no_more_is_started_than_there_are_gpus_for_and_the_ceiling_is_known(tmp_path: Path) -> None:
    world = World(tmp_path, lambda _: 100.0, gpus=4)
    controller = world.live(300.0)
    assert world.now.used("here") == 4
    assert controller.scaler is not None
    assert controller.scaler.short


def test_a_kind_that_does_not_start_is_left_alone_for_a_while_and_told(tmp_path: Path) -> None:
    world = World(tmp_path, lambda _: 25.0)
    world.refuses = SMALL
    controller = world.live(200.0)
    told = [entry.what for entry in controller.state.entries() if "no such weights" in entry.what]
    assert len(told) <= 2
    assert told[0].startswith("not done: start small-1")
    world.refuses = None
    world.live(600.0, controller)
    assert world.serving("small") > 1


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("dies_s", [1230.0, 1260.0, 1850.0])
def test_one_that_dies_is_followed_by_one_that_goes_on(tmp_path: Path, dies_s: float) -> None:
    world = World(tmp_path, lambda at_s: 25.0 if 1200.0 < at_s < 1500.0 else 5.0)
    world.live(dies_s)
    world.live(4000.0)
    assert all(replica.state == "ready" for replica in world.now.replicas)
    assert (world.serving("small"), world.serving("large")) == (1, 1)


def test_each_change_is_told_once_and_what_a_start_took_is_learnt(tmp_path: Path) -> None:
    world = World(tmp_path, lambda at_s: 5.0 if at_s < 1200.0 else 25.0)
    entries = world.live(2000.0).state.entries()
    scaled = [entry for entry in entries if entry.kind == "scaled"]
    assert 1 <= len(scaled) <= 4
    assert "of small instead of 1: " in scaled[0].what
    took = [entry.facts["startup_s"] for entry in entries if "startup_s" in entry.facts]
    assert took
    assert all(STARTUP_S <= each <= STARTUP_S + 2 * LOOK_S for each in took)


def test_routers_that_do_not_tell_their_load_change_nothing_and_that_is_said_once(tmp_path: Path) -> None:
    world = World(tmp_path, lambda _: 25.0)

    async def silent() -> Load | None:
        return None

    world.load = silent  # type: ignore[method-assign]
    controller = world.live(300.0)
    assert not world.taken
    assert [entry.what for entry in controller.state.entries()] == [
        "not done: the routers do not tell their load"
    ]


def metrics(done: float, under_way: float = 3.0) -> str:
    return (
        f'cascadia_requests_total{{model="cascade",status="200"}} {done - 1.0}\n'
        'cascadia_requests_total{model="small",status="503"} 1.0\n'
        f"cascadia_in_flight {under_way}\n"
        'cascadia_stage_in_flight{stage="small"} 2.0\n'
        'cascadia_stage_queue_length{stage="small"} 4.0\n'
    )


def test_the_load_of_several_routers_is_their_sum() -> None:
    routers = RoutersLoad()
    assert routers.load({"a": metrics(8.0), "b": metrics(8.0)}) == Load(0.0, {"small": 12.0})
    assert routers.load({"a": metrics(10.0), "b": metrics(8.0, 6.0)}) == Load(5.0, {"small": 12.0})
    assert routers.load({"a": "something else"}) is None


def test_whom_a_stage_had_no_place_for_is_counted_from_the_first_on() -> None:
    def left(reason: str, count: float) -> str:
        return f'cascadia_stage_escalated_total{{stage="small",reason="{reason}"}} {count}\n'

    routers, away = RoutersLoad(), []
    for text in (
        metrics(8.0) + left("score", 5.0),
        metrics(10.0) + left("score", 7.0) + left("overloaded", 2.0),
        metrics(20.0) + left("overloaded", 6.0),
        metrics(1.0, 0.0) + left("overloaded", 1.0),  # it began anew
    ):
        load = routers.load({"a": text})
        assert load is not None
        away.append(load.turned_away.get("small", 0.0))
    assert away == [0.0, 2.0, 6.0, 6.0]


def test_a_router_that_is_heard_again_or_begins_anew_is_no_burst() -> None:
    routers, came = RoutersLoad(), []
    for texts in (
        {"a": metrics(5000.0), "b": metrics(90_000.0)},
        {"a": metrics(5050.0)},  # the other is not ready for a moment
        {"a": metrics(5100.0), "b": metrics(90_100.0)},
        {"a": metrics(1.0, 0.0), "b": metrics(90_150.0)},  # this one began anew
        {"a": metrics(51.0, 0.0), "b": metrics(90_200.0), "new": metrics(70_000.0)},
    ):
        load = routers.load(texts)
        assert load is not None
        came.append(load.came)
    assert came == [0.0, 50.0, 200.0, 250.0, 350.0]


@pytest.mark.parametrize(("told", "waits_s"), [("", 60.0), ("cascadia_queue_limit_seconds 30.0\n", 30.0)])
def test_who_was_turned_away_counts_for_as_long_as_routers_let_requests_wait(
    told: str, waits_s: float
) -> None:
    """Of two a second 60 would wait at a time where none waits beyond 30 s, and 120 where nothing is told."""
    routers, away = RoutersLoad(), TurnedAway()
    for at_s in range(0, 200, 5):
        left = f'cascadia_stage_escalated_total{{stage="small",reason="overloaded"}} {2 * at_s}\n'
        load = routers.load({"a": metrics(100.0) + left + told})
        assert load is not None
        held = away.as_waiting(at_s, load).in_hand["small"]
    assert held == 6.0 + 2.0 * waits_s
