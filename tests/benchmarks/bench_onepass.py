"""One-pass models on real engines: `python -m tests.benchmarks.bench_onepass [WHICH...]`, all where none is named.

- cascade: accuracy and compute of the cascade by margin beside its largest model alone, for thresholds that were chosen
  on one half of the texts and measured on the other (CascadeServe, section 6).
- batches: texts a second through the router's batches, beside the same engines' own dynamic batching, in the same run.
- member: the router's CPU time for a member of a batch of up to 16, and for a request that it does not batch.
- chaos: a worker killed in a batch, a poisoned input among 32, a storm of deadlines: each request answered once.
- policies: accuracy and lateness of a policy's table, of fixed models and of gears, on two workers under Poisson and
  bursty arrivals, beside the simulated.

CPU time is counted where it can be, since others use the machine.
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import numpy as np
import yaml

from cascadia.clients.hub.catalogue import model_named, models_folder
from cascadia.clients.hub.fetch import fetch
from cascadia.demo.children import Children
from cascadia.demo.measuring.one_pass import asked
from cascadia.demo.one_pass import OnePassFleet, start_one_pass
from cascadia.demo.stages import cascadia_command
from cascadia.onepass.family import CUTS, ENCODER, SHA256, make_family
from cascadia.onepass.measuring import probabilities
from cascadia.onepass.questions import SOURCE, Question, questions
from cascadia.onepass.runner import Runner
from cascadia.router.openai.pooled import FLOOR

COMPUTE = 0.5
"""Of the largest model's: as much as a cascade may take."""
WEIGHTS = (0.0, 0.3)
"""Tried as `earlier_weight`."""
HALVES = 40
NAMES = tuple(f"intent-{cut}-int8" for cut in CUTS)
MARGINS = (0, 10, 15, 20, 30, 40, 45, 50, 60, 70)


def texts() -> list[Question]:
    found = [one for one in questions(fetch(model_named(SOURCE))) if one.test]
    random.Random(0).shuffle(found)
    return found


def family() -> dict[str, Path]:
    root = models_folder() / f"one-pass-{SHA256[:8]}"
    if not all((root / name / "model.json").is_file() for name in NAMES):
        list(make_family(fetch(model_named(ENCODER)), root, ("classify",), ("int8",)))
    return {name: root / name for name in NAMES}


@contextmanager
def serving(thresholds: Mapping[str, float], **more: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder, Children(Path(folder) / "logs") as children:
        there = family()
        fleet = start_one_pass(
            children, [there[name] for name in thresholds], thresholds, Path(folder), **more
        )
        children.wait(limit_s=120.0)
        yield fleet


def cascade() -> None:
    every = texts()
    runners = {name: Runner.read(folder) for name, folder in family().items()}
    seconds = {name: _cpu_s(runner, every) for name, runner in runners.items()}
    print("CPU ms a text in batches of 16:", {name: round(1e3 * each, 2) for name, each in seconds.items()})
    labels = {label: at for at, label in enumerate(runners[NAMES[0]].model.labels)}
    truth = np.array([labels[one.label] for one in every])
    logs = {name: np.log(np.maximum(probabilities(runner, every), FLOOR)) for name, runner in runners.items()}
    largest = NAMES[-1]
    alone = logs[largest].argmax(axis=1) == truth
    tried = list(_cascades(logs, truth, {name: each / seconds[largest] for name, each in seconds.items()}))
    rng = np.random.default_rng(0)
    half = np.arange(len(every)) % 2 == 0
    for weight in WEIGHTS:
        beside = []
        for chosen in [half, *(rng.random(len(every)) < 0.5 for _ in range(HALVES))]:
            best = _best([one for one in tried if one.weight == weight], chosen)
            beside.append((best.right[~chosen].mean() - alone[~chosen].mean(), best.cost[~chosen].mean()))
        off, cost = np.array(beside[1:]).T
        print(
            f"earlier_weight {weight:g}, chosen on one half and measured on the other, {HALVES} times: "
            f"{100 * off.mean():+.2f} points beside {largest} alone (standard deviation {100 * off.std():.2f}), "
            f"for {cost.mean():.3f} of its compute"
        )
    best = _best(tried, half)
    print(
        f"chosen on the first half: {' > '.join(best.chain)}, margins {best.margins}, earlier_weight {best.weight:g}"
    )
    print(
        f"on the other half: cascade {100 * best.right[~half].mean():.2f} %, {largest} alone "
        f"{100 * alone[~half].mean():.2f} %, compute {best.cost[~half].mean():.3f} of it"
    )
    thresholds = dict(zip(best.chain, (*best.margins, 0.0), strict=True))
    fills = [{"up_to_rps": 1e6, "lengths": dict.fromkeys(best.chain, 16)}]
    group = {"slo_ms": 500, "max_batch": 32, "min_queue": fills, "max_wait_ms": 100}
    kept = [one for one, here in zip(every, half, strict=True) if not here]
    with serving(thresholds, group=group, earlier_weight=best.weight) as fleet:
        for _ in range(2):
            runs = [
                asyncio.run(asked(fleet.router.url, model, kept, lambda: fleet.engines_cpu_s, at_once=64))
                for model in ("cascadia", largest)
            ]
        for run in runs:
            print(f"real engines, {run.model}: {run.accuracy:.2f} %, {run.cpu_ms:.2f} CPU ms a text")
        print(f"compute on real engines: {runs[0].cpu_ms / runs[1].cpu_ms:.3f} of the largest alone")


class _Cascade(NamedTuple):
    """By text: whether the answer is right, and what it took, of the largest model's compute."""

    weight: float
    chain: tuple[str, ...]
    margins: tuple[int, ...]
    right: np.ndarray
    cost: np.ndarray


def _cascades(
    logs: Mapping[str, np.ndarray], truth: np.ndarray, cost: Mapping[str, float]
) -> Iterator[_Cascade]:
    """All that end in the largest model."""
    for weight, size in itertools.product(WEIGHTS, (2, 3, 4)):
        for chain in itertools.combinations(NAMES, size):
            if chain[-1] != NAMES[-1]:
                continue
            pool, margins, right = np.zeros_like(logs[chain[0]]), [], []
            for name in chain:
                pool = weight * pool + logs[name]
                odds = np.exp(pool - pool.max(axis=1, keepdims=True))
                ordered = np.sort(odds / odds.sum(axis=1, keepdims=True), axis=1)
                margins.append(100 * (ordered[:, -1] - ordered[:, -2]))
                right.append(pool.argmax(axis=1) == truth)
            for bars in itertools.product(MARGINS, repeat=size - 1):
                yield _Cascade(weight, chain, bars, *_went(chain, bars, margins, right, cost))


def _went(
    chain: tuple[str, ...],
    bars: tuple[int, ...],
    margins: list[np.ndarray],
    right: list[np.ndarray],
    cost: Mapping[str, float],
) -> tuple[np.ndarray, np.ndarray]:
    pending = np.ones(len(right[0]), bool)
    found, spent = np.zeros(len(pending), bool), np.zeros(len(pending), np.float32)
    for at, name in enumerate(chain):
        spent[pending] += cost[name]
        accepted = pending & (margins[at] >= bars[at]) if at < len(bars) else pending
        found[accepted] = right[at][accepted]
        pending = pending & ~accepted
    return found, spent


def _best(tried: list[_Cascade], part: np.ndarray) -> _Cascade:
    """The most accurate on a part of the texts within the compute."""
    within = [one for one in tried if one.cost[part].mean() <= COMPUTE]
    return max(within, key=lambda one: (one.right[part].mean(), -one.cost[part].mean()))


def _cpu_s(runner: Runner, every: list[Question]) -> float:
    ids = runner.ids([one.text for one in every[:320]], truncate=runner.model.tokens_max)
    runner.forward(ids[:16])
    began_s = time.process_time()
    for at in range(0, 320, 16):
        runner.forward(ids[at : at + 16])
    return (time.process_time() - began_s) / 320


def batches() -> None:
    """The same engines, the same texts, in turns."""
    some = texts()[:1200]
    name = NAMES[0]
    with serving({name: 0.0}, group={"slo_ms": 1000, "max_batch": 32}) as fleet:
        urls = {"router's batches": fleet.router.url, "engines' own": None}
        figures: dict[str, list[tuple[float, float]]] = {way: [] for way in urls}
        for _ in range(3):
            for way, url in urls.items():
                figures[way].append(asyncio.run(_flood(fleet, name, some, url)))
        for way, found in figures.items():
            rates, costs = zip(*found, strict=True)
            print(f"{way}: {np.median(rates):,.0f} texts/s, {np.median(costs):.3f} engines' CPU ms a text")
        ratio = np.median([a[0] / b[0] for a, b in zip(*figures.values(), strict=True)])
        print(f"throughput of the router's batches, of the engines' own: {ratio:.2f}")


def member() -> None:
    some, name = texts()[:1500], NAMES[0]
    ways = {"in batches of at most 16": {"slo_ms": 1000, "max_batch": 16}, "not batched": None}
    costs = {}
    for way, group in ways.items():
        with serving({name: 0.0}, group=group) as fleet:
            asyncio.run(_flood(fleet, name, some[:300], fleet.router.url))
            found = []
            for _ in range(3):
                before_s = fleet.router.cpu_s
                asyncio.run(_flood(fleet, name, some, fleet.router.url))
                found.append(1e6 * (fleet.router.cpu_s - before_s) / len(some))
            costs[way] = float(np.median(found))
            metrics = httpx.get(f"{fleet.router.url}/metrics", trust_env=False).text
            sizes = [line for line in metrics.splitlines() if "batch_size_" in line and "bucket" not in line]
            print(f"{way}: {costs[way]:.0f} µs of the router's CPU a request; {sizes}")
    batched, single = costs.values()
    print(f"a member costs {batched - single:+.0f} µs beyond a request that is not batched")


async def _flood(
    fleet: OnePassFleet, model: str, some: list[Question], url: str | None
) -> tuple[float, float]:
    """Texts a second with 128 requests under way, and CPU ms of the engines for each; `url` None: to the engines
    themselves in turn."""
    waiting = list(some)
    before_s, began_s = fleet.engines_cpu_s, time.perf_counter()

    async def one(number: int) -> None:
        at = urlsplit(url or fleet.engines[number % len(fleet.engines)].url)
        reader, writer = await asyncio.open_connection(at.hostname, at.port)
        while waiting:
            await _asked(reader, writer, model, waiting.pop().text)
        writer.close()

    await asyncio.gather(*(one(number) for number in range(128)))
    spent_s = fleet.engines_cpu_s - before_s
    return len(some) / (time.perf_counter() - began_s), 1e3 * spent_s / len(some)


async def _asked(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, model: str, text: str, **more: Any
) -> tuple[int, dict[str, str], bytes]:
    """One exchange, by hand: a client's CPU time would be most of what is measured on two cores."""
    body = json.dumps({"model": model, "input": text} | more).encode()
    writer.write(b"POST /v1/classify HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:-2])}
    content = await reader.readexactly(int(headers["content-length"]))
    return int(head[0].split()[1]), headers, content


def chaos() -> None:
    some = texts()
    with serving(dict.fromkeys(NAMES[:2], 0.0), group={"slo_ms": 2000, "max_batch": 32}) as fleet:
        print("poisoned:", asyncio.run(_poisoned(fleet, some[:31])))
        print("deadlines:", asyncio.run(_storm(fleet, some[:300])))
        print("killed:", asyncio.run(_killed(fleet, some[:400])))


async def _sent(client: httpx.AsyncClient, inputs: list[str], **more: Any) -> list[httpx.Response]:
    body = {"model": NAMES[1]} | more
    return await asyncio.gather(*(client.post("/v1/classify", json=body | {"input": one}) for one in inputs))


def _told(replies: list[httpx.Response]) -> str:
    counts = Counter(reply.status_code for reply in replies)
    ids = [reply.json()["id"] for reply in replies if reply.status_code == 200]
    return (
        f"{len(replies)} requests, by status {dict(counts)}, answers with an id of their own: {len(set(ids))}"
    )


async def _poisoned(fleet: OnePassFleet, some: list[Question]) -> str:
    """One input that is longer than the model reads, among 31 that are not."""
    async with httpx.AsyncClient(base_url=fleet.router.url, timeout=60, trust_env=False) as client:
        inputs = [one.text for one in some]
        inputs.insert(13, "word " * 900)
        replies = await _sent(client, inputs)
    return _told(replies) + f"; the poisoned one: {replies[13].status_code}"


async def _storm(fleet: OnePassFleet, some: list[Question]) -> str:
    async with httpx.AsyncClient(base_url=fleet.router.url, timeout=60, trust_env=False) as client:
        early = asyncio.create_task(_sent(client, [one.text for one in some], deadline_ms=5))
        late = await _sent(client, [one.text for one in some[:50]])
        return f"{_told(await early)}; without deadline beside them: {_told(late)}"


async def _killed(fleet: OnePassFleet, some: list[Question]) -> str:
    async with httpx.AsyncClient(base_url=fleet.router.url, timeout=60, trust_env=False) as client:
        sent = asyncio.create_task(_sent(client, [one.text for one in some]))
        await asyncio.sleep(0.25)
        pid = fleet.engines[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        return _told(await sent)


SLO_S, RATE_RPS, PLAYED_S = 0.15, 250.0, 8.0


def policies() -> None:
    """Deadlines of 150 ms, two workers with four models each. The latency table is measured first, beside whatever else
    this machine does: what it says and what the run meets may differ by that."""
    there, some = family(), texts()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = cascadia_command("engine", "measure", *map(str, there.values()), "--passes", "20", "--json")
        command += ["--out", str(folder / "latency.json")]
        subprocess.run(command, capture_output=True, check=True, timeout=300)
        for law, shape in (("Poisson", 1.0), ("bursty (gamma gaps, shape 0.25)", 0.25)):
            table = _policy(folder, shape)
            policy = json.loads(table.read_text())
            expected = policy["levels"][-1]["expected"]
            print(
                f"{law}, {RATE_RPS:g} a second; kind {policy['kind']}, queue {policy['queue']}; expected: {expected}"
            )
            gaps = np.random.default_rng(3).gamma(shape, 1 / (RATE_RPS * shape), int(RATE_RPS * PLAYED_S))
            group = {"policies": str(table), "slo_ms": 1e3 * SLO_S, "max_batch": 32}
            thresholds = dict(zip(NAMES, (50.0, 60.0, 10.0, 0.0), strict=True))
            with serving(thresholds, group=group) as fleet:
                for model in ("intent", *NAMES, "cascadia"):
                    print(f"  {model}: {asyncio.run(_played_open(fleet, model, some, np.cumsum(gaps)))}")


def _policy(folder: Path, shape: float) -> Path:
    spec = {
        "stages": [{"name": name, "group": "intent"} for name in NAMES],
        "latency": "latency.json",
        "workers": [{"most": 2}],
        "workload": {"rate_rps": RATE_RPS, "gap_shape": shape, "requests": 20_000},
        "objective": {"maximize": "quality", "latency_max_s": SLO_S, "late_max": "5%"},
    }
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec))
    out = folder / f"policies-{shape:g}"
    done = subprocess.run(
        cascadia_command("policy", str(folder / "spec.yaml"), "--out", str(out), "--force"),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    print(done.stdout.strip() or done.stderr.strip())
    done.check_returncode()
    return out / "policies.json"


async def _played_open(fleet: OnePassFleet, model: str, some: list[Question], at_s: np.ndarray) -> str:
    """Requests at `at_s`, whether or not others are answered."""
    url = urlsplit(fleet.router.url)
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    found: list[tuple[float, bool, str]] = []

    async def one(text: Question) -> None:
        began_s = time.perf_counter()
        reader, writer = idle.pop() if idle else await asyncio.open_connection(url.hostname, url.port)
        status, headers, content = await _asked(reader, writer, model, text.text)
        idle.append((reader, writer))
        right = status == 200 and json.loads(content)["data"][0]["label"] == text.label
        found.append((time.perf_counter() - began_s, right, headers.get("x-cascadia-stage", str(status))))

    began_s, tasks = time.perf_counter(), []
    for at, due_s in enumerate(at_s):
        await asyncio.sleep(max(0.0, began_s + due_s - time.perf_counter()))
        tasks.append(asyncio.create_task(one(some[at % len(some)])))
    await asyncio.gather(*tasks)
    for _, writer in idle:
        writer.close()
    late = [seconds > SLO_S for seconds, _, _ in found]
    in_time = [right for seconds, right, _ in found if seconds <= SLO_S]
    by = {name: round(count / len(found), 2) for name, count in Counter(stage for *_, stage in found).items()}
    right = 100 * float(np.mean(in_time)) if in_time else 0.0
    p50_s, p95_s = np.quantile([seconds for seconds, *_ in found], [0.5, 0.95])
    return (
        f"right in time {right:.1f} %, late {100 * np.mean(late):.1f} %, "
        f"p50 {1e3 * p50_s:.0f} ms, p95 {1e3 * p95_s:.0f} ms, by {by}"
    )


def main() -> None:
    parts = {"cascade": cascade, "batches": batches, "member": member, "chaos": chaos, "policies": policies}
    parser = argparse.ArgumentParser(description="one-pass models on real engines")
    parser.add_argument("which", nargs="*", help=f"of {', '.join(parts)}; default: all")
    which = parser.parse_args().which
    if unknown := sorted(set(which) - set(parts)):
        parser.error(f"no part {unknown[0]!r}: choose from {', '.join(parts)}")
    for name in which or parts:
        print(f"== {name}")
        parts[name]()


if __name__ == "__main__":
    main()
