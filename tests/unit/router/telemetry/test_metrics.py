"""What /metrics says: every figure that the documentation names and no other, and the right ones."""

import asyncio
import csv
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from cascadia.router.access.keys import Keyring
from cascadia.router.server.app import Router
from cascadia.router.settings.model import GearSettings, KeySettings, RouterSettings
from cascadia.router.telemetry.counters import Spread
from cascadia.testing.engines import FakeEngine, completion, send, started
from cascadia.testing.routers import QUICK, Running, ScriptedGate, run, running, stages, until
from tests.data import ROOT

PAGE = ROOT / "docs/reference/router.md"


class Figures:
    """A scrape. Names as Prometheus has them, less `cascadia_`."""

    def __init__(self, text: str) -> None:
        self.labels: dict[str, set[str]] = {}
        self.values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for family in text_string_to_metric_families(text):
            if not family.name.startswith("cascadia_"):
                continue
            name = family.name.removeprefix("cascadia_") + ("_total" if family.type == "counter" else "")
            self.labels[name] = set()
            for sample in family.samples:
                if sample.name.endswith("_created"):
                    continue
                self.labels[name] |= set(sample.labels) - {"le"}
                key = sample.name.removeprefix("cascadia_"), frozenset(sample.labels.items())
                self.values[key] = sample.value

    def __call__(self, name: str, **labels: str) -> float:
        return self.values[name, frozenset(labels.items())]


async def scraped(router: Running) -> Figures:
    return Figures((await router.client.get("/metrics")).text)


def documented(page: Path = PAGE) -> dict[str, set[str]]:
    """Labels of each metric in the table beside `page`, which names them all and no other."""
    section = page.read_text(encoding="utf-8").partition("\n## Metrics\n")[2].partition("\n## ")[0]
    prefix = re.findall(r"Names begin with `(\w+_)`", section)[0]
    with (page.parent / "data" / f"{page.stem}-metrics.csv").open(encoding="utf-8", newline="") as text:
        told = {
            row["metric"].removeprefix(prefix): set(row["labels"].split()) for row in csv.DictReader(text)
        }
    lists = "\n".join(line for line in section.splitlines() if line.startswith("- "))
    assert sorted(re.findall(r"`(\w+)`", lists)) == sorted(told)
    return told


def two(small: FakeEngine, large: FakeEngine) -> RouterSettings:
    configured = stages(small, large, thresholds=(50.0,))
    costly = tuple(replace(s, cost=c) for s, c in zip(configured, (1.0, 8.0), strict=True))
    return RouterSettings(costly, None, health=QUICK)


def test_the_documentation_names_every_metric_with_its_labels_and_no_other(tmp_path: Path) -> None:
    async def main() -> None:
        small, large = FakeEngine("weak"), FakeEngine("strong")
        async with started(small, large):
            gate = ScriptedGate({"weak": None})
            async with running(two(small, large), gate, heartbeat_s=5.0) as router:
                await router.chat(stream=True)
                await small.stop()
                await router.chat("small")
                await until(lambda: router.router.stages[0].replicas[0].ill == "refused")
                found = await scraped(router)
            keys = KeySettings(tmp_path / "keys", redis_url="redis://127.0.0.1:1")
            # As it is before its first request: what keys and Redis are counted by is there.
            gears = (GearSettings(0, None, ("small",)),)
            plain = two(small, large)
            timed = tuple(replace(stage, balancing="matching") for stage in plain.stages)
            guarded = Router(replace(plain, stages=timed, keys=keys, gears=gears), keyring=Keyring([]))
            await guarded.start()
            named = set(Figures(generate_latest(guarded.metrics.registry).decode()).labels)
            await guarded.stop()
        written = documented()
        assert set(found.labels) | named == set(written)
        assert named - set(found.labels) == {
            *("key_requests_total", "key_refused_total", "key_tokens_total", "shared_limit_failures_total"),
            *("key_usd_total", "spend_failures_total"),
            *("gear", "capacity", "fleet_in_flight"),
            *("stage_foresees", "latency_error", "length_explained", "matches_total", "slow_matches_total"),
        }
        # What has not happened has no labels yet.
        assert {name: labels for name, labels in found.labels.items() if labels} == {
            name: written[name] for name, labels in found.labels.items() if labels
        }
        quiet = {name for name, labels in found.labels.items() if not labels and written[name]}
        assert quiet == {
            *("gear_requests_total", "hedges_total", "unexamined_total"),
            *("stage_exits_total", "stage_exit_evidence_total"),
        }

    run(main)


def test_a_cascade_is_told_by_stage_with_the_reason_why_it_went_on() -> None:
    async def main() -> None:
        small, large = FakeEngine("weak"), FakeEngine("strong")
        async with started(small, large):
            gate = ScriptedGate({"weak": 37.0, "fine": 80.0})
            async with running(two(small, large), gate) as router:
                await router.chat()
                small.text = "fine"
                await router.chat()
                await router.chat("large")
                found = await scraped(router)
        assert found("stage_requests_total", stage="small") == 2
        assert found("stage_escalated_total", stage="small", reason="score") == 1
        assert found("stage_accepted_total", stage="small") == 1
        assert found("stage_accepted_total", stage="large") == 1
        assert found("stage_score_bucket", stage="small", le="35.0") == 0
        assert found("stage_score_bucket", stage="small", le="40.0") == 1
        assert found("requests_total", model="cascadia", status="200") == 2
        assert found("request_ttft_seconds_count", model="cascadia") == 2
        assert found("stage_threshold", stage="small") == 50
        assert found("stage_queue_seconds_count", stage="large") == 2
        assert found("replica_state", stage="small", replica="small-0", state="ready") == 1
        assert found("replica_state", stage="small", replica="small-0", state="down") == 0
        assert found("ready") == 1
        # 13 tokens an answer: three for the cascade, two of which clients got; the straight one is not the cascade's.
        assert found("cascade_tokens_total", stage="small") == 26
        assert found("cascade_tokens_total", stage="large") == 13
        assert found("answer_tokens_total") == 26
        assert found("stage_cost", stage="large") == 8

    run(main)


@pytest.mark.parametrize("asked", [True, False])
def test_live_streams_have_a_first_part_and_a_time_per_token(asked: bool) -> None:
    """Engines tell the tokens, whether the client asks for that or not."""

    async def main() -> None:
        small, large = FakeEngine("abc"), FakeEngine("abcdef")
        async with started(small, large), running(stages(small, large)) as router:
            more: dict[str, Any] = {"stream_options": {"include_usage": True}} if asked else {}
            await router.chat("large", stream=True, **more)
            found = await scraped(router)
        assert found("stage_ttft_seconds_count", stage="large") == 1
        assert found("stage_tpot_seconds_count", stage="large") == 1
        assert found("stage_tokens_total", stage="large", direction="output") == 3

    run(main)


def test_held_streams_have_them_too() -> None:
    async def main() -> None:
        small, large = FakeEngine("abc"), FakeEngine("abcdef")
        async with started(small, large), running(two(small, large), ScriptedGate({"abc": 90.0})) as router:
            await router.chat(stream=True)
            found = await scraped(router)
        assert found("stage_ttft_seconds_count", stage="small") == 1
        assert found("stage_tpot_seconds_count", stage="small") == 1

    run(main)


def test_who_waits_for_a_replica_is_seen_while_he_waits_and_after() -> None:
    async def main() -> None:
        go = asyncio.Event()

        async def wait(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
            await go.wait()
            send(writer, 200, completion("hello"))

        small = FakeEngine(answer=wait)
        async with started(small):
            (only,) = stages(small)
            narrow = replace(only, replicas=(replace(only.replicas[0], max_concurrency=1),))
            async with running((narrow,)) as router:
                both = asyncio.gather(router.chat("small"), router.chat("small"))
                await until(lambda: len(router.router.stages[0].wait_queue) == 1)
                during = await scraped(router)
                go.set()
                await both
                after = await scraped(router)
        assert during("stage_queue_length", stage="small") == 1
        assert during("stage_in_flight", stage="small") == 1
        assert during("replica_in_flight", stage="small", replica="small-0") == 1
        assert during("in_flight") == 2
        assert after("stage_queue_length", stage="small") == 0
        assert after("stage_queue_seconds_count", stage="small") == 2
        assert after("stage_queue_seconds_bucket", stage="small", le="0.001") == 1

    run(main)


def test_names_that_clients_make_up_do_not_become_labels() -> None:
    async def main() -> None:
        small = FakeEngine()
        async with started(small), running(stages(small)) as router:
            for number in range(5):
                await router.chat(f"made-up-{number}")
            found = await scraped(router)
        assert found("requests_total", model="other", status="404") == 5
        assert not any("made-up" in str(key) for key in found.values)

    run(main)


def test_a_value_on_a_bound_is_in_the_bucket_below_it() -> None:
    spread = Spread((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        spread.observe(value)
    assert spread.counts == [2, 1, 1]
    assert (spread.count, spread.total) == (4, 12.0)
