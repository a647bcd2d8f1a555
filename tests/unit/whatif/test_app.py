"""The planner's page: what its addresses answer, and whom they refuse."""

import asyncio
import io
import json
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from cascadia.whatif.app import application
from cascadia.whatif.asked import Asked
from cascadia.whatif.plans import MOST, Plans
from cascadia.whatif.worker import NotPlanned, Say

FILES = ("plan.json", "report.html", "kubernetes.yaml")
ASKED = {"content-type": "application/json"}
Client = httpx.AsyncClient


def compared(asked: Asked) -> dict[str, Any]:
    """As a search that stopped early on the spec's own bar of 80, and found less cost for a higher one."""
    bar = asked.quality_min or 80.0
    usd = {80.0: 50.0, 82.0: 45.0}.get(bar, 60.0)
    reached = {"quality": bar, "latency_s": 9.0, "usd_per_hour": usd, "gpus": {"h100": 4}}
    bounds = {"rate_rps": asked.rate_rps or 1.0, "quality": bar, "latency_s": asked.latency_max_s}
    return {
        "bounds": {**bounds, "usd_per_hour": asked.budget_usd_per_hour, "gpus": {"h100": 8, **asked.gpus}},
        "worth": {"goal": usd, "slack": 0.0, **reached},
    }


@dataclass
class Scripted:
    """Plans at once, once `free` is set; refuses bars above 90."""

    free: asyncio.Event = field(default_factory=asyncio.Event)
    made: list[Asked] = field(default_factory=list)
    ended: int = 0

    async def plan(self, asked: Asked, folder: Path, say: Say) -> dict[str, Any]:
        say({"sliders": [{"key": "rate_rps", "stops": [1.0]}]})
        say({"step": "halfway"})
        try:
            await self.free.wait()
        except asyncio.CancelledError:
            self.ended += 1
            raise
        if (asked.quality_min or 0) > 90:
            raise NotPlanned("cannot plan: quality_min: 90 is the most")
        self.made.append(asked)
        folder.mkdir(parents=True)
        (folder / "plan.json").write_text("{}")
        (folder / "report.html").write_text("<p>report</p>")
        (folder / "planning.log").write_text("not for download")
        return {"headline": f"plan of {asked.quality_min}", "tried": [], **compared(asked)}


@asynccontextmanager
async def page(folder: Path, planner: Scripted) -> AsyncIterator[tuple[Client, Plans]]:
    plans = Plans(planner, folder, clock=lambda: 5.0)
    app = application(plans, Path("cascade.yaml"), hosts={"127.0.0.1", "localhost"}, files=FILES)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with Client(transport=transport, base_url="http://127.0.0.1:8400") as client:
            yield client, plans


def run(
    folder: Path, main: Callable[[Client, Plans, Scripted], Awaitable[None]], *, free: bool = True
) -> None:
    async def whole() -> None:
        planner = Scripted()
        if free:
            planner.free.set()
        async with page(folder, planner) as (client, plans):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await main(client, plans, planner)

    asyncio.run(whole())


async def ask(client: Client, **asked: Any) -> httpx.Response:
    return await client.post("/plans", content=json.dumps(asked), headers=ASKED)


async def settled(plans: Plans) -> None:
    while plans.at_work is not None:
        await asyncio.sleep(0)


def test_the_specs_own_plan_is_made_first_and_told_with_its_files(tmp_path: Path) -> None:
    async def main(client: Client, plans: Plans, planner: Scripted) -> None:
        await settled(plans)
        listed = (await client.get("/plans")).json()
        assert [(p["number"], p["state"], p["asked"]) for p in listed["plans"]] == [(1, "ready", {})]
        assert listed["sliders"] == [{"key": "rate_rps", "stops": [1.0]}]
        assert (await client.get("/plans/1")).json()["headline"] == "plan of None"
        archive = await client.get("/plans/1/plan.zip")
        assert zipfile.ZipFile(io.BytesIO(archive.content)).namelist() == ["plan.json", "report.html"]
        download = await client.get("/plans/1/plan.json")
        assert download.headers["content-disposition"] == 'attachment; filename="plan.json"'
        report = await client.get("/plans/1/report.html")
        assert "sandbox" in report.headers["content-security-policy"]
        for missing in ("kubernetes.yaml", "planning.log", "..%2Fsecret"):
            assert (await client.get(f"/plans/1/{missing}")).status_code == 404

    run(tmp_path, main)


def test_the_same_question_is_planned_once_and_another_waits_its_turn(tmp_path: Path) -> None:
    async def main(client: Client, plans: Plans, planner: Scripted) -> None:
        listed = (await client.get("/plans")).json()["plans"][0]
        assert (listed["state"], listed["step"]) == ("planning", "halfway")
        busy = await ask(client, quality_min=82)
        assert (busy.status_code, busy.json()["error"]) == (
            409,
            "plan 1 is being made; wait for it, or stop it",
        )
        planner.free.set()
        await settled(plans)
        assert (await ask(client, quality_min=82)).json() == {"number": 2}
        await settled(plans)
        assert (await ask(client, quality_min=82.0)).json() == {"number": 2}
        assert len(planner.made) == 2

    run(tmp_path, main, free=False)


@pytest.mark.parametrize(
    ("looser", "better"),
    [
        ({}, 2),
        ({"latency_max_s": 9.5}, 2),
        ({"gpus": {"h100": 4}}, 2),
        ({"latency_max_s": 8.5}, None),
        ({"gpus": {"h100": 3}}, None),
        ({"budget_usd_per_hour": 44}, None),
        ({"rate_rps": 2}, None),
        ({"quality_min": 83}, None),
    ],
)
def test_a_plan_of_stricter_bounds_that_is_better_is_named(
    tmp_path: Path, looser: dict[str, Any], better: int | None
) -> None:
    async def main(client: Client, plans: Plans, planner: Scripted) -> None:
        for asked in ({}, {"quality_min": 82}, looser):
            number = (await ask(client, **asked)).json()["number"]
            await settled(plans)
        found = {plan["number"]: plan["better"] for plan in (await client.get("/plans")).json()["plans"]}
        assert (found[1], found[2], found[number]) == (2, None, better)

    run(tmp_path, main)


def test_a_plan_under_way_is_stopped_and_can_be_asked_for_again(tmp_path: Path) -> None:
    async def main(client: Client, plans: Plans, planner: Scripted) -> None:
        await client.post("/stop", content="{}", headers=ASKED)
        assert (await client.get("/plans")).json()["plans"][0]["state"] == "stopped"
        assert planner.ended == 1
        planner.free.set()
        assert (await ask(client)).json() == {"number": 2}

    run(tmp_path, main, free=False)


def test_what_cannot_be_planned_is_told_in_one_line(tmp_path: Path) -> None:
    async def main(client: Client, plans: Plans, planner: Scripted) -> None:
        await settled(plans)
        await ask(client, quality_min=95)
        await settled(plans)
        plan = (await client.get("/plans")).json()["plans"][1]
        assert (plan["state"], plan["error"]) == ("failed", "cannot plan: quality_min: 90 is the most")
        assert (await client.get("/plans/2")).status_code == 404

    run(tmp_path, main)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("{", "what is asked: is not JSON"),
        ('{"quality": 82}', "what is asked: quality: unknown key"),
        ('{"quality_min": 182}', "what is asked: quality_min: must be at most 100"),
        ('{"rate_rps": 0}', "what is asked: rate_rps: must be greater than 0"),
        ('{"gpus": {"h100": 1.5}}', "what is asked: gpus.h100: must be a whole number"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, body: str, said: str) -> None:
    async def main(client: Client, plans: Plans, planner: Scripted) -> None:
        answer = await client.post("/plans", content=body, headers=ASKED)
        assert answer.status_code == 400
        assert answer.json()["error"].startswith(said)
        assert "\n" not in answer.json()["error"]

    run(tmp_path, main)


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"host": "evil.example"}, "this page is at 127.0.0.1, localhost only"),
        ({"origin": "http://evil.example"}, "another site's page may not ask"),
        ({"content-type": "text/plain"}, "send content-type: application/json"),
    ],
)
def test_other_sites_pages_may_not_ask(tmp_path: Path, headers: dict[str, str], said: str) -> None:
    async def main(client: Client, plans: Plans, planner: Scripted) -> None:
        await settled(plans)
        answer = await client.post("/plans", content="{}", headers=ASKED | headers)
        assert (answer.status_code, answer.json()["error"]) == (403, said)
        assert len(plans.entries) == 1

    run(tmp_path, main)


def test_the_oldest_plans_but_the_first_give_way(tmp_path: Path) -> None:
    async def main(client: Client, plans: Plans, planner: Scripted) -> None:
        for bar in range(MOST):
            await settled(plans)
            plans.ask(Asked(quality_min=float(bar)))
        assert len(plans.entries) == MOST
        assert list(plans.entries)[:2] == [1, 3]

    run(tmp_path, main)


def test_the_page_asks_nothing_of_other_hosts(tmp_path: Path) -> None:
    async def main(client: Client, plans: Plans, planner: Scripted) -> None:
        for path in ("/", "/whatif.js", "/whatif.css", "/kit.js", "/page.css", "/icon.svg"):
            answer = await client.get(path)
            assert answer.status_code == 200
            assert answer.headers["content-security-policy"].startswith("default-src 'none'")
            assert "http://" not in answer.text.replace("http://www.w3.org/2000/svg", "")
            assert "https://" not in answer.text

    run(tmp_path, main)


def test_flags_are_those_of_the_command() -> None:
    asked = Asked(quality_min=82.5, gpus={"h100": 8}, latency_max_s=2, budget_usd_per_hour=24)
    assert asked.flags == [
        *("--gpus", "h100=8", "--quality-min", "82.5", "--latency-max", "2", "--budget", "24"),
    ]


def test_flags_ask_for_the_very_same_values() -> None:
    asked = Asked(rate_rps=1 / 3, quality_min=82.12345678, budget_usd_per_hour=1234567.89)
    given = dict(zip(asked.flags[::2], map(float, asked.flags[1::2]), strict=True))
    assert given == {"--rate": 1 / 3, "--quality-min": 82.12345678, "--budget": 1234567.89}
