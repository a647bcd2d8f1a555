"""An API whose address has a path, as gateways and hosted ones have, is asked below that path."""

import pytest

from cascadia.router.settings.file import check_url
from cascadia.router.settings.model import JudgeSettings, ReplicaSettings, RouterSettings, StageSettings
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import ScriptedGate, run, running


@pytest.mark.parametrize("written", ["", "/", "/v1", "/api", "/api/v1", "/a/b.c/v1/"])
def test_it_is_asked_below_its_path(written: str) -> None:
    below = written.rstrip("/").removesuffix("/v1")

    async def main() -> None:
        engine = FakeEngine("hi")
        async with started(engine):
            replica = ReplicaSettings(check_url(engine.url + written, "url"), health_path=None)
            settings = RouterSettings((StageSettings("api", "m", (replica,)),), JudgeSettings("certainty"))
            async with running(settings, ScriptedGate({})) as up:
                assert (await up.chat()).status_code == 200
        assert [head.split()[:2] for head in engine.heads] == [["POST", f"{below}/v1/chat/completions"]]

    run(main)
