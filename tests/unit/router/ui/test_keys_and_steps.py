"""The page's keys with what they spent, the steps of a decision, and who may drain."""

from dataclasses import replace
from pathlib import Path

from cascadia.router.access.keys import Key, KeyLimits, Keyring, Scope, make_key
from cascadia.router.settings.model import AdminSettings, JudgeSettings, KeySettings, RouterSettings
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import QUICK, ScriptedGate, run, running, stages

ALL: frozenset[Scope] = frozenset({"inference", "metrics", "admin"})


def test_keys_are_told_with_spend_and_limits_and_decisions_with_their_steps(tmp_path: Path) -> None:
    new = make_key()
    limits = KeyLimits(requests_per_minute=600, usd_per_month=5.0)
    keyring = Keyring([Key(new.id, "team-a", new.digest, scopes=ALL, limits=limits)])
    own = {"authorization": f"Bearer {new.text}"}

    async def main() -> None:
        small, large = FakeEngine("weak"), FakeEngine("strong")
        async with started(small, large):
            both = tuple(replace(s, price=(1000.0, 2000.0)) for s in stages(small, large, thresholds=(50.0,)))
            settings = RouterSettings(
                both,
                JudgeSettings("certainty"),
                health=QUICK,
                keys=KeySettings(tmp_path / "keys.json"),
                admin=AdminSettings(),
            )
            gate = ScriptedGate({"weak": 20.0})
            async with running(settings, gate, keyring=keyring) as router:
                assert (await router.chat(headers=own)).status_code == 200
                state = (await router.client.get("/ui/state", headers=own)).json()
                no_key = await router.client.post("/admin/replicas/small-0/drain")
        (key,) = state["keys"]
        assert (key["key"], key["usd_per_month"], key["requests_per_minute"]) == ("team-a", 5.0, 600)
        assert key["usd"] > 0
        assert new.text not in str(state)
        first, last = state["recent"][0]["steps"]
        assert (first["score"], first["threshold"], first["outcome"]) == (20.0, 50.0, "score")
        assert last["replica"].startswith("large")
        assert last["seconds"] > 0
        assert state["admin"] is True
        assert no_key.status_code == 401

    run(main)


def test_a_router_without_keys_shows_none_and_lets_nobody_drain() -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine)) as router:
            state = (await router.client.get("/ui/state")).json()
        assert (state["keys"], state["admin"]) == (None, False)

    run(main)
