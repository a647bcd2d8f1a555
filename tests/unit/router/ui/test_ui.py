"""The page's data and its files; what it looks like is seen by tests/e2e/test_ui.py."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from cascadia.domain.plan import JudgePlan, ReplicaGroup
from cascadia.router.access.keys import Key, Keyring, make_key
from cascadia.router.settings.from_plan import settings_of
from cascadia.router.settings.model import JudgeSettings, KeySettings, RouterSettings
from cascadia.router.telemetry.counters import Spread
from cascadia.router.telemetry.metrics import Metrics
from cascadia.router.ui.history import KEPT, History, Window, quantile, tick_of
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.plans import POOLS, plan, stage
from cascadia.testing.routers import QUICK, ScriptedGate, run, running, stages


def shown(small: FakeEngine, large: FakeEngine, costs: tuple[float | None, float | None]) -> RouterSettings:
    configured = stages(small, large, thresholds=(50.0,))
    costly = tuple(replace(stage, cost=cost) for stage, cost in zip(configured, costs, strict=True))
    return RouterSettings(costly, JudgeSettings("certainty"), health=QUICK)


def test_the_state_tells_the_funnel_the_savings_and_each_decision_without_a_word_of_text() -> None:
    async def main() -> None:
        small, large = FakeEngine("secret weak"), FakeEngine("secret strong")
        gate = ScriptedGate({"secret weak": 30.0, "secret fine": 80.0})
        async with started(small, large), running(shown(small, large, (1.0, 10.0)), gate) as router:
            await router.chat()
            small.text = "secret fine"
            for _ in range(3):
                await router.chat()
            answer = await router.client.get("/ui/state?window=all")
        state = answer.json()
        first, last = state["stages"]
        assert (first["name"], first["threshold"], first["reached"], first["accepted"]) == ("small", 50, 4, 3)
        assert first["escalated"] == {"score": 1}
        assert (last["threshold"], last["accepted"]) == (None, 1)
        assert sum(first["scores"]) == 4
        assert first["score_mean"] == pytest.approx((30 + 3 * 80) / 4)
        assert state["judge"]["verdicts"] == 4
        # 13 tokens an answer: 4 of the small stage at 1, one of the large at 10; alone, 4 answers at 10.
        assert state["savings"] == {
            "spent": 4 * 13 + 130,
            "alone": 520,
            "share": pytest.approx(1 - 182 / 520),
        }
        assert [[step["outcome"] for step in one["steps"]] for one in state["recent"]] == [
            ["accepted"],
            ["accepted"],
            ["accepted"],
            ["score", "accepted"],
        ]
        assert state["requests"]["statuses"] == {"200": 4}
        assert {each["name"]: each["state"] for each in state["replicas"]} == {
            "small-0": "ready",
            "large-0": "ready",
        }
        assert "secret" not in json.dumps(state)
        assert "2+2" not in json.dumps(state)

    run(main)


def test_costs_in_dollars_are_told_as_dollars() -> None:
    async def main() -> None:
        small, large = FakeEngine("weak"), FakeEngine("strong")
        gate = ScriptedGate({"weak": 30.0, "fine": 80.0})
        async with (
            started(small, large),
            running(
                replace(shown(small, large, (1.0, 10.0)), cost_unit="usd-per-million-tokens"), gate
            ) as router,
        ):
            both = await router.chat()
            small.text = "fine"
            one = await router.chat()
            live = await router.chat("cascadia", stream=True, stream_options={"include_usage": True})
            straight = await router.chat("large")
            state = (await router.client.get("/ui/state?window=all")).json()
            metrics = (await router.client.get("/metrics")).text
        # 13 tokens an answer, at a dollar a million and at ten.
        assert both.headers["x-cascadia-usd"] == "0.000143000"
        assert both.json()["cascadia"]["usd"] == pytest.approx(143e-6)
        assert one.headers["x-cascadia-usd"] == "0.000013000"
        assert '"usd":0.000013' in live.text.replace("1.3e-5", "0.000013")
        assert "x-cascadia-usd" not in straight.headers
        assert state["savings"]["usd"] == {"spent": pytest.approx(169e-6), "alone": pytest.approx(390e-6)}
        figures = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#"))
        assert float(figures['cascadia_cascade_usd_total{stage="large"}']) == pytest.approx(130e-6)
        assert float(figures['cascadia_cascade_usd_total{stage="small"}']) == pytest.approx(39e-6)
        assert float(figures["cascadia_alone_usd_total"]) == pytest.approx(390e-6)

    run(main)


def test_what_an_api_charges_for_reading_and_for_writing_is_told_as_dollars() -> None:
    async def main() -> None:
        own, api = FakeEngine("weak"), FakeEngine("strong")
        prices = {"small": (1.0, 1.0), "large": (2.0, 10.0)}
        async with started(own, api):
            settings = shown(own, api, (None, None))
            priced = tuple(replace(stage, price=prices[stage.name]) for stage in settings.stages)
            async with running(replace(settings, stages=priced), ScriptedGate({"weak": 30.0})) as router:
                both = await router.chat()
                state = (await router.client.get("/ui/state?window=all")).json()
                metrics = (await router.client.get("/metrics")).text
        # Each reads 10 tokens and writes 3.
        assert both.headers["x-cascadia-usd"] == "0.000063000"
        assert state["savings"]["usd"] == {"spent": pytest.approx(63e-6), "alone": pytest.approx(50e-6)}
        figures = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#"))
        assert float(figures['cascadia_cascade_usd_total{stage="large"}']) == pytest.approx(50e-6)
        assert float(figures["cascadia_alone_usd_total"]) == pytest.approx(50e-6)

    run(main)


def test_savings_are_not_told_where_a_cost_is_not_known() -> None:
    async def main() -> None:
        small, large = FakeEngine("fine"), FakeEngine("better")
        gate = ScriptedGate({"fine": 80.0})
        async with started(small, large), running(shown(small, large, (1.0, None)), gate) as router:
            await router.chat()
            assert (await router.client.get("/ui/state")).json()["savings"] is None

    run(main)


def test_a_plan_gives_the_cost_of_a_token_by_the_parameters_that_it_passes_through() -> None:
    planned = plan(
        [
            stage("small", ReplicaGroup("l4", 1, 1, 1, 1.0), model="meta-llama/Llama-3.1-8B-Instruct"),
            stage("large", ReplicaGroup("h100", 1, 1, 1, 1.0), model="org/unheard-of"),
        ],
        POOLS,
        JudgePlan(
            "certainty", "router", None, engine="vllm", quantization=None, max_model_len=0, replicas=()
        ),
    )
    settings = settings_of(planned, {"small": ["http://h:1"], "large": ["http://h:2"]}, "plan.json")
    # 8.03 billion parameters less the embedding's 0.53, which is a look-up.
    assert [one.cost for one in settings.stages] == [pytest.approx(7.50, abs=0.01), None]


def test_only_the_last_decisions_are_kept() -> None:
    async def main() -> None:
        small = FakeEngine()
        async with started(small), running(stages(small)) as router:
            for number in range(45):
                await router.chat("small", headers={"x-request-id": f"r{number}"})
            recent = (await router.client.get("/ui/state")).json()["recent"]
        assert len(recent) == 40
        assert (recent[0]["request_id"], recent[-1]["request_id"]) == ("r44", "r5")

    run(main)


def test_the_files_are_ours_alone_and_the_browser_is_told_to_allow_no_others() -> None:
    async def main() -> None:
        small = FakeEngine()
        async with started(small), running(stages(small)) as router:
            answers = {
                path: await router.client.get(path)
                for path in (
                    "/ui",
                    "/ui/kit.js",
                    "/ui/playground.js",
                    "/ui/page.js",
                    "/ui/page.css",
                    "/ui/icon.svg",
                )
            }
            for path, answer in answers.items():
                assert answer.status_code == 200, path
                policy = answer.headers["content-security-policy"]
                assert policy.startswith("default-src 'none'; script-src 'self'; ")
                assert "unsafe" not in policy
                assert answer.headers["x-content-type-options"] == "nosniff"
                addresses = re.findall(r"https?://[^\s\"'`)]+", answer.text)
                assert set(addresses) <= {"http://www.w3.org/2000/svg"}, path
            page = answers["/ui"].text
            assert "<script>" not in page
            assert " style=" not in page
            assert " onclick" not in page
            named = set(re.findall(r"(?:href|src)=\"(/[^\"]*)\"", page))
            assert named == {"/ui/kit.js", "/ui/playground.js", "/ui/page.js", "/ui/page.css", "/ui/icon.svg"}
            assert "innerHTML" not in "".join(answer.text for answer in answers.values())

    run(main)


def test_where_keys_are_asked_for_the_page_needs_one_that_may_read_metrics() -> None:
    reader, asker = make_key(), make_key()
    keyring = Keyring(
        [
            Key(reader.id, "reader", reader.digest, scopes=frozenset({"metrics"})),
            Key(asker.id, "asker", asker.digest, scopes=frozenset({"inference"})),
        ]
    )

    async def main() -> None:
        small = FakeEngine()
        async with started(small):
            settings = RouterSettings(stages(small), None, health=QUICK, keys=KeySettings(Path("keys.json")))
            async with running(settings, keyring=keyring) as router:
                for path in ("/ui", "/ui/page.js", "/ui/state"):
                    # A browser asks for a password, which is the key.
                    stranger = await router.client.get(path)
                    assert stranger.status_code == 401
                    assert stranger.headers["www-authenticate"].startswith("Basic")
                    assert (await router.client.get(path, auth=("", reader.text))).status_code == 200
                    assert (await router.client.get(path, auth=("", asker.text))).status_code == 403

    run(main)


def test_a_window_that_is_none_is_refused_and_the_page_can_be_left_out() -> None:
    async def main() -> None:
        small = FakeEngine()
        async with started(small):
            async with running(stages(small)) as router:
                wrong = await router.client.get("/ui/state?window=%3Cscript%3E")
                assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "window")
                assert "script" not in wrong.text
            async with running(RouterSettings(stages(small), None, page=False)) as router:
                assert (await router.client.get("/ui")).status_code == 404

    run(main)


def test_a_window_is_what_happened_since_its_first_tick() -> None:
    metrics = Metrics()
    now_s = [100.0]
    history = History(metrics, lambda: now_s[0])
    history.ticks[0] = history.began = tick_of(metrics, 100.0)
    small = metrics.stage("small")
    for value in (1.0, 2.0):
        small.requests.inc()
        small.seconds.observe(value)
        small.escalated("score")
        now_s[0] += 60.0
        history.tick()
    small.requests.inc()
    small.seconds.observe(30.0)
    now_s[0] += 30.0
    minute, whole = history.window(60.0), history.window(None)
    # The last tick that is a minute old is the one at 160 s.
    assert minute.seconds == 90.0
    assert minute.count("stage_requests", "small") == 2
    assert minute.by("stage_escalated", "small") == {"score": 1}
    assert minute.spread(metrics.stage_seconds, "small").total == 32.0
    assert whole.count("stage_requests", "small") == 3
    assert whole.seconds == 150.0
    assert [part.count("stage_requests", "small") for part in history.between()] == [1, 1]


def test_history_is_bounded() -> None:
    history = History(Metrics(), lambda: 0.0)
    for _ in range(3 * KEPT):
        history.tick()
    assert len(history.ticks) == KEPT


def test_a_quantile_lies_evenly_in_its_bucket_and_no_higher_than_the_last_bound() -> None:
    spread = Spread((1.0, 2.0, 4.0))
    assert quantile(spread, 0.5) is None
    for value in (0.5, 1.5, 3.0, 3.5):
        spread.observe(value)
    assert quantile(spread, 0.5) == 2.0
    assert quantile(spread, 0.75) == 3.0
    spread.observe(100.0)
    assert quantile(spread, 0.99) == 4.0


def test_what_was_not_there_before_began_at_zero() -> None:
    metrics = Metrics()
    before = tick_of(metrics, 0.0)
    metrics.stage("new").requests.inc(5)
    assert Window(before, tick_of(metrics, 1.0)).count("stage_requests", "new") == 5
