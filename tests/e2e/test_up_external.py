"""`cascadia up` with a last stage, or a judge, that is somebody else's API, here one on loopback that wants a key."""

import asyncio
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from cascadia.clients.processes.guard import descendants
from cascadia.clients.processes.ports import free_port
from cascadia.domain.plan import Plan
from cascadia.files.plan_file import write_plan
from cascadia.testing.engines import FakeEngine
from cascadia.testing.plans import FRONTIER_API
from tests.e2e.commands import PROGRAM, told
from tests.unit.controller.machine import ENGINE, two_stages

KEY = "sk-nobody-else-has-it"
LIMIT_S = 120


def behind_an_api(url: str, per_minute: int) -> Plan:
    """One replica of ours, whose certainty never reaches its threshold, and behind it the API."""
    api = replace(FRONTIER_API, base_url=url, requests_per_minute=per_minute)
    made = two_stages(1, 1)
    first, last = made.stages
    away = replace(last, model="any-name", engine="external", replicas=(), external=api)
    return replace(made, stages=(first, away), thresholds=(101.0,), gears=())


@contextmanager
def serving(api: FakeEngine) -> Iterator[None]:
    """The API meanwhile, on a loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(api.start(), loop).result(LIMIT_S)
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(api.stop(), loop).result(LIMIT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LIMIT_S)
        loop.close()


def attempt(folder: Path, environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [str(PROGRAM), *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S
    )


def test_the_fleet_asks_the_api_with_its_key_within_its_limit_and_leaves_it_alone(tmp_path: Path) -> None:
    port, api = free_port(), FakeEngine("from the API")
    engine = {"small": {"command": ["{python}", str(ENGINE), "{port}"], "drain_s": 5}}
    router = {"port": port, "limits": {"queue_s": 0.5}}
    (tmp_path / "local.yaml").write_text(json.dumps({"stages": engine, "router": router}))
    up = ("up", "plan.json", "--engines", "local.yaml", "--detach")
    keyless = {name: value for name, value in os.environ.items() if name != "FRONTIER_KEY"}
    keyed = {**keyless, "FRONTIER_KEY": KEY}
    url = f"http://127.0.0.1:{port}"

    def ask(model: str) -> httpx.Response:
        body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
        return httpx.post(f"{url}/v1/chat/completions", json=body, timeout=30, trust_env=False)

    with serving(api):
        write_plan(behind_an_api(api.url, 2), tmp_path / "plan.json")
        without = attempt(tmp_path, keyless, *up)
        assert (without.returncode, without.stderr.count("\n")) == (2, 1)
        assert "the variable FRONTIER_KEY is not set" in without.stderr
        pid = told(tmp_path, *up, env=keyed)["pid"]
        try:
            said = attempt(tmp_path, keyed, "status").stdout
            assert f"stage large is elsewhere: {api.url}, at most 2 requests a minute" in said
            answers = [ask("cascadia"), ask("large")]
            assert [each.json()["choices"][0]["message"]["content"] for each in answers] == [api.text] * 2
            assert ask("large").status_code in (429, 503), "the third within the minute"
            assert len(api.requests) == 2
            assert all(body["model"] == "any-name" for body in api.requests)
            assert all(f"Bearer {KEY}" in head for head in api.heads)
            spent = next(
                float(line.rsplit(" ", 1)[1])
                for line in httpx.get(f"{url}/metrics", trust_env=False).text.splitlines()
                if line.startswith('cascadia_cascade_usd_total{stage="large"}')
            )
            # 10 tokens read and 3 written, at $2.50 and $10 a million; who asked for the stage by name is no cascade.
            assert abs(spent - 55e-6) < 1e-9
            written = [path for path in tmp_path.rglob("*") if path.is_file()]
            assert not any(KEY.encode() in path.read_bytes() for path in written)
            lines = [Path(f"/proc/{each}/cmdline").read_bytes() for each in (pid, *descendants(pid))]
            assert not any(KEY.encode() in line for line in lines)
        finally:
            told(tmp_path, "down", env=keyed)
        assert httpx.get(f"{api.url}/v1/models", trust_env=False).status_code == 200
    gone = attempt(tmp_path, keyed, *up)
    assert (gone.returncode, gone.stderr.count("\n")) == (2, 1)
    assert f"stage large: {api.url} cannot be reached" in gone.stderr


def test_a_judge_elsewhere_is_asked_with_its_key_and_decides(tmp_path: Path) -> None:
    port, judge = free_port(), FakeEngine("2")
    engines = {
        name: {"command": ["{python}", str(ENGINE), "{port}"], "drain_s": 5} for name in ("small", "large")
    }
    asked = {"url": "URL", "health_path": None, "api_key_env": "JUDGE_KEY"}
    told_of_judge = {"kind": "llm", "model": "any-judge", "replicas": [asked]}
    file = {"stages": engines, "router": {"port": port, "judge": told_of_judge}}
    up = ("up", "plan.json", "--engines", "local.yaml", "--detach")
    keyless = {name: value for name, value in os.environ.items() if name != "JUDGE_KEY"}
    keyed = {**keyless, "JUDGE_KEY": KEY}
    made = two_stages(1, 1)
    plan = replace(made, judge=replace(made.judge, kind="llm", placement="external", model="any-judge"))
    with serving(judge):
        (tmp_path / "local.yaml").write_text(json.dumps(file).replace("URL", judge.url))
        write_plan(plan, tmp_path / "plan.json")
        without = attempt(tmp_path, keyless, *up)
        assert (without.returncode, without.stderr.count("\n")) == (2, 1)
        assert "JUDGE_KEY is not set" in without.stderr
        told(tmp_path, *up, env=keyed)
        try:
            assert f"judge is elsewhere: {judge.url}\n" in attempt(tmp_path, keyed, "status").stdout
            by = []
            for text, score in (("hello", "2"), ("and again", "9")):
                judge.text = score
                body: dict[str, Any] = {
                    "model": "cascadia",
                    "messages": [{"role": "user", "content": text}],
                }
                url = f"http://127.0.0.1:{port}/v1/chat/completions"
                answer = httpx.post(url, json=body, timeout=30, trust_env=False)
                assert answer.status_code == 200
                by.append(answer.headers["x-cascadia-stage"])
            assert by == ["large", "small"]
            assert len(judge.requests) == 2
            assert {body["model"] for body in judge.requests} == {"any-judge"}
            assert all(f"Bearer {KEY}" in head for head in judge.heads)
            written = [path for path in tmp_path.rglob("*") if path.is_file()]
            assert not any(KEY.encode() in path.read_bytes() for path in written)
        finally:
            told(tmp_path, "down", env=keyed)
    gone = attempt(tmp_path, keyed, *up)
    assert (gone.returncode, gone.stderr.count("\n")) == (2, 1)
    assert f"judge: {judge.url} cannot be reached" in gone.stderr
