"""Unequal engines of this machine behind the router: llama.cpp, one of two stopped for two thirds of the time.

    python -m tests.benchmarks.bench_unequal_engines [--requests 24] [--rounds 2]

Two engines with the demo's small model serve as replicas of one stage, one request at a time each; answers have 8 or
64 tokens. Each rule is asked the same requests at the same times, rule after rule, round after round: what else runs on
the machine falls on all of them. Times of each engine are learnt from requests to it alone, and the same rules are
simulated with them. Printed: requests a second and p95, measured beside predicted.
"""

import argparse
import asyncio
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import httpx
import numpy as np

from cascadia.clients.hub.catalogue import model_named
from cascadia.clients.hub.fetch import fetch
from cascadia.clients.processes.ports import free_port
from cascadia.demo.children import Children
from cascadia.demo.stages import STAGES, engine_command
from cascadia.dispatch.earliest_finish import EarliestFinish
from cascadia.dispatch.latency_model import Coefficients, LatencyModel, Seen
from cascadia.dispatch.matching import Matching
from cascadia.dispatch.output_length import FEWEST, OutputLength
from cascadia.dispatch.simulated import Known, SimulatedMatching
from cascadia.router.settings.model import Balancing, Health, ReplicaSettings, RouterSettings, StageSettings
from cascadia.testing.routers import Running, run, running
from tests.benchmarks.kairos_dispatch import AtOnce, served
from tests.benchmarks.kairos_setting import Floats
from tests.benchmarks.report_table import markdown
from tests.e2e.slowed import slowed

CONTEXT = 1024
WARM = 8
SHORT, LONG = 8, 64
READ = 20
"""Tokens of the prompt, about."""
LOAD = 0.9
"""Of what both sustain."""
AWAKE_S = 0.02
LEAST = 1e-6
MANY = 64
"""Requests at an engine where the router keeps none back."""
RULES: tuple[Balancing, ...] = ("least-outstanding", "earliest-finish", "matching")


@dataclass
class Figures:
    latency_s: list[float] = field(default_factory=list)
    rates_rps: list[float] = field(default_factory=list)
    lost: int = 0

    def seen(self, latency_s: Floats, arrival_s: Floats) -> None:
        self.latency_s += latency_s.tolist()
        self.rates_rps.append(latency_s.size / float((arrival_s + latency_s).max()))

    @property
    def row(self) -> tuple[str, str]:
        return f"{np.mean(self.rates_rps):.2f}", f"{np.quantile(self.latency_s, 0.95):.1f}"


def line_of(url: str, name: str) -> Coefficients:
    """What requests to one engine alone take: a line by what they write, by least squares of relative errors."""
    rows = []
    with httpx.Client(timeout=300) as client:
        for k in range(WARM):
            tokens, began_s = (SHORT, LONG)[k % 2], monotonic()
            body = {"model": name, "messages": [{"role": "user", "content": "What is 2+2?"}]}
            answer = client.post(
                f"{url}/v1/chat/completions", json=body | {"max_tokens": tokens, "ignore_eos": True}
            )
            answer.raise_for_status()
            seconds = monotonic() - began_s
            rows.append((1 / seconds, tokens / seconds))
    base_s, step_s = np.linalg.lstsq(np.array(rows), np.ones(len(rows)), rcond=None)[0].tolist()
    return Coefficients(max(base_s, LEAST), LEAST, max(step_s, LEAST), LEAST)


def lengths_known() -> OutputLength:
    length = OutputLength(tells=True)
    for k in range(2 * FEWEST):
        length.seen(READ, (SHORT, LONG)[k % 2])
    return length


def mean_s(line: Coefficients, wrote: list[int]) -> float:
    model = LatencyModel(line)
    return sum(model.seconds(Seen(READ, 0.0), tokens) for tokens in wrote) / len(wrote)


def predicted(rule: Balancing, lines: dict[str, Coefficients], wrote: list[int], arrival_s: Floats) -> Floats:
    """Latencies as the rule is simulated on engines that take what `lines` say."""
    models = {kind: LatencyModel(line, seeded=rule != "least-outstanding") for kind, line in lines.items()}
    seconds = [[models[kind].seconds(Seen(READ, 0.0), tokens) for tokens in wrote] for kind in lines]
    places = 1 if rule == "matching" else MANY
    known = [Known(f"{k}", kind, max_concurrency=places) for k, kind in enumerate(lines)]
    lengths = lengths_known()
    one: SimulatedMatching | AtOnce
    if rule == "matching":
        one = SimulatedMatching(Matching(models, lengths), known)
    else:
        one = AtOnce(EarliestFinish(models, lengths), known, inf)
    return served(seconds, [READ] * len(wrote), wrote, arrival_s.tolist(), one)


async def measured(settings: RouterSettings, wrote: list[int], arrival_s: Floats, figures: Figures) -> None:
    """Asks a router with such settings, which starts and stops."""
    async with running(settings) as up:
        up.client.timeout = httpx.Timeout(None)
        await _asked(up, wrote, arrival_s, figures)


async def _asked(up: Running, wrote: list[int], arrival_s: Floats, figures: Figures) -> None:
    began_s = monotonic()

    async def ask(tokens: int, at_s: float) -> float:
        await asyncio.sleep(max(0.0, began_s + at_s - monotonic()))
        answer = await up.chat("pair", max_tokens=tokens, ignore_eos=True)
        figures.lost += answer.status_code != 200
        return monotonic() - began_s - at_s

    asked = (ask(tokens, at_s) for tokens, at_s in zip(wrote, arrival_s.tolist(), strict=True))
    figures.seen(np.array(await asyncio.gather(*asked)), arrival_s)


def settings_of(rule: Balancing, urls: dict[str, str], lines: dict[str, Coefficients]) -> RouterSettings:
    places = 1 if rule == "matching" else MANY
    replicas = tuple(
        ReplicaSettings(url, 1.0, places, "/health", kind=kind, latency=lines[kind])
        for kind, url in urls.items()
    )
    pair = StageSettings("pair", STAGES[0].name, replicas, balancing=rule)
    return RouterSettings((pair,), None, health=Health(timeout_s=60.0, failures=20))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    found = {rule: (Figures(), Figures()) for rule in RULES}
    with TemporaryDirectory() as folder, Children(Path(folder)) as children, ExitStack() as slow:
        urls, small = {}, STAGES[0]
        ports = {kind: free_port() for kind in ("whole", "third")}
        weights = fetch(model_named(small.catalogue_name))
        for kind, port in ports.items():
            urls[kind] = children.start(kind, engine_command(small, weights, port, CONTEXT), port).url
        children.wait(limit_s=300.0)
        slow.enter_context(slowed(ports["third"], AWAKE_S, 2 * AWAKE_S))
        for _ in range(options.rounds):
            lines = {kind: line_of(url, STAGES[0].name) for kind, url in urls.items()}
            for kind, line in lines.items():
                print(kind, *(f"{part:.4f}" for part in line), file=sys.stderr, flush=True)
            wrote = rng.choice((SHORT, LONG), options.requests).tolist()
            rate = LOAD * sum(1 / mean_s(line, wrote) for line in lines.values())
            arrival_s = np.cumsum(rng.exponential(1 / rate, options.requests))
            for rule in RULES:
                there, here = found[rule]
                here.seen(predicted(rule, lines, wrote, arrival_s), arrival_s)

                run(partial(measured, settings_of(rule, urls, lines), wrote, arrival_s, there))
                print(rule, there.row, here.row, f"lost {there.lost}", file=sys.stderr, flush=True)
    rows = [(rule, *there.row, *here.row, f"{there.lost}") for rule, (there, here) in found.items()]
    columns = ("rule", "requests/s", "p95 s", "predicted requests/s", "predicted p95 s", "lost")
    print(markdown(columns, rows))
    return int(any(there.lost for there, _ in found.values()))


if __name__ == "__main__":
    sys.exit(main())
