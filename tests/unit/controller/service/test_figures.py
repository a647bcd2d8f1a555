"""What a controller says of itself: every figure that the page names and no other, and the right ones."""

import asyncio
import signal
from pathlib import Path

import httpx
import pytest

from cascadia.cli.interrupts import Stopped
from cascadia.clients.processes.ports import listen
from cascadia.controller.decide.replan import PlanningFailed
from cascadia.controller.loop import Controller
from cascadia.controller.memory.history import Entry
from cascadia.controller.move.backend import StepFailed
from cascadia.controller.service.metrics import STALE_S, Figures
from cascadia.controller.service.routes import routes, serving
from cascadia.domain.errors import BadInput
from tests.data import ROOT
from tests.unit.controller.move.test_loop import CHANGE_S, HOUR_S, Plans, World
from tests.unit.controller.scale.test_scaler import World as Scaled
from tests.unit.controller.speed.test_drift import ONE, watch
from tests.unit.router.telemetry.test_metrics import Figures as Scrape
from tests.unit.router.telemetry.test_metrics import documented

PAGE = ROOT / "docs/reference/controller.md"


class Seen:
    """A controller in a world, and what it says of itself."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.figures = Figures(clock=lambda: world.now_s, steady_s=lambda: world.now_s)
        self.controller = Controller(
            world.settings,
            self.figures.watched(Plans(world.machine)),
            lambda: world.samples.between(0.0, world.now_s),
            self.figures.replanner(world.replan),
            clock=lambda: world.now_s,
            tell=self.figures.tell,
        )

    def live(self, until_s: float) -> None:
        self.figures.begin(lambda: True)

        async def main() -> None:
            while self.world.now_s < until_s:
                self.world.now_s += 60.0
                await self.controller.tick()
                self.figures.passed(self.controller)

        asyncio.run(main())

    def __call__(self, name: str, **labels: str) -> float:
        return Scrape(self.figures.text().decode())(f"controller_{name}", **labels)


def test_the_page_names_every_figure_with_its_labels_and_no_other(tmp_path: Path) -> None:
    speeds, _, looks = watch(tmp_path, {"small-0": (ONE, 1.5), "small-1": (ONE, 1.5)})
    looks(20)
    seen = Seen(World(tmp_path))
    seen.figures._speeds = speeds
    seen.live(CHANGE_S + HOUR_S)
    (tmp_path / "scaled").mkdir()
    seen.figures.passed(Scaled(tmp_path / "scaled", lambda _: 25.0).live(300.0))
    found = {
        name.removeprefix("controller_"): labels
        for name, labels in Scrape(seen.figures.text().decode()).labels.items()
        if not name.endswith("_created")
    }
    assert documented(PAGE) == found


def test_what_the_load_asks_for_is_told(tmp_path: Path) -> None:
    (tmp_path / "scaled").mkdir()
    seen = Seen(World(tmp_path))
    seen.figures.passed(Scaled(tmp_path / "scaled", lambda _: 100.0, gpus=4).live(300.0))
    assert seen("scale_rate_rps") > 80.0
    assert seen("scale_short") == 1.0
    assert seen("scale_replicas", stage="small") + seen("scale_replicas", stage="large") == 4.0


def test_a_move_is_told_with_its_decision_its_forecast_and_the_gpus(tmp_path: Path) -> None:
    seen = Seen(World(tmp_path))
    assert seen("leads") == 0.0
    assert seen("state", doing="standby") == 1.0
    seen.live(CHANGE_S + HOUR_S)
    assert seen("leads") == seen("state", doing="watching") == 1.0
    assert seen("alarms_total", watched="rate") == seen("decisions_total", action="move") == 1.0
    assert seen("moves_total", result="moved") == seen("move_seconds_count") == 1.0
    assert seen("moves_total", result="rolled-back") == seen("plan_failures_total") == 0.0
    assert seen("forecast_rate_rps") == seen.world.asked[0].rate_rps
    assert seen("forecast_loss", plan="today", what="p95", unit="s") == 20.0
    assert seen("forecast_loss", plan="candidate", what="p95", unit="s") == 8.0
    assert seen("plan_in_force", plan="new") == seen("plan_seconds_count") == 1.0
    assert seen("plan_gpus", pool="gpu") == seen("cluster_gpus", pool="gpu") == 3.0
    assert seen("last_success_timestamp_seconds") == CHANGE_S + HOUR_S
    assert CHANGE_S < seen("last_decision_timestamp_seconds") < CHANGE_S + HOUR_S


def test_what_fails_is_counted_by_what_it_was(tmp_path: Path) -> None:
    seen = Seen(World(tmp_path))
    seen.world.machine.refuse = 2
    seen.live(CHANGE_S + HOUR_S)
    assert seen("moves_total", result="rolled-back") == 1.0
    (tmp_path / "b").mkdir()
    another = Seen(World(tmp_path / "b"))
    another.world.answer = PlanningFailed("too slow")
    another.live(CHANGE_S + HOUR_S)
    assert another("plan_failures_total") == another("decisions_total", action="keep") == 1.0
    another.figures.failed("api", StepFailed("no API server"))
    assert another("errors_total", kind="api") == 1.0


def test_a_change_that_waits_for_requests_is_shown_until_it_is_decided(tmp_path: Path) -> None:
    seen = Seen(World(tmp_path, least_requests=3000))
    seen.live(CHANGE_S + 600.0)
    assert seen("alarm") == 1.0
    seen.live(CHANGE_S + 2 * HOUR_S)
    assert seen("alarm") == 0.0


def test_a_plan_that_cannot_be_held_is_no_move(tmp_path: Path) -> None:
    seen = Seen(World(tmp_path))
    for entry in (Entry(0.0, "holding", "old"), Entry(1.0, "failed", "old cannot be made so: no image")):
        seen.figures.tell(entry)
    assert seen("holds_total", result="failed") == 1.0
    assert seen("moves_total", result="failed") == 0.0
    seen.figures.begin(lambda: True)
    seen.world.now_s = STALE_S + 1.0
    assert seen.figures.trouble() == "no pass has gone well for 121 s: old cannot be made so: no image"


def test_who_leads_is_ready_while_its_passes_go_well_and_who_stands_by_is(tmp_path: Path) -> None:
    seen = Seen(World(tmp_path))
    seen.world.now_s = 10 * STALE_S
    assert seen.figures.trouble() == ""
    seen.figures.begin(lambda: True)
    seen.figures.failed("api", StepFailed("the API server does not answer"))
    assert seen.figures.trouble() == "", "it may have been away for a moment"
    seen.world.now_s += STALE_S + 1.0
    assert seen.figures.trouble().endswith("the API server does not answer")
    seen.figures.tell(Entry(0.0, "begun", "to new"))
    assert seen.figures.trouble() == "", "engines load for longer than that"


def test_it_answers_for_its_health_its_readiness_its_figures_and_its_history(tmp_path: Path) -> None:
    seen = Seen(World(tmp_path))
    seen.figures.begin(lambda: True)
    seen.controller.note("alarm", "rate changed", {"watched": "rate"})

    async def main() -> None:
        entries = seen.controller.state.entries
        async with (
            serving(routes(seen.figures, entries), "127.0.0.1", 0) as port,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client,
        ):
            assert (await client.get("/health")).json()["leads"] is True
            assert (await client.get("/ready")).status_code == 200
            assert (await client.get("/history")).json()[-1]["what"] == "rate changed"
            metrics = await client.get("/metrics")
            assert metrics.headers["content-type"].startswith("text/plain")
            assert 'cascadia_controller_alarms_total{watched="rate"} 1.0' in metrics.text
            seen.world.now_s += STALE_S + 1.0
            said = await client.get("/ready")
            assert said.status_code == 503
            assert said.json()["why"] == "no pass has gone well for 121 s"

    asyncio.run(main())


def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    seen = Seen(World(tmp_path))

    async def main() -> None:
        with listen("127.0.0.1", 0) as other:
            async with serving(routes(seen.figures, list), "127.0.0.1", other.getsockname()[1]):
                pass

    with pytest.raises(BadInput, match="--port: cannot listen on"):
        asyncio.run(main())


def test_an_end_by_a_signal_is_silent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A signal raises between two turns of the loop, and cancels the server with all that runs beside it."""

    def terminated() -> None:
        raise Stopped(int(signal.SIGTERM))

    async def main() -> None:
        app = routes(Seen(World(tmp_path)).figures, list)
        async with serving(app, "127.0.0.1", 0) as port, httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"http://127.0.0.1:{port}/health")).status_code == 200
            asyncio.get_running_loop().call_soon(terminated)
            await asyncio.Event().wait()

    with pytest.raises(Stopped):
        asyncio.run(main())
    assert capfd.readouterr() == ("", "")
