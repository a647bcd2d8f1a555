"""Moving a fleet of real engines under constant load: failed requests, and latency during the moves beside that before.

    python -m tests.benchmarks.bench_controller_move [--requests 5000] [--engine llama|little] [--seconds 200]

Three replicas, 1 + 2 to 2 + 1 and back again with another threshold and another embedding judge each time, in three
ways in turn: undisturbed; one replica, or the judge, killed with SIGKILL at a random moment (requests go to the cascade
alone then: who asks for a stage whose only replica is killed cannot be answered); the process that moves killed with
SIGKILL at each of its steps in turn and followed by another. Exits with 1 where a request failed, or where p95 during
undisturbed moves is over twice that before. What each sort of step took, at the median, goes to standard error.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import numpy as np

from cascadia.clients.local_guard import descendants
from cascadia.clients.local_ports import free_port
from cascadia.demo.stages import HEAD
from cascadia.planner.plan_file import write_plan
from tests.benchmarks.report_table import markdown
from tests.e2e.engine_commands import llama_command
from tests.e2e.test_up import on_cores
from tests.unit.controller.machine import ENGINE, NO_GPU_JUDGE

PROGRAM = str(Path(sys.executable).with_name("cascadia"))
MOVER = """
import asyncio, sys
from pathlib import Path
from cascadia.controller.backend import move
from cascadia.controller.local_file import read_local
from cascadia.controller.local_plans import LocalPlans
plans = LocalPlans(Path(sys.argv[1]), read_local(Path(sys.argv[2])))
note = lambda step: print(step, flush=True)
asyncio.run(move(plans.backend, plans.desired(Path(sys.argv[3]), {}), note=note))
"""
WAYS = ("undisturbed", "a replica killed", "the mover killed")
CONNECTIONS = 4
MOST_STARTS = 4
JUDGED = {"one-two.json": (1, 2, 5.0, "100"), "two-one.json": (2, 1, 95.0, "0")}
"""Replicas of both stages, the threshold, and what the little judge scores everything with."""
SETTLE_S = 5.0


Steps = dict[str, list[float]]
"""By sort of step, how long each took, seconds; `look` is what comes before the first."""


@dataclass(slots=True)
class Load:
    """Answers so far: when, after how long, and with which status (0: none)."""

    at_s: list[float] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    status: list[int] = field(default_factory=list)

    def p95_ms(self, spans: list[tuple[float, float]]) -> float:
        at, took = np.array(self.at_s), np.array(self.took_s)
        inside = np.zeros(len(at), bool)
        for begin, end in spans:
            inside |= (at >= begin) & (at < end)
        return float(np.quantile(took[inside], 0.95) * 1e3) if inside.any() else float("nan")


async def ask(client: httpx.AsyncClient, load: Load, stop: asyncio.Event, models: tuple[str, ...]) -> None:
    bodies = [
        {"model": model, "messages": [{"role": "user", "content": "Say yes."}], "max_tokens": 1}
        for model in models
    ]
    while not stop.is_set():
        for body in bodies:
            began_s = time.monotonic()
            status = 0
            with suppress(httpx.HTTPError):
                status = (await client.post("/v1/chat/completions", json=body)).status_code
            load.at_s.append(began_s)
            load.took_s.append(time.monotonic() - began_s)
            load.status.append(status)


@asynccontextmanager
async def under_load(url: str, load: Load, models: tuple[str, ...]) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with httpx.AsyncClient(base_url=url, timeout=120, trust_env=False) as client:
        asking = [asyncio.create_task(ask(client, load, stop, models)) for _ in range(CONNECTIONS)]
        yield
        stop.set()
        await asyncio.gather(*asking)


async def move(folder: Path, plan: str, took_s: Steps, kill_at: int | None = None) -> bool:
    """One mover's life; False where it was killed at its `kill_at`th step. `took_s` by sort of step: it says each as it
    begins."""
    local = folder / f"local-{plan}"
    began_s, sort = time.monotonic(), "look"
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", MOVER, str(folder / "cascadia-run"), str(local), str(folder / plan),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    steps = 0
    while line := await child.stdout.readline():
        took_s.setdefault(sort, []).append(time.monotonic() - began_s)
        began_s, sort = time.monotonic(), line.decode().split()[0]
        if steps == kill_at:
            child.kill()
        steps += 1
    code = await child.wait()
    took_s.setdefault(sort, []).append(time.monotonic() - began_s)
    if code not in (0, -signal.SIGKILL):
        raise RuntimeError(f"the mover ended with {code}")
    return code == 0


def kill_one(folder: Path, rng: random.Random) -> None:
    """An engine's own process, whichever replica it is of; none so often that the fleet gives it up."""
    told = json.loads(run(folder, "status"))
    guards = [r["pid"] for r in told["replicas"] if r["state"] == "ready" and r["starts"] < MOST_STARTS]
    for pid in descendants(rng.choice(guards))[:1]:
        os.kill(pid, signal.SIGKILL)


async def one_way(folder: Path, way: str, plan: str, round_: int, rng: random.Random, took_s: Steps) -> None:
    if way == WAYS[2]:
        # Each follower is killed a step later, so that all are hit over the rounds.
        if not await move(folder, plan, took_s, kill_at=round_ % 8):
            await move(folder, plan, took_s)
        return
    moving = asyncio.create_task(move(folder, plan, took_s))
    if way == WAYS[1]:
        await asyncio.sleep(rng.uniform(0.0, 3.0))
        await asyncio.to_thread(kill_one, folder, rng)
    await moving


def run(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [PROGRAM, *arguments, "--json"], cwd=folder, capture_output=True, text=True, timeout=300
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def prepare(folder: Path, engine: str) -> None:
    little = ["{python}", str(ENGINE), "{port}"]
    command = little if engine == "little" else llama_command("{port}", 4, 1024)
    stage = {"command": command, "model": "smol", "drain_s": 60, "max_concurrency": 4}
    router = {"port": free_port()}
    for name, (small, large, threshold, score) in JUDGED.items():
        head = folder / f"head-{name}"
        shutil.copyfile(HEAD, head)
        judge = replace(NO_GPU_JUDGE, kind="embedding", model=str(head))
        write_plan(replace(on_cores(small, large, threshold), judge=judge), folder / name)
        stages = {"small": stage, "large": stage}
        if engine == "little":
            stages["judge"] = {"command": [*little, "--score", score]}
        (folder / f"local-{name}").write_text(json.dumps({"stages": stages, "router": router}))


async def measure(
    folder: Path, way: str, requests: int, seconds: float, took_s: Steps
) -> tuple[Load, float, float, int]:
    """The load's answers, p95 before and during the moves in ms, and how many moves there were."""
    url = json.loads(run(folder, "status"))["router"]["url"]
    load, rng, spans = Load(), random.Random(1), []
    end_s = time.monotonic() + seconds
    models = ("cascadia",) if way == WAYS[1] else ("cascadia", "small", "large")
    async with under_load(url, load, models):
        await asyncio.sleep(SETTLE_S)
        calm = [(time.monotonic() - SETTLE_S, time.monotonic())]
        while len(load.status) < requests and time.monotonic() < end_s:
            began_s = time.monotonic()
            await one_way(
                folder, way, ("two-one.json", "one-two.json")[len(spans) % 2], len(spans), rng, took_s
            )
            spans.append((began_s, time.monotonic()))
            await asyncio.sleep(2.0)
            calm.append((time.monotonic() - 2.0, time.monotonic()))
        if len(spans) % 2:
            await move(folder, "one-two.json", {})
    return load, load.p95_ms(calm), load.p95_ms(spans), len(spans)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=5000, help="of each way")
    parser.add_argument("--seconds", type=float, default=600.0, help="of each way at most")
    parser.add_argument("--engine", choices=("llama", "little"), default="llama")
    parser.add_argument("--way", choices=WAYS)
    options = parser.parse_args()
    rows, good = [], True
    # Where a time limit ends this, the fleet is ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, options.engine)
        run(folder, "up", "one-two.json", "--engines", "local-one-two.json", "--detach")
        try:
            for way in [options.way] if options.way else WAYS:
                took_s: Steps = {}
                load, calm, moving, moves = asyncio.run(
                    measure(folder, way, options.requests, options.seconds, took_s)
                )
                failed = sum(status != 200 for status in load.status)
                good &= failed == 0 and (way != WAYS[0] or moving <= 2 * calm)
                shown = f"{len(load.status):,}", str(failed), str(moves), f"{calm:.0f}", f"{moving:.0f}"
                rows.append((way, *shown, f"{moving / calm:.2f}"))
                print(rows[-1], file=sys.stderr, flush=True)
                for sort, seconds in took_s.items():
                    median_s = statistics.median(seconds)
                    print(f"{sort}: {len(seconds)}, {median_s:.2f} s", file=sys.stderr, flush=True)
        finally:
            run(folder, "down")
    print(
        markdown(("moves", "requests", "failed", "moves", "p95 between, ms", "p95 during, ms", "ratio"), rows)
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
