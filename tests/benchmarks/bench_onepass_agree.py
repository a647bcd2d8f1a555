"""A real worker beside its simulation: `python -m tests.benchmarks.bench_onepass_agree [--rounds 3] [--seconds 12]`.

One engine with four models on a core of its own; router and client on the other. What a batch takes is measured
first, as the router meets it, over HTTP. A policy is solved from that at the 95th percentile; then the same arrivals,
as they were sent, are played by the simulator, each batch taking a time drawn from those that were measured of its
model and size, as in every plan. Others use the machine, and it is not as fast in one minute as in the next: each
model's times are scaled by what the engine says that its passes took during the run, which is told.

Told are latency, lateness and who answered, for Poisson and bursty gaps, of each round and of the one that agrees best.
"""

import argparse
import asyncio
import os
import re
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
import numpy as np

from cascadia.demo.one_pass import OnePassFleet
from cascadia.domain.policy import Policies
from cascadia.files.policies_file import write_policies
from cascadia.onepass.questions import Question
from cascadia.planner.policies.choose import on_workers
from cascadia.planner.policies.played import run_of
from cascadia.planner.policies.residence import Kind
from cascadia.planner.policies.wanted import Wanted
from cascadia.policy.problem import ModelProfile
from tests.benchmarks.bench_onepass import NAMES, _asked, serving, texts

SLO_S = 0.1
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
ACCURACY = dict(zip(NAMES, (77.3, 80.1, 84.0, 84.8), strict=True))
"""As `cascadia engine measure` finds them."""
FEWEST = 20
"""Batches of a model, from which its times in a run are told."""
LOAD = 1.05
"""The rate, of what the most accurate model carries alone: other models must take their part."""
LAWS = {"Poisson": 1.0, "bursty (gamma gaps, shape 0.25)": 0.25}


class Profiles(NamedTuple):
    """Models with what a batch took: counted at its 95th percentile, simulated by the times themselves."""

    models: tuple[ModelProfile, ...]
    http_s: float
    """Of a batch, beside the engine's pass."""


class Answered(NamedTuple):
    """By request: when it was sent, seconds until it was answered, and the model."""

    sent_s: np.ndarray
    latency_s: np.ndarray
    model: list[str]
    passes: dict[str, tuple[float, float, float]]
    """By model: batches, inputs and seconds of the engine's passes."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=12.0)
    asked = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    some = texts()
    rng = np.random.default_rng(5)
    found: dict[str, list[tuple[float, str]]] = {law: [] for law in LAWS}
    for _ in range(asked.rounds):
        with serving(dict.fromkeys(NAMES, 0.0), workers=1) as fleet:
            _apart(fleet, cores)
            profiles = asyncio.run(_profiles(fleet.engines[0].url, some, rng))
        alone = profiles.models[-1].carried_rps(SLO_S)
        print(
            f"{NAMES[-1]} alone carries {alone:.0f} a second, in batches of at most {SLO_S:g} s", flush=True
        )
        for law, shape in LAWS.items():
            rate = LOAD * alone
            gaps = rng.gamma(shape, 1 / (rate * shape), int(rate * asked.seconds))
            policies = _policy(profiles, shape, rate)
            with tempfile.TemporaryDirectory() as name:
                write_policies(policies, Path(name) / "policies.json")
                group = {
                    "policies": str(Path(name) / "policies.json"),
                    "slo_ms": 1e3 * SLO_S,
                    "max_batch": 32,
                }
                with serving(dict.fromkeys(NAMES, 0.0), group=group, workers=1) as fleet:
                    _apart(fleet, cores)
                    real = asyncio.run(_open(fleet, some, np.cumsum(gaps)))
            found[law].append(_beside(policies, profiles, real))
            print(f"{law}, {rate:.0f} a second, {policies.kind}: {found[law][-1][1]}", flush=True)
    for law, rounds in found.items():
        print(f"best of {len(rounds)}, {law}: {min(rounds)[1]}")


def _apart(fleet: OnePassFleet, cores: list[int]) -> None:
    """The engine has the first core to itself; router and client share the last."""
    for pid, core in (
        (fleet.engines[0].pid, cores[0]),
        (fleet.router.pid, cores[-1]),
        (os.getpid(), cores[-1]),
    ):
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), {core})


async def _profiles(url: str, some: list[Question], rng: np.random.Generator, passes: int = 16) -> Profiles:
    at = urlsplit(url)
    reader, writer = await asyncio.open_connection(at.hostname, at.port)
    seconds = np.zeros((len(NAMES), len(SIZES), passes))
    before = _passes(url)
    for turn in range(-1, passes):
        for m, name in enumerate(NAMES):
            for row, size in enumerate(SIZES):
                inputs = [some[i].text for i in rng.integers(len(some), size=size)]
                began_s = time.perf_counter()
                status, _, _ = await _asked(reader, writer, name, inputs)  # type: ignore[arg-type]
                assert status == 200
                if turn >= 0:
                    seconds[m, row, turn] = time.perf_counter() - began_s
    writer.close()
    after = _passes(url)
    batches, _, inside_s = (sum(after[name][at] - before[name][at] for name in NAMES) for at in range(3))
    http_s = max(float(seconds.sum()) * (passes + 1) / passes - inside_s, 0.0) / batches
    every = np.arange(1, SIZES[-1] + 1)

    def profile(name: str, of: np.ndarray) -> ModelProfile:
        counted = np.maximum.accumulate(np.interp(every, SIZES, np.quantile(of, 0.95, axis=1)))
        drawn = np.array([np.interp(every, SIZES, times_s) for times_s in np.sort(of, axis=1).T]).T
        return ModelProfile(name, ACCURACY[name], tuple(counted.tolist()), tuple(map(tuple, drawn.tolist())))

    return Profiles(tuple(profile(name, of) for name, of in zip(NAMES, seconds, strict=True)), http_s)


def _passes(url: str) -> dict[str, tuple[float, float, float]]:
    """Batches, inputs and seconds by model, as the engine counts them."""
    text = httpx.get(f"{url}/metrics", trust_env=False).text

    def told(name: str, model: str) -> float:
        found = re.search(rf'^cascadia_engine_batch_{name}{{model="{model}"}} (\S+)$', text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    return {
        name: (told("size_count", name), told("size_sum", name), told("seconds_sum", name)) for name in NAMES
    }


def _as_in_the_run(profiles: Profiles, real: Answered) -> tuple[tuple[ModelProfile, ...], list[float]]:
    """Times scaled for each model to those of its passes in the run, and by what."""
    found, factors = [], []
    for model in profiles.models:
        batches, inputs, took_s = real.passes[model.name]
        factor = 1.0
        if batches >= FEWEST:
            sizes = np.arange(1, len(model.latency_s) + 1)
            mean_s = np.mean(model.drawn_s, axis=1)
            expected_s = np.interp(inputs / batches, sizes, mean_s) - profiles.http_s
            factor = float(took_s / batches / expected_s)
        drawn_s = tuple(tuple(factor * each for each in times_s) for times_s in model.drawn_s)
        found.append(replace(model, drawn_s=drawn_s))
        factors.append(factor)
    return tuple(found), factors


def _policy(profiles: Profiles, shape: float, rate_rps: float) -> Policies:
    gaps = np.random.default_rng(0).gamma(shape, 1 / (rate_rps * shape), 5_000)
    wanted = Wanted(np.cumsum(gaps), slo_s=SLO_S, late_max=0.01, accuracy_min=None)
    chosen = on_workers("intent", Kind("core", profiles.models, 1), 1, wanted)
    assert chosen is not None
    return chosen.policies


async def _open(fleet: OnePassFleet, some: list[Question], at_s: np.ndarray) -> Answered:
    """Requests at `at_s`, whether or not others are answered."""
    url = urlsplit(fleet.router.url)
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    sent, took, model = np.zeros(len(at_s)), np.zeros(len(at_s)), [""] * len(at_s)

    async def one(number: int) -> None:
        reader, writer = idle.pop() if idle else await asyncio.open_connection(url.hostname, url.port)
        sent[number] = time.perf_counter()
        status, headers, _ = await _asked(reader, writer, "intent", some[number % len(some)].text)
        took[number] = time.perf_counter() - sent[number]
        model[number] = headers.get("x-cascadia-stage", str(status))
        idle.append((reader, writer))

    for _ in range(20):
        await asyncio.gather(*(one(0) for _ in range(8)))
    engine = fleet.engines[0].url
    before = _passes(engine)
    began_s, tasks = time.perf_counter() + 0.6, []
    for number, due_s in enumerate(at_s):
        if (left_s := began_s + due_s - time.perf_counter()) > 0:
            await asyncio.sleep(left_s)
        tasks.append(asyncio.create_task(one(number)))
    await asyncio.gather(*tasks)
    for _, writer in idle:
        writer.close()
    after = _passes(engine)
    passes = {name: tuple(b - a for a, b in zip(before[name], after[name], strict=True)) for name in NAMES}
    return Answered(sent - sent.min(), took, model, passes)  # type: ignore[arg-type]


def _beside(policies: Policies, profiles: Profiles, real: Answered) -> tuple[float, str]:
    """The largest deviation of p50 and p95, over their allowances, and a line on all."""
    order = np.argsort(real.sent_s, kind="stable")
    models, factors = _as_in_the_run(profiles, real)
    run = run_of(policies, models, real.sent_s[order])
    names = dict(enumerate(policies.models))
    skip = len(order) // 10
    simulated, measured = run.latency_s[skip:], real.latency_s[order][skip:]
    off, told = [], []
    for q, allowed in ((0.5, 0.05), (0.95, 0.10)):
        here, there = np.quantile(measured, q), np.quantile(simulated, q)
        off.append(abs(there / here - 1) / allowed)
        told.append(
            f"p{100 * q:.0f} {1e3 * here:.1f} ms, simulated {1e3 * there:.1f} ({there / here - 1:+.1%})"
        )
    late = np.mean(measured > SLO_S), np.mean(simulated > SLO_S)
    told.append(f"late {late[0]:.2%}, simulated {late[1]:.2%}")
    by = [Counter(names[m] for m in run.model[skip:].tolist()), Counter(real.model[i] for i in order[skip:])]
    right = [
        sum(ACCURACY.get(name, 0.0) * count for name, count in each.items()) / len(measured) for each in by
    ]
    told.append(f"accuracy of the models that answered {right[1]:.2f}, simulated {right[0]:.2f}")
    told.append("times scaled by " + ", ".join(f"{factor:.2f}" for factor in factors))
    return max(off), "; ".join(told)


if __name__ == "__main__":
    main()
