"""`cascadia ui` in a real browser: sliders over what was tried, a plan asked for and made, two beside each other."""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cascadia.files.plan_file import parse_plan
from tests.data import ROOT
from tests.e2e.browser import PROGRAM, Open, look, opened

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium here")
PICTURES = os.environ.get("CASCADIA_PICTURES")
"""A folder where the pictures of the documentation are to be written."""
SPEC = ROOT / "docs" / "examples" / "chat-16-gpus.yaml"


@contextmanager
def planner(spec: Path = SPEC) -> Iterator[str]:
    """The command's address, while it runs; SIGINT ends it with 0."""
    command = [str(Path(sys.executable).with_name("cascadia")), "ui", str(spec), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield json.loads("".join(process.stdout.readline() for _ in range(3)))["url"]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


READY = "details.size === {} && document.getElementById('work').textContent === 'ready'"
SET = (
    "s = sliders.find(s => s.key === '{}'); s.range.value = s.stops.indexOf({});"
    "s.range.dispatchEvent(new Event('input'))"
)


async def text(page: Open, element: str) -> str:
    return str(await page.value(f"document.getElementById('{element}').textContent"))


def test_a_bar_is_moved_and_its_plan_stands_beside_the_first(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with opened(url, tmp_path / "profile") as page:
            await page.until(READY.format(1))
            before = await text(page, "tried")
            assert "quality ≥ 82." in before
            # Sliders look among what was tried, at once.
            await page.value(SET.format("latency_max_s", 15))
            assert await text(page, "tried") != before
            await page.value(SET.format("latency_max_s", 0.1))
            assert "None of the" in await text(page, "tried")
            await page.value("byId('reset').click()")
            await page.value(SET.format("rate_rps", 12))
            assert "Nothing was tried at 12 requests/s" in await text(page, "tried")
            await page.value("byId('reset').click()")
            # A plan is asked for and made.
            await page.value(SET.format("quality_min", 78))
            await page.value("byId('plan').click()")
            await page.until(READY.format(2))
            assert "plan 2" in await text(page, "h-limits")
            assert "--quality-min 78" in await text(page, "command")
            assert "Latency p95" in await text(page, "beside")
            # What cannot be planned says why, in one line.
            await page.value(SET.format("latency_max_s", 0.1))
            await page.value("byId('plan').click()")
            await page.until("plans.some(p => p.state === 'failed')")
            assert "latency" in await text(page, "plans")
            asked = "performance.getEntriesByType('resource').map(e => new URL(e.name).host)"
            assert set(await page.value(asked)) == {url.partition("://")[2]}

    with planner() as url:
        asyncio.run(main(url))
        with urllib.request.urlopen(f"{url}/plans/2/plan.zip") as answer:
            archive = zipfile.ZipFile(io.BytesIO(answer.read()))
        plan = parse_plan(archive.read("plan.json").decode(), "plan.json")
        assert plan.objective.quality_min == 78
        assert {"report.html", "kubernetes.yaml", "helm-values.yaml"} <= set(archive.namelist())


def test_it_fits_a_phone_and_complains_of_nothing(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with opened(url, tmp_path / "profile") as page:
            await page.until(READY.format(1))
            await page.send(
                "Emulation.setDeviceMetricsOverride", width=360, height=800, deviceScaleFactor=1, mobile=True
            )
            await page.until("innerWidth === 360 && document.documentElement.scrollWidth <= 360")
        seen = await look(
            url,
            tmp_path / "second",
            picture=Path(PICTURES) / "what-if.png" if PICTURES else None,
            size=(1240, 1010),
        )
        assert seen.said == []

    with planner() as url:
        asyncio.run(main(url))


def test_a_spec_that_cannot_be_planned_leaves_the_sliders_to_try_another(tmp_path: Path) -> None:
    spec = tmp_path / "cascade.yaml"
    folder = SPEC.parent
    whole = SPEC.read_text().replace("quality_min: 82", "quality_min: 100")
    spec.write_text(
        whole.replace("chat.csv", f"{folder}/chat.csv").replace("quality.csv", f"{folder}/quality.csv")
    )

    async def main(url: str) -> None:
        async with opened(url, tmp_path / "profile") as page:
            await page.until("plans.some(p => p.state === 'failed')")
            assert "quality_min" in await text(page, "plans")
            await page.value(SET.format("quality_min", 75))
            await page.value("byId('plan').click()")
            await page.until(READY.format(1))

    with planner(spec) as url:
        asyncio.run(main(url))
