"""A limit of somebody else's API is kept before it has to say so."""

from dataclasses import replace

from cascadia.router.settings.model import ReplicaSettings
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import run, running, stages


def test_who_comes_beyond_the_limit_of_a_minute_waits_and_is_not_sent() -> None:
    async def main() -> None:
        api = FakeEngine()
        async with started(api):
            (stage,) = stages(api)
            there = ReplicaSettings(api.url, health_path=None, api_key="secret", requests_per_minute=2)
            limited = replace(stage, model="any-name", replicas=(there,))
            async with running((limited,), queue_s=0.2) as up:
                answers = [await up.chat("small") for _ in range(3)]
        assert [a.status_code for a in answers] == [200, 200, 429]
        assert 1 <= int(answers[2].headers["retry-after"]) <= 60
        assert [request["model"] for request in api.requests] == ["any-name"] * 2

    run(main)


def test_where_it_is_to_escalate_a_larger_stage_answers_instead() -> None:
    async def main() -> None:
        api, larger = FakeEngine(), FakeEngine()
        async with started(api), started(larger):
            small, large = stages(api, larger)
            there = ReplicaSettings(api.url, health_path=None, requests_per_minute=1)
            limited = replace(small, replicas=(there,), on_overload="escalate")
            async with running((limited, large)) as up:
                first, second = await up.chat("cascadia"), await up.chat("cascadia")
        assert (first.headers["x-cascadia-stage"], second.headers["x-cascadia-stage"]) == ("small", "large")
        assert (len(api.requests), len(larger.requests)) == (1, 1)

    run(main)
