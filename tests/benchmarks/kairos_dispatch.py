"""Ways to dispatch queries to Kairos' instances (section 7), in the setting of `kairos_setting.py`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import product
from math import inf

import numpy as np

from cascadia.dispatch.candidate import Asked
from cascadia.dispatch.earliest_finish import EarliestFinish, Trial
from cascadia.dispatch.latency_model import LatencyModel
from cascadia.dispatch.matching import Matching
from cascadia.dispatch.output_length import OutputLength
from cascadia.dispatch.simulated import Known, SimulatedMatching
from tests.benchmarks.kairos_setting import LARGEST, QUANTILE, TYPES, USD, Floats, Ints, Model

Config = tuple[int, ...]
SIZES_KNOWN = partial(OutputLength, tells=True)
"""An answer counts for one token, which is its limit too: nothing of lengths is to be learnt."""


@dataclass(frozen=True, eq=False)
class Scene:
    """A model's queries: sizes [n], the latency of each on each type [types, n], and gaps of 1 s on average [n].

    `told_s` is what a rule takes the latency for, where that is not learnt.
    """

    model: Model
    sizes: Floats
    told_s: Floats
    seconds: Floats
    gaps: Floats
    qos_s: float

    @staticmethod
    def of(model: Model, sizes: Floats, noise: float = 0.0, qos: float = 1.0) -> "Scene":
        rng = np.random.default_rng(3)
        told_s = model.seconds(sizes)
        seconds = told_s * np.maximum(0.1, 1 + noise * rng.standard_normal(told_s.shape))
        return Scene(model, sizes, told_s, seconds, rng.exponential(size=sizes.size), qos * model.qos_s)


Rule = Callable[[Scene, Config, Floats], Floats]
"""Latencies [n] of queries that arrive at given times [n]."""


def kinds_of(config: Config) -> list[int]:
    return [kind for kind, count in enumerate(config) for _ in range(count)]


def dollars(config: Sequence[int]) -> float:
    return sum(count * price for count, price in zip(config, USD.tolist(), strict=True))


def configs(budget: float) -> list[Config]:
    """All within a budget that have an instance which serves every size."""
    most = [range(int(budget / price + 1e-9) + 1) for price in USD.tolist()]
    return [one for one in product(*most) if one[0] and dollars(one) <= budget + 1e-9]


def first_come(scene: Scene, config: Config, arrival_s: Floats) -> Floats:
    """Ribbon's: first come, first served, by the base type where several are free."""
    return _pool(scene, kinds_of(config), arrival_s, np.arange(arrival_s.size))


def _pool(scene: Scene, kinds: Sequence[int], arrival_s: Floats, which: Ints) -> Floats:
    """Latencies of some queries that a pool serves in order, each by the first in `kinds` that is free."""
    free = [0.0] * len(kinds)
    seconds = scene.seconds.tolist()
    found = np.full(which.size, inf)
    if not kinds:
        return found
    for at, query in enumerate(which.tolist()):
        came = float(arrival_s[query])
        begins = max(came, min(free))
        j = next(j for j, free_s in enumerate(free) if free_s <= begins)
        free[j] = begins + seconds[kinds[j]][query]
        found[at] = free[j] - came
    return found


def by_threshold(threshold: float) -> Rule:
    """DeepRecSys': larger queries to the base type, others to the rest, each pool first come, first served."""

    def rule(scene: Scene, config: Config, arrival_s: Floats) -> Floats:
        kinds, large = kinds_of(config), scene.sizes > threshold
        found = np.zeros(arrival_s.size)
        for mine, pool in ((large, [0] * config[0]), (~large, [kind for kind in kinds if kind])):
            found[mine] = _pool(scene, pool, arrival_s, np.flatnonzero(mine))
        return found

    return rule


def clockwork(scene: Scene, config: Config, arrival_s: Floats) -> Floats:
    """Queues of their own, and latencies told: the first that finishes in time, else the first that finishes."""
    kinds = kinds_of(config)
    free, told_free = [0.0] * len(kinds), [0.0] * len(kinds)
    told, seconds = scene.told_s.tolist(), scene.seconds.tolist()
    found = np.zeros(arrival_s.size)
    for query, came in enumerate(arrival_s.tolist()):
        ends = [max(came, told_free[j]) + told[kind][query] for j, kind in enumerate(kinds)]
        in_time = [j for j, end in enumerate(ends) if end - came <= scene.qos_s]
        j = min(in_time or range(len(kinds)), key=ends.__getitem__)
        free[j] = max(came, free[j]) + seconds[kinds[j]][query]
        # When the last ended, all were told of that.
        told_free[j] = max(ends[j], free[j]) if free[j] <= came else ends[j]
        found[query] = free[j] - came
    return found


def matching(scene: Scene, config: Config, arrival_s: Floats, *, learnt: bool = False) -> Floats:
    """Ours as the router runs it; `learnt`: without a plan's coefficients."""
    return _served(scene, config, arrival_s, SimulatedMatching(
        Matching({} if learnt else _models(scene, config), SIZES_KNOWN()), _known(config), scene.qos_s,
        most_output=1,
    ))  # fmt: skip


def earliest_finish(scene: Scene, config: Config, arrival_s: Floats) -> Floats:
    """Ours as the router runs it, with queues at the instances."""
    return _served(scene, config, arrival_s, AtOnce(
        EarliestFinish(_models(scene, config), SIZES_KNOWN()), _known(config), scene.qos_s
    ))  # fmt: skip


def _models(scene: Scene, config: Config) -> dict[str, LatencyModel]:
    kinds = sorted(set(kinds_of(config)))
    return {f"{kind}": LatencyModel(scene.model.coefficients(kind), seeded=True) for kind in kinds}


def _known(config: Config) -> list[Known]:
    return [Known(f"{j}", f"{kind}", max_concurrency=1) for j, kind in enumerate(kinds_of(config))]


@dataclass
class AtOnce:
    """A rule that chooses as a query comes, asked as one that lets queries wait."""

    rule: EarliestFinish
    replicas: list[Known]
    latency_max_s: float
    most_output: int = 1
    again_s: float = inf
    begun: list[tuple[int, int]] = field(default_factory=list)
    trials: dict[int, tuple[Trial, float]] = field(default_factory=dict)

    def came(self, request: int, input_tokens: int, now_s: float) -> None:
        asked = Asked(input_tokens, self.most_output, None, self.latency_max_s)
        at = self.rule.choose(self.replicas, asked)
        trial = self.rule.given(self.replicas[at], asked)
        self.trials[request] = trial, now_s
        self.replicas[at].count(1, trial.tokens)
        self.begun.append((request, at))

    def placed(self, now_s: float) -> list[tuple[int, int]]:
        begun, self.begun = self.begun, []
        return begun

    def ended(self, request: int, replica: int, output_tokens: int, now_s: float) -> None:
        trial, since_s = self.trials.pop(request)
        self.replicas[replica].count(-1, -trial.tokens)
        self.rule.ended(trial, output_tokens, now_s - since_s)


def _served(scene: Scene, config: Config, arrival_s: Floats, rule: SimulatedMatching | AtOnce) -> Floats:
    kinds = kinds_of(config)
    reads, wrote = scene.sizes.astype(int).tolist(), [1] * scene.sizes.size
    return served(scene.seconds[kinds].tolist(), reads, wrote, arrival_s.tolist(), rule)


def served(
    seconds: list[list[float]], reads: list[int], wrote: list[int], arrivals: list[float],
    rule: SimulatedMatching | AtOnce,
) -> Floats:  # fmt: skip
    """Latencies of queries that instances serve one at a time, first come, first served, as `rule` gives them.

    `seconds`: by instance, what each query takes; `wrote` are lengths of answers, known as their limits.
    """
    n, free = len(arrivals), [0.0] * len(seconds)
    ends: list[tuple[float, int, int]] = []
    found, came = np.full(n, inf), 0
    while came < n or ends:
        now_s = min(arrivals[came] if came < n else inf, ends[0][0] if ends else inf, rule.again_s)
        while ends and ends[0][0] <= now_s:
            at_s, query, j = heappop(ends)
            rule.ended(query, j, wrote[query], at_s)
            found[query] = at_s - arrivals[query]
        while came < n and arrivals[came] <= now_s:
            rule.most_output = wrote[came]
            rule.came(came, reads[came], now_s)
            came += 1
        for query, j in rule.placed(now_s):
            free[j] = max(now_s, free[j]) + seconds[j][query]
            heappush(ends, (free[j], query, j))
    return found


def oracle_rps(scene: Scene, config: Config) -> float:
    """Section 7: all queries are there and sorted; who is free takes the next, the base type the largest and the others
    the smallest, if they serve it in time."""
    order = np.argsort(scene.sizes, kind="stable")
    seconds = scene.told_s[:, order].tolist()
    within = [
        int(np.searchsorted(scene.told_s[kind, order], scene.qos_s, "right")) for kind in range(len(TYPES))
    ]
    low, high, last = 0, order.size - 1, 0.0
    ready = [(0.0, j) for j in range(len(kinds_of(config)))]
    kinds = kinds_of(config)
    while low <= high:
        if not ready:
            return 0.0
        now_s, j = heappop(ready)
        kind = kinds[j]
        if kind and low >= within[kind]:
            continue
        query = low if kind else high
        low, high = (low + 1, high) if kind else (low, high - 1)
        heappush(ready, (now_s + seconds[kind][query], j))
        last = max(last, now_s + seconds[kind][query])
    return order.size / last


def sustained_rps(scene: Scene, config: Config, rule: Rule, most_rps: float, steps: int = 8) -> float:
    """Highest rate, to 1 % of `most_rps` or so, at which 99 % of the queries are within the target."""
    low, high = 0.0, most_rps
    arrival_s = np.cumsum(scene.gaps)
    for _ in range(steps):
        rate = (low + high) / 2
        latency_s = rule(scene, config, arrival_s / rate)
        if float(np.quantile(latency_s, QUANTILE, method="inverted_cdf")) <= scene.qos_s:
            low = rate
        else:
            high = rate
    return low


def climbed(scene: Scene, config: Config, most_rps: float) -> tuple[float, int]:
    """DeepRecSys' rate at the threshold that hill climbing finds, and how many were tried."""
    tried: dict[int, float] = {}

    def rate(threshold: int) -> float:
        if threshold not in tried:
            tried[threshold] = sustained_rps(scene, config, by_threshold(threshold), most_rps)
        return tried[threshold]

    if not any(config[1:]):
        return sustained_rps(scene, config, first_come, most_rps), 1
    at, step = 250, 128
    while step >= 8:
        best = max((at - step, at, at + step), key=lambda one: rate(one) if 0 <= one <= LARGEST else -1.0)
        at, step = (at, step // 2) if best == at else (best, step)
    return rate(at), len(tried)


def homogeneous_rps(scene: Scene, budget: float) -> float:
    """Of as many of the base type as the budget buys, with what is left of it scaled up (section 8.1)."""
    count = int(budget / float(USD[0]))
    config = (count, 0, 0, 0)
    rate = sustained_rps(scene, config, first_come, oracle_rps(scene, config))
    return rate * budget / dollars(config)


def bests(
    scene: Scene, among: Sequence[Config], rate: Callable[[Scene, Config], float], count: int
) -> list[Config]:
    """The `count` configurations with the highest rates."""
    return sorted(among, key=lambda config: rate(scene, config), reverse=True)[:count]


def first_come_rps(scene: Scene, config: Config) -> float:
    return sustained_rps(scene, config, first_come, oracle_rps(scene, config), 5)


def weakest_limit(scene: Scene, config: Config) -> float:
    """Largest size that the weakest instance of a configuration serves in time."""
    limits = [
        float(scene.sizes[scene.told_s[kind] <= scene.qos_s].max(initial=0)) for kind in set(kinds_of(config))
    ]
    return min(limits)
