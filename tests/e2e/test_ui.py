"""The live page in a real browser: what it shows, by keyboard and in dark mode, and that it asks nobody else."""

import asyncio
import os
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cascadia.router.settings.model import JudgeSettings, PlannedSettings, PlannedStage, RouterSettings
from cascadia.testing.engines import FakeEngine, completion, send, started, stream
from cascadia.testing.routers import QUICK, Running, run, running, stages
from tests.e2e.browser import PROGRAM, look, opened
from tests.e2e.gears_scene import burst

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium here")
PICTURES = os.environ.get("CASCADIA_PICTURES")
"""A folder where the pictures of the documentation are to be written."""


PLANNED = PlannedSettings(
    rate_rps=20.0,
    p50_s=0.21,
    p95_s=0.6,
    ttft_p95_s=0.5,
    quality=84.1,
    quality_lower=82.0,
    usd_per_hour=53.1,
    stages={
        "small": PlannedStage(1.0, 0.36, 0.08, usd_per_hour=5.9, replicas=2),
        "medium": PlannedStage(0.64, 0.36, 0.2, usd_per_hour=23.6, replicas=2),
        "large": PlannedStage(0.28, 0.28, 0.3, usd_per_hour=23.6, replicas=1),
    },
)


class Drawn:
    """Scores by a seeded draw, higher for larger stages."""

    def __init__(self) -> None:
        self.rng = random.Random(7)

    def wants(self, api: str) -> dict[str, Any]:
        return {}

    async def score(self, question: str, choice: Any, deadline_s: float) -> float:
        centre = {"short": 62.0, "longer": 78.0}.get(choice.text.split(" ")[0], 90.0)
        return min(100.0, max(0.0, self.rng.gauss(centre, 18.0)))


async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """Takes its time, as engines do: more for longer answers."""
    await asyncio.sleep(0.004 * len(engine.text.split(" ")))
    if body.get("stream"):
        stream(writer, engine.text, body)
    else:
        usage = {"prompt_tokens": 120, "completion_tokens": len(engine.text.split(" ")), "total_tokens": 1}
        send(writer, 200, completion(engine.text, usage=usage))


@asynccontextmanager
async def scene(request_id: str = "nightly-report-17") -> AsyncIterator[Running]:
    """Three stages with a mixture of requests behind them; one replica of the second has gone."""
    small = [FakeEngine("short " * 12, answer=answer) for _ in range(2)]
    medium = [FakeEngine("longer " * 20, answer=answer) for _ in range(2)]
    large = FakeEngine("longest " * 30, answer=answer)
    async with started(*small, *medium, large):
        configured = stages(small, medium, [large], thresholds=(70.0, 75.0))
        costly = tuple(replace(s, cost=c) for s, c in zip(configured, (1.5, 8.0, 70.0), strict=True))
        settings = RouterSettings(costly, JudgeSettings("certainty"), health=QUICK, planned=PLANNED)
        async with running(settings, Drawn()) as router:
            page = router.router.observers.page
            assert page is not None
            for number in range(12):
                if number == 9:
                    await medium[1].stop()
                await asyncio.gather(
                    *[router.chat(stream=number % 3 == 0) for _ in range(14 + 3 * (number % 4))]
                )
                page.history.tick()
            await router.chat("large", headers={"x-request-id": request_id})
            await router.chat(max_stage="medium", deadline_ms=1)
            yield router


def test_it_shows_the_cascade_at_work_and_asks_nobody_else(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene("<b>my</b>&id") as router:
            seen = await look(f"http://127.0.0.1:{router.port}/ui", tmp_path / "profile")
            state = (await router.client.get("/ui/state?window=all")).json()
        assert seen.text("health") == "ready"
        for stage in ("small", "medium", "large"):
            assert stage in seen.text("funnel")
            assert stage in seen.text("stages")
        assert "accepts from 70" in seen.text("funnel")
        assert "dollars an hour $53.10 $53.10 +0 %" in seen.text("planned")
        assert "score too low" in seen.text("funnel")
        assert "medium-1 down" in seen.text("replicas")
        assert "Saved" in seen.document
        saved = f"{100 * state['savings']['share']:.0f} %"
        assert 0 < state["savings"]["share"] < 1
        assert saved in seen.document
        # What a client chose is shown as text, never as markup.
        assert "&lt;b&gt;my&lt;/b&gt;&amp;id" in seen.document
        assert "What is 2+2?" not in seen.document
        # The browser reports what its policy refused, and scripts that failed.
        assert seen.said == []

    run(main)


def test_it_says_so_when_no_router_answers(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene() as router:
            page = f"http://127.0.0.1:{router.port}/ui"
            router.router.observers.page.state = None  # type: ignore[union-attr, method-assign, assignment]
            seen = await look(page, tmp_path / "profile")
        assert seen.text("health") == "no answer from the router"

    run(main)


@pytest.mark.parametrize("dark", [False, True])
def test_pictures_in_light_and_dark_differ_and_are_not_empty(tmp_path: Path, dark: bool) -> None:
    async def main() -> None:
        folder = Path(PICTURES) if PICTURES else tmp_path
        picture = folder / f"ui-{'dark' if dark else 'light'}.png"
        async with scene() as router:
            url = f"http://127.0.0.1:{router.port}/ui"
            await look(url, tmp_path / "profile", picture=picture, dark=dark)
            if PICTURES:
                await look(url, tmp_path / "narrow", picture=folder / "narrow.png", size=(400, 2600))
        content = picture.read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) > 40_000

    run(main)


def test_all_of_it_can_be_done_by_keyboard(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            scene() as router,
            opened(f"http://127.0.0.1:{router.port}/ui", tmp_path / "profile") as page,
        ):
            await page.until("document.getElementById('health').textContent === 'ready'")
            focused = "document.activeElement.id || document.activeElement.className"
            await page.press("Tab")
            assert await page.value(focused) == "skip"
            await page.press("Tab")
            assert await page.value(focused) == "w1"
            # Arrows choose among the times, and the figures follow.
            await page.press("ArrowRight")
            assert await page.value(focused) == "w15"
            await page.until(
                "performance.getEntriesByType('resource').some(e => e.name.endsWith('window=15m'))"
            )
            await page.press("Tab")
            assert await page.value(focused) == "pause"
            await page.press("Enter", "\r")
            assert await page.value("document.getElementById('pause').getAttribute('aria-pressed')") == "true"
            # Wide tables can be scrolled to, and what has the focus is seen to have it.
            await page.press("Tab")
            assert await page.value("document.activeElement.getAttribute('role')") == "region"
            assert await page.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"

    run(main)


def test_it_keeps_still_where_motion_is_unwelcome_and_fits_a_narrow_screen(tmp_path: Path) -> None:
    async def main() -> None:
        moving = "getComputedStyle(document.querySelector('.bar .accepted')).transitionDuration"
        async with (
            scene() as router,
            opened(f"http://127.0.0.1:{router.port}/ui", tmp_path / "profile") as page,
        ):
            await page.until("document.querySelector('.bar .accepted') !== null")
            assert await page.value(moving) == "0.4s"
            wish = {"name": "prefers-reduced-motion", "value": "reduce"}
            await page.send("Emulation.setEmulatedMedia", features=[wish])
            assert await page.value(moving) == "0s"
            await page.send(
                "Emulation.setDeviceMetricsOverride", width=360, height=800, deviceScaleFactor=1, mobile=True
            )
            await page.until("innerWidth === 360 && document.documentElement.scrollWidth <= 360")

    run(main)


def test_it_shows_the_gear_over_time_beside_rate_and_in_flight(tmp_path: Path) -> None:
    async def main() -> None:
        async with burst() as router:
            picture = Path(PICTURES) / "ui-gears.png" if PICTURES else tmp_path / "gears.png"
            url = f"http://127.0.0.1:{router.port}/ui?window=all"
            seen = await look(url, tmp_path / "profile")
            await look(url, tmp_path / "profile", picture=picture, size=(1240, 1500))
        assert "50 % of the planned load has replicas" in seen.text("gears-now")
        assert re.search(r"In flight<small[^>]*> up to 24<", seen.document)
        assert seen.document.count('class="row-time"') == 3
        assert "any number" in seen.text("gears")
        assert not seen.said

    run(main)


def test_there_is_no_word_of_gears_where_there_are_none(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene() as router:
            seen = await look(f"http://127.0.0.1:{router.port}/ui", tmp_path / "profile")
        assert 'id="gears-section" hidden' in seen.document

    run(main)
