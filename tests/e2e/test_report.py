"""report.html in a real browser: hover, sorting and CSV from the page itself, and nothing clipped at 1,280 pixels."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cascadia.domain.plan import Plan
from cascadia.report.data import ReportData
from cascadia.report.html import render_report
from tests.e2e.browser import PROGRAM, Open, look, opened
from tests.unit.report import plans
from tests.unit.report.sample import sample_plan, sample_report

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium here")
Look = Callable[[Open], Coroutine[Any, Any, None]]
LONG = "quantized-instruct-model-with-a-long-name"


def seen(tmp_path: Path, data: ReportData, main: Look) -> None:
    file = tmp_path / "report.html"
    file.write_text(render_report(data), encoding="utf-8")

    async def whole() -> None:
        async with opened(file.as_uri(), tmp_path / "profile") as page:
            await page.until("document.querySelector('.csv') !== null")
            await main(page)

    asyncio.run(whole())


def named_at_length() -> Plan:
    plan = sample_plan()
    stages = (replace(plan.stages[0], model=f"org/{LONG}-8B"), *plan.stages[1:])
    return replace(plan, stages=stages)


@pytest.mark.parametrize("make", [sample_plan, plans.thousand_gpus, named_at_length])
@pytest.mark.parametrize("width", [1280, 360])
def test_no_column_is_clipped_on_a_screen_nor_the_page_on_a_phone(
    tmp_path: Path, make: Callable[[], Plan], width: int
) -> None:
    wider = "e => e.scrollWidth > e.clientWidth + 1"
    clipped = f"[...document.querySelectorAll('.wide, .picture')].filter({wider}).map(e => e.textContent)"

    async def main(page: Open) -> None:
        await page.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        await page.until(f"innerWidth === {width}")
        assert await page.value("document.documentElement.scrollWidth") <= width
        if width == 1280:
            assert await page.value(clipped) == []

    seen(tmp_path, replace(sample_report(), plan=make()), main)


def test_a_click_on_a_heading_sorts_by_its_numbers_and_again_turns_it_round(tmp_path: Path) -> None:
    column = "[...document.querySelectorAll('#flow tbody tr')].map(row => row.cells[{}].textContent)"

    async def main(page: Open) -> None:
        heads = await page.value(
            "[...document.querySelectorAll('#flow th[scope=col]')].map(h => h.textContent)"
        )
        at = heads.index("p95")
        click = f"document.querySelectorAll('#flow .sort')[{at}].click()"
        await page.value(click)
        rising = await page.value(column.format(at))
        await page.value(click)
        assert await page.value(column.format(at)) == rising[::-1]
        seconds = [float(t.split()[0]) / (1000 if t.endswith("ms") else 1) for t in rising]
        assert seconds == sorted(seconds)
        assert len(set(seconds)) > 2

    seen(tmp_path, sample_report(), main)


def test_a_table_is_saved_as_csv_by_the_page_alone(tmp_path: Path) -> None:
    async def main(page: Open) -> None:
        await page.value(
            "made = []; URL.createObjectURL = (blob) => { blob.text().then(t => made.push(t)); return '#'; };"
            "document.querySelector('#flow .csv').click()"
        )
        await page.until("made.length === 1")
        head, first, *_ = (await page.value("made[0]")).split("\r\n")
        assert head.startswith('"Stage","Reached","Answered here"')
        assert first.startswith('"small Llama-3.1-8B-Instruct","100 %"')
        assert await page.value("performance.getEntriesByType('resource').length") == 0

    seen(tmp_path, sample_report(), main)


def test_a_chart_says_what_is_under_the_pointer_at_once(tmp_path: Path) -> None:
    async def main(page: Open) -> None:
        box = await page.value(
            "(() => { const m = document.querySelector('#frontier [aria-label*=\"this plan\"]');"
            "m.scrollIntoView(); const b = m.getBoundingClientRect(); return [b.left + 4, b.top + 4]; })()"
        )
        await page.send("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])
        await page.until("!document.getElementById('tip').hidden")
        assert "this plan: quality" in await page.value("document.getElementById('tip').textContent")

    seen(tmp_path, sample_report(), main)


def test_without_complaints_and_with_each_page_of_the_print_in_its_width(tmp_path: Path) -> None:
    async def main(page: Open) -> None:
        await page.send("Emulation.setEmulatedMedia", media="print")
        await page.send(
            "Emulation.setDeviceMetricsOverride", width=688, height=1000, deviceScaleFactor=1, mobile=False
        )
        await page.until("innerWidth === 688")
        assert await page.value("document.documentElement.scrollWidth") <= 688
        hidden = (
            "[...document.querySelectorAll('.csv, nav')].every(e => getComputedStyle(e).display === 'none')"
        )
        assert await page.value(hidden)

    seen(tmp_path, sample_report(), main)
    complaints = asyncio.run(look((tmp_path / "report.html").as_uri(), tmp_path / "second")).said
    assert complaints == []
