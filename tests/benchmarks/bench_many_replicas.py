"""What hundreds of replicas cost a router: CPU time to choose one by each rule, and the longest turn of `/metrics`.

    python -m tests.benchmarks.bench_many_replicas [--replicas 4 40 400]

Another replica is full at each request, as of hundreds some always are. The least of several rounds counts.

Exits with 1 where a choice among the most replicas takes longer than `MOST_PASSES` sums of their loads: no rule looks
at all of them for each of them. (A match is of up to 64 requests, and not judged.)
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from timeit import repeat

from cascadia.dispatch.candidate import Asked
from cascadia.dispatch.earliest_finish import EarliestFinish
from cascadia.dispatch.latency_model import Coefficients, LatencyModel
from cascadia.dispatch.least_outstanding import LeastOutstanding
from cascadia.dispatch.matching import Matching
from cascadia.dispatch.output_length import FEWEST, OutputLength
from cascadia.dispatch.prefix_affinity import PrefixAffinity
from cascadia.dispatch.round_robin import SmoothRoundRobin
from cascadia.dispatch.simulated import Known, Queued
from cascadia.router.server.app import Router
from cascadia.router.settings.model import ReplicaSettings, RouterSettings, StageSettings
from cascadia.router.telemetry.figures import figures
from tests.benchmarks.report_table import markdown
from tests.benchmarks.router_rig import verdict

CALLS, ROUNDS = 50, 7
FAST, SLOW = Coefficients(0.05, 1e-3, 1e-3, 1e-4), Coefficients(0.1, 5e-3, 5e-3, 5e-4)
ASKED = Asked(300, 100)
MOST_PASSES = 40
PASS = "a sum of all loads"
MATCH = "matching, of 64 that wait"

Choices = list[list[Known]]


def lengths() -> OutputLength:
    told = OutputLength(tells=True)
    for _ in range(FEWEST):
        told.seen(300, 100)
    return told


def models() -> dict[str, LatencyModel]:
    return {"fast": LatencyModel(FAST, seeded=True), "slow": LatencyModel(SLOW, seeded=True)}


def candidates(count: int) -> Choices:
    """Those that have room, by request: all but another one."""
    there = [Known(f"small-{i}", ("fast", "slow")[i % 2], max_concurrency=8) for i in range(count)]
    for i, replica in enumerate(there):
        replica.count(1 + i % 3, 37 * i % 91 + 100)
    return [there[:i] + there[i + 1 :] for i in range(count)]


def by_rule(count: int) -> dict[str, Callable[[int, list[Known]], object]]:
    """A choice of each rule, by the number of the request and who has room."""
    even, least, prefix = SmoothRoundRobin(), LeastOutstanding(), PrefixAffinity()
    early, late = EarliestFinish(models(), lengths()), Matching(models(), lengths())
    waiting = [Queued(i, Asked(100 + i, 100), 0.0) for i in range(64)]

    def matched(_: int, there: list[Known]) -> object:
        late.looks(there)
        return late.match(waiting, there, 0.0)

    return {
        PASS: lambda _, there: sum([replica.load for replica in there]),
        "round-robin": lambda _, there: even.choose(there),
        "least-outstanding": lambda _, there: least.choose(there, 300),
        "prefix": lambda i, there: prefix.choose(there, 30, 7919**3 * (i % count + 1)),
        "earliest-finish": lambda _, there: early.choose(there, ASKED),
        MATCH: matched,
    }


def choice_us(choose: Callable[[int, list[Known]], object], choices: Choices) -> float:
    number = 0

    def next_one() -> None:
        nonlocal number
        choose(number, choices[number % len(choices)])
        number += 1

    return min(repeat(next_one, number=CALLS, repeat=ROUNDS, timer=time.thread_time)) / CALLS * 1e6


def longest_turn_us(count: int) -> float:
    """Of the loop, while a router of so many replicas tells its metrics."""
    replicas = tuple(ReplicaSettings(f"http://127.0.0.1:{9000 + i}") for i in range(count))
    router = Router(RouterSettings((StageSettings("small", "m", replicas),), None))

    async def told_s() -> float:
        telling, longest_s = asyncio.create_task(figures(router.metrics.registry)), 0.0
        while not telling.done():
            began_s = time.thread_time()
            await asyncio.sleep(0)
            longest_s = max(longest_s, time.thread_time() - began_s)
        return longest_s

    return min(asyncio.run(told_s()) for _ in range(ROUNDS)) * 1e6


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replicas", type=int, nargs="+", default=[4, 40, 400])
    counts = parser.parse_args(arguments).replicas
    took: dict[str, list[float]] = {}
    for count in counts:
        choices = candidates(count)
        for name, choose in by_rule(count).items():
            took.setdefault(name, []).append(choice_us(choose, choices))
    passes = max(each[-1] for name, each in took.items() if name != MATCH) / took[PASS][-1]
    took["longest turn of /metrics"] = [longest_turn_us(count) for count in counts]
    rows = [(name, *(f"{us:,.0f}" for us in each)) for name, each in took.items()]
    print(markdown(("µs of CPU", *(f"{count} replicas" for count in counts)), rows))
    what = f"passes over {counts[-1]} replicas that the slowest choice takes as long as"
    told, kept = verdict(what, passes, MOST_PASSES, least=False, unit="")
    print(told)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
