"""The page in a real browser for who operates: a decision opened to its steps, keys with spend, drain by click."""

from dataclasses import replace
from pathlib import Path

import pytest

from cascadia.router.access.keys import Key, KeyLimits, Keyring, make_key
from cascadia.router.settings.model import AdminSettings, JudgeSettings, KeySettings, RouterSettings
from cascadia.router.ui.routes import FILES
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import QUICK, ScriptedGate, run, running, stages
from tests.e2e.browser import PROGRAM, opened

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium here")


def test_a_decision_is_opened_and_a_replica_drained_with_an_admin_key_only(tmp_path: Path) -> None:
    new = make_key()
    key = Key(
        new.id,
        "team-a",
        new.digest,
        scopes=frozenset({"inference", "metrics", "admin"}),
        limits=KeyLimits(usd_per_month=5.0),
    )
    own = {"authorization": f"Bearer {new.text}"}
    drain = "document.querySelector('[aria-label=\"drain small-0\"]').click()"

    async def main() -> None:
        small, large = [FakeEngine("weak"), FakeEngine("weak")], FakeEngine("strong")
        async with started(*small, large):
            both = stages(small, large, thresholds=(50.0,))
            settings = RouterSettings(
                tuple(replace(stage, price=(1000.0, 2000.0)) for stage in both),
                JudgeSettings("certainty"),
                health=QUICK,
                keys=KeySettings(tmp_path / "keys.json", (*FILES, "/ui/state", "/ui/evaluations")),
                admin=AdminSettings(),
            )
            async with running(settings, ScriptedGate({"weak": 20.0}), keyring=Keyring([key])) as router:
                await router.chat(headers=own)
                url = f"http://127.0.0.1:{router.port}/ui"
                async with opened(url, tmp_path / "profile") as page:
                    await page.until("document.querySelector('#recent .open') !== null")
                    await page.value("document.querySelector('#recent .open').click()")
                    steps = await page.value("document.querySelector('#recent .opened').textContent")
                    assert "score too low · score 20.0 of 50 needed" in steps
                    assert "on small-" in steps
                    assert "team-a" in await page.value("byId('keys').textContent")
                    assert "$5.00" in await page.value("byId('keys').textContent")
                    await page.value(drain)
                    assert "Give a key" in await page.value("byId('drain-said').textContent")
                    await page.value("byId('admin-key').value = 'wrong'")
                    await page.value(drain)
                    await page.until("/^[^G].*key/.test(byId('drain-said').textContent)")
                    assert all(r.state == "ready" for s in router.router.stages for r in s.replicas)
                    await page.value(f"byId('admin-key').value = '{new.text}'")
                    await page.value(drain)
                    await page.until("/nothing new for it/.test(byId('drain-said').textContent)")
                    assert router.router.stages[0].replicas[0].state == "draining"

    run(main)
