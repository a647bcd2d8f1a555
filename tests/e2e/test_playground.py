"""The playground in a real browser: each stage's turn, a what-if from shadow evaluations, thumbs as a quality table."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from cascadia.planner.problem.quality_file import read_quality
from cascadia.router.settings.model import JudgeSettings, RouterSettings, SampleSettings, ShadowSettings
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import QUICK, ScriptedGate, run, running, stages, until
from tests.e2e.browser import PROGRAM, Open, opened

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium here")
PICTURES = os.environ.get("CASCADIA_PICTURES")
WEAK, STRONG = "<b>weak</b> & short", "The Treaty of Westphalia ended the Thirty Years' War in 1648."
GATE = ScriptedGate({WEAK: 41.0, STRONG: 93.0})


async def picture(page: Open, name: str) -> None:
    if PICTURES:
        import base64

        await page.send(
            "Emulation.setDeviceMetricsOverride", width=1240, height=900, deviceScaleFactor=1, mobile=False
        )
        box = await page.value(
            "(() => { const a = byId('play-section').getBoundingClientRect(), b = byId('what-if-section')"
            ".getBoundingClientRect(); return [a.top + scrollY - 8, b.bottom - a.top + 16]; })()"
        )
        clip = {"x": 0, "y": box[0], "width": 1240, "height": box[1], "scale": 1}
        shot = await page.send("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        (Path(PICTURES) / name).write_bytes(base64.b64decode(shot["data"]))


def test_a_question_is_asked_explained_judged_and_saved(tmp_path: Path) -> None:
    async def main() -> None:
        small, large = FakeEngine(WEAK), FakeEngine(STRONG)
        async with started(small, large):
            priced = tuple(
                replace(stage, cost=cost)
                for stage, cost in zip(stages(small, large, thresholds=(60.0,)), (0.4, 4.0), strict=True)
            )
            settings = RouterSettings(
                priced,
                JudgeSettings("certainty"),
                health=QUICK,
                cost_unit="usd-per-million-tokens",
                samples=SampleSettings(tmp_path / "samples"),
                shadow=ShadowSettings(ratio=1.0),
            )
            async with running(settings, GATE) as router:
                for number in range(1, 4):
                    await router.chat(stream=True, stream_options={"include_usage": True})
                    done = router.router.metrics.shadows.labels("done")
                    await until(lambda wanted=number, done=done: done.value == wanted)
                async with opened(f"http://127.0.0.1:{router.port}/ui", tmp_path / "profile") as page:
                    await page.until("byId('what-if').childElementCount === 1")
                    await page.value("byId('play-question').value = 'What ended the war?'")
                    await page.value("byId('play').querySelector('button.main').click()")
                    await page.until("byId('play-steps').childElementCount === 2")
                    shown = await page.value("byId('play-steps').textContent")
                    assert "passed on: 41.0 is below 60" in shown
                    # An answer is text, never markup.
                    assert WEAK in shown
                    assert await page.value("byId('play-steps').querySelectorAll('b').length") == 2
                    assert "Answered by large" in await page.value("byId('play-said').textContent")
                    # A lower threshold: cheaper, and worse by what the judge said of both answers.
                    await page.value(
                        "r = document.querySelector('#what-if input'); r.value = 40;"
                        "r.dispatchEvent(new Event('input'))"
                    )
                    told = await page.value("document.querySelector('.what-if-row').lastChild.textContent")
                    assert "% cheaper, 52.0 ± 0.0 points less, answers 100 % instead of 0 %" in told
                    await picture(page, "playground.png")
                    # Thumbs stay in the page until they are saved.
                    await page.value("byId('play-steps').querySelectorAll('button')[1].click()")
                    await page.value("byId('play-steps').querySelectorAll('button')[2].click()")
                    table = await page.value("table_csv()")
                    asked = "performance.getEntriesByType('resource').map(e => new URL(e.name).host)"
                    assert set(await page.value(asked)) == {f"127.0.0.1:{router.port}"}
            (tmp_path / "thumbs.csv").write_text(table)
            found = read_quality(tmp_path / "thumbs.csv", ("small", "large"), scale=None, note=lambda _: None)
            assert found.score.tolist() == [[41.0, 100.0]] or found.score.tolist() == [[41.0], [100.0]]
            assert sorted(found.quality.ravel().tolist()) == [0.0, 100.0]

    run(main)


def test_a_failure_is_told_in_one_line(tmp_path: Path) -> None:
    async def main() -> None:
        small = FakeEngine(STRONG)
        async with (
            started(small),
            running(stages(small)) as router,
            opened(f"http://127.0.0.1:{router.port}/ui", tmp_path / "profile") as page,
        ):
            await page.until("!byId('play-section').hidden")
            await small.stop()
            await page.value("byId('play-question').value = 'anyone?'")
            await page.value("byId('play').querySelector('button.main').click()")
            await page.until("byId('play-said').className === 'bad-text'")
            assert await page.value("byId('play-said').textContent")

    run(main)
