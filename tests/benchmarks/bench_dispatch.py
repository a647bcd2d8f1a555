"""Which replica should get a request: the rules compared, with one router or several that know nothing of each other.

    python -m tests.benchmarks.bench_dispatch [--requests 6000]

Stages that serve Llama-3.1-8B with the lengths and arrivals of azure_2023_conv, its time scaled. For each rule, the
highest rate at which 95 % of requests are answered within 15 s. Requests go to the routers at random; each runs the
code that Cascadia's router runs, over the simulated replicas, and knows of its own requests only. "Lengths known" is
the same rule told how long each answer will be, which nobody knows. Needs CASCADIA_DATA. Exits with 1 where the
default rule sustains less than another that can be had.
"""

import argparse
import random
import sys
import timeit
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from cascadia.dispatch.answer_length import AnswerLength
from cascadia.dispatch.candidate import Balancer, Candidate
from cascadia.dispatch.least_outstanding import LeastOutstanding
from cascadia.dispatch.round_robin import SmoothRoundRobin
from cascadia_sim.cascade.stage import Replica, simulate_stage
from cascadia_sim.engine import kernel
from cascadia_sim.engine.client import delays_ps
from cascadia_sim.engine.fleet import fleet_of, requests_of
from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.build import replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.timing import PS_PER_S, Ints, ReplicaTiming
from cascadia_sim.models.catalogue import architecture
from cascadia_traces.formats.reading import read_trace
from tests.benchmarks.report_table import markdown
from tests.data import data_path

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
FLEETS: dict[str, tuple[tuple[str, int], ...]] = {
    "4 × H100 + 5 × L40S": (("h100-sxm", 4), ("l40s", 5)),
    "8 × H100": (("h100-sxm", 8),),
    "2 × H100 + 14 × L40S": (("h100-sxm", 2), ("l40s", 14)),
}
ROUTERS = (1, 2, 4, 8)
LATENCY_S, QUANTILE = 15.0, 0.95
STEPS = 7
FACTORS = tuple(2 ** (k / 2) for k in range(-4, 5))
TOLERANCE = 0.98
"""The least share of another rule's rate that the default may sustain: rates are known to about 1 %."""


@dataclass(slots=True)
class TwoChoices:
    """Of two replicas drawn at random, the one with less work in hand for its share (Mitzenmacher, 2001)."""

    chance: Callable[[], float]

    def choose(self, candidates: Sequence[Candidate], tokens: int = 0, prefix: int | None = None) -> int:
        n = len(candidates)
        i, j = int(self.chance() * n), int(self.chance() * (n - 1))
        j += j >= i
        first, second = candidates[i], candidates[j]
        less = (first.outstanding_tokens + tokens) / first.weight <= (
            second.outstanding_tokens + tokens
        ) / second.weight
        return i if less else j


@dataclass(slots=True)
class View:
    """A replica as one router knows it."""

    name: str
    weight: float
    outstanding_tokens: int = 0


@dataclass(slots=True)
class Router:
    balancer: Balancer
    views: list[View]
    length: AnswerLength = field(default_factory=AnswerLength)


Rule = Callable[[int], Balancer]
RULES: dict[str, Rule] = {
    "round robin by capacity": lambda _: SmoothRoundRobin(),
    "two choices": lambda seed: TwoChoices(random.Random(seed).random),
    "least outstanding": LeastOutstanding,
}


@dataclass(frozen=True, slots=True)
class Load:
    arrival_s: np.ndarray[tuple[int], np.dtype[np.float64]]
    read: Ints
    wrote: Ints

    def at(self, rate_rps: float) -> Ints:
        span_s = float(self.arrival_s[-1] - self.arrival_s[0])
        scaled = (self.arrival_s - self.arrival_s[0]) * (len(self.read) / span_s / rate_rps)
        return np.rint(scaled * PS_PER_S).astype(np.int64)


def azure(requests: int, name: str = "azure_2023_conv.csv", first: int = 0) -> Load:
    trace = read_trace(data_path(f"traces/{name}"))
    part = slice(first, first + requests)
    return Load(trace.arrival_s[part], trace.input_tokens[part], trace.output_tokens[part])


def capacity_rps(timing: ReplicaTiming, load: Load) -> float:
    """Requests a second of a replica that has them all at hand."""
    n = min(len(load.read), 2000)
    none = np.zeros(n, np.int64)
    run = simulate_replica(timing, none, load.read[:n], load.wrote[:n], none)
    finish_s = np.sort(run.finish_ps) / PS_PER_S
    low, high = n // 10, n * 8 // 10
    return float((high - low) / (finish_s[high] - finish_s[low]))


def replicas_of(fleet: Sequence[tuple[str, int]], load: Load) -> list[Replica]:
    found = []
    for name, count in fleet:
        timing = replica_timing(architecture(MODEL), gpu(name), tp=1, pp=1, config=EngineConfig())
        found += [Replica(timing, capacity_rps(timing, load))] * count
    return found


def routed(
    replicas: Sequence[Replica], load: Load, arrival_ps: Ints, rule: Rule, routers: int, *, told: bool = False
) -> Ints:
    """Latencies [n], in ps, where each request goes to one of so many `routers`. `told`: they know its length."""
    n = arrival_ps.size
    fleet, requests = (
        fleet_of([r.timing for r in replicas]),
        requests_of(arrival_ps, load.read, load.wrote, np.zeros(n, np.int64)),
    )
    rng = np.random.default_rng(0)
    which = rng.integers(0, routers, n).tolist()
    all_ = [
        Router(rule(k * len(replicas) // routers), [View(f"{i}", r.weight) for i, r in enumerate(replicas)])
        for k in range(routers)
    ]
    wake, arrivals = fleet.state[:, kernel.WAKE], arrival_ps.tolist()
    running: list[list[tuple[int, int, int]]] = [[] for _ in replicas]
    served = np.zeros(n, np.int64)
    for request in range(n):
        now = arrivals[request]
        for lane in np.flatnonzero(wake <= now).tolist():
            kernel.advance(fleet, requests, lane, now)
            left = []
            for one in running[lane]:
                if requests.finish_ps[one[0]] < 0:
                    left.append(one)
                    continue
                all_[one[1]].views[lane].outstanding_tokens -= one[2]
                all_[one[1]].length.seen(int(load.wrote[one[0]]))
            running[lane] = left
        router = all_[which[request]]
        tokens = int(load.read[request]) + (int(load.wrote[request]) if told else router.length.expected())
        lane = router.balancer.choose(router.views, tokens)
        router.views[lane].outstanding_tokens += tokens
        running[lane].append((request, which[request], tokens))
        kernel.append(fleet, requests, lane, request, tokens)
        served[request] = lane
    for lane in range(len(replicas)):
        kernel.advance(fleet, requests, lane, kernel.NEVER)
    first_ps, finish_ps = requests.first_token_ps, requests.finish_ps
    late_ps = delays_ps([r.timing for r in replicas], served, first_ps, finish_ps, load.wrote)
    return finish_ps + late_ps - arrival_ps


def sustained_rps(latency: Callable[[Ints], Ints], load: Load, most_rps: float) -> float:
    """The highest rate, by halving, at which the quantile is kept."""
    low, high = 0.3 * most_rps, 1.3 * most_rps
    for _ in range(STEPS):
        middle = (low * high) ** 0.5
        took = np.quantile(latency(load.at(middle)), QUANTILE, method="inverted_cdf") / PS_PER_S
        low, high = (middle, high) if took <= LATENCY_S else (low, middle)
    return low


def by_simulator(replicas: Sequence[Replica], load: Load, arrival_ps: Ints) -> Ints:
    """Latencies [n], in ps, as the planner's simulator has them under the rule that the router runs."""
    none = np.zeros(arrival_ps.size, np.int64)
    run = simulate_stage(replicas, "least-outstanding", arrival_ps, load.read, load.wrote, none)
    return run.finish_ps - arrival_ps


def with_shares_searched(replicas: Sequence[Replica], load: Load, most_rps: float) -> tuple[float, float]:
    """The highest rate over shares of the smaller GPU times 1/4 to 4, and the best such factor."""
    largest = max(r.weight for r in replicas)

    def reshared(factor: float) -> list[Replica]:
        return [r if r.weight == largest else replace(r, weight=r.weight * factor) for r in replicas]

    rates = {f: sustained_rps(partial(by_simulator, reshared(f), load), load, most_rps) for f in FACTORS}
    best = max(rates, key=lambda f: rates[f])
    return rates[best], best


def choice_s(replicas: int) -> float:
    views = [View(f"{i}", 1.0, 37 * i % 91) for i in range(replicas)]
    balancer, times = LeastOutstanding(), 5000
    return min(timeit.repeat(lambda: balancer.choose(views, 300), number=times, repeat=7)) / times


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=6000)
    parser.add_argument("--routers", type=int, nargs="*", default=list(ROUTERS))
    options = parser.parse_args()
    load, bad, rows = azure(options.requests), False, []
    for name, fleet in FLEETS.items():
        replicas = replicas_of(fleet, load)
        most = sum(r.weight for r in replicas)
        planned = sustained_rps(partial(by_simulator, replicas, load), load, most)
        at = load.at(0.9 * planned)
        same = by_simulator(replicas, load, at) == routed(replicas, load, at, LeastOutstanding, 1)
        bad |= not same.all()
        print(
            f"{name}: {same.sum():,} of {same.size:,} requests take as long by the simulator as by the router's code,"
            " to the picosecond"
        )
        if len(fleet) > 1:
            shared, factor = with_shares_searched(replicas, load, most)
            print(f"{name}: up to {shared:.1f} requests/s with the smaller GPU's share times {factor:.2g}")
        for routers in options.routers:
            serve = partial(routed, replicas, load, routers=routers)
            rates = {
                rule: sustained_rps(partial(serve, rule=make), load, most) for rule, make in RULES.items()
            }
            told = sustained_rps(partial(serve, rule=LeastOutstanding, told=True), load, most)
            bad |= rates["least outstanding"] < TOLERANCE * max(rates.values())
            figures = [*rates.values(), told, planned]
            rows.append((name, f"{routers}", *(f"{rate:.1f}" for rate in figures)))
            print(rows[-1], file=sys.stderr, flush=True)
    print(f"a choice takes {', '.join(f'{choice_s(n) * 1e6:.1f} µs among {n}' for n in (2, 8, 32, 256))}")
    columns = ("stage", "routers", *RULES, "lengths known", "planner says")
    print(markdown(columns, rows))
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
