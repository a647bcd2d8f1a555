"""The empirical optimum of a small instance: every routing, mix of shapes and share on a grid, simulated end to end.

Independent of the planner's search: it shares only the simulator, the shapes and the lower bounds of quality.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice, product

import numpy as np

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.objective import Objective
from cascadia.domain.plan import Predicted
from cascadia.domain.problem import Judge, Problem, Stage
from cascadia.domain.quality import QualityTable
from cascadia.domain.workload import Workload
from cascadia.planner.allocation.demand import Demand, Replicas
from cascadia.planner.deployment.deployment import Deployment, deployment
from cascadia.planner.deployment.options import Mix
from cascadia.planner.deployment.simulation import Simulator, quantile_s
from cascadia.planner.refinement.state import Candidate, Refinement, rank, strain
from cascadia.planner.routing.frontier import all_routings
from cascadia.planner.routing.guarantee import with_bounds
from cascadia.planner.search.context import Search, start_search
from cascadia.planner.search.reference_tables import References
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.models.catalogue import architecture

MODELS = (
    ("Qwen/Qwen2.5-1.5B-Instruct", "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen2.5-32B-Instruct"),
    ("meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen2.5-14B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"),
    ("google/gemma-2b-it", "google/gemma-7b-it", "Qwen/Qwen1.5-32B-Chat"),
)


def random_problem(seed: int, *, requests: int = 300) -> Problem:
    """2 or 3 stages, 3 to 16 GPUs, at most 12 score levels, a bursty workload at a random load."""
    rng = np.random.default_rng(seed)
    stages = int(rng.integers(2, 4))
    names = MODELS[int(rng.integers(len(MODELS)))][-stages:]
    gpus = int(rng.choice([4, 8, 16] if stages == 2 else [4, 6, 8]))
    per_node = gpus if gpus in (4, 6, 8) else 8
    pool = Pool("pool", str(rng.choice(["h100-sxm", "a100-sxm", "l40s"])), gpus // per_node, per_node, 2.5)
    table = random_table(rng, stages, int(rng.integers(3, 13 if stages == 2 else 7)))
    gaps = rng.gamma(1 / rng.uniform(1, 4), size=requests)
    rate = float(rng.uniform(0.5, 4.0)) * gpus / 8
    arrival = np.cumsum(gaps) / gaps.mean() / rate
    row = rng.integers(0, len(table), requests)
    read = np.clip(rng.lognormal(6.2, 0.8, requests), 8, 3000).astype(np.int64)
    wrote = np.clip(rng.lognormal(4.8, 0.6, requests), 4, 900).astype(np.int64)
    judged = bool(rng.integers(2))
    judge = (
        Judge(
            kind="llm",
            placement="self-hosted",
            model="Qwen/Qwen2.5-1.5B-Instruct",
            architecture=architecture("Qwen/Qwen2.5-1.5B-Instruct"),
            config=EngineConfig(),
            prompt_tokens=200,
        )
        if judged
        else Judge("llm", "external", latency_p50_s=0.2, latency_p95_s=0.5)
    )
    problem = Problem(
        stages=tuple(
            Stage(f"s{i}", name, architecture(name), engine="vllm", quantization=None, config=EngineConfig())
            for i, name in enumerate(names)
        ),
        cluster=Cluster((pool,)),
        judge=judge,
        workload=Workload(
            arrival - arrival[0],
            row,
            np.tile(read, (stages, 1)),
            np.stack([np.maximum(1, wrote * (0.8 + 0.2 * s)).astype(np.int64) for s in range(stages)]),
            np.zeros(requests, np.int64),
        ),
        quality=table,
        objective=Objective("latency", 0.95, 0.0),
        confidence=0.95,
        seed=seed,
        digest=str(seed),
    )
    lower = with_bounds(table, all_routings(table), 0.95, seed)[0].lower
    bar = float(np.quantile(lower, rng.uniform(0.3, 0.97)))
    return replace(problem, objective=Objective("latency", 0.95, bar, within=0.0))


def random_table(rng: np.random.Generator, stages: int, levels: int, prompts: int = 240) -> QualityTable:
    ability = np.sort(rng.uniform(-0.8, 1.6, stages))
    hard = rng.normal(size=prompts)
    quality = np.clip(55 + 22 * (ability[:, None] - hard + 0.6 * rng.normal(size=(stages, prompts))), 0, 100)
    seen = quality + rng.normal(size=quality.shape) * 12
    cuts = np.quantile(seen, np.linspace(0, 1, levels + 1)[1:-1])
    score = np.digitize(seen, cuts) * (100.0 / max(levels - 1, 1))
    tokens = np.full(quality.shape, 200.0)
    ids = tuple(str(i) for i in range(prompts))
    return QualityTable(
        ids,
        tuple(f"s{i}" for i in range(stages)),
        score,
        quality=quality,
        input_tokens=tokens,
        output_tokens=tokens,
    )


@dataclass(frozen=True)
class Optimum:
    """`value`: what the goal compares, the less the better; infinite where nothing holds."""

    value: float
    deployment: Deployment | None
    simulated: int


def compared(problem: Problem, predicted: Predicted) -> float:
    """Value of a finished plan that the goal compares: the less the better."""
    told = {"latency": predicted.objective_s, "cost": predicted.usd_per_hour, "rate": -predicted.rate_rps}
    return told.get(problem.objective.goal, -predicted.quality.lower)


def exhaustive(problem: Problem, threads: ThreadPoolExecutor) -> Optimum:
    """The best by the goal, settled, of all deployments that keep the bar and the bound on latency and carry the
    traffic for ever.

    One run of the trace comes to idle replicas, so it is hardly ever slower than what settles: certificates are asked
    for in the order of that one run, until it alone is worse than the best that was certified.
    """
    routings = with_bounds(
        problem.quality, all_routings(problem.quality, keep_worse=False), 0.95, problem.seed
    )[0]
    search = replace(start_search(problem, routings, threads), every_shape=True)
    simulator = Simulator.of(problem)
    state = Refinement(search, simulator, References.of(search))
    bar = problem.objective.quality_min or 0.0

    def once(d: Deployment) -> Candidate:
        run = simulator.run(d, search.decisions(d.routing))
        latency_s = quantile_s(simulator.latency_s(run), problem.objective.quantile)
        return Candidate(d, latency_s, float(routings.lower[d.routing]))

    good = np.flatnonzero(routings.lower >= bar).tolist()
    every = list(threads.map(once, (d for k in good for d in _deployments(search, k))))
    best, which = np.inf, None
    for candidate in sorted(every, key=lambda c: rank(problem, c)):
        if rank(problem, candidate)[0] >= best:
            break
        if strain(problem, candidate) > 1.0:
            continue
        settled = state.certified(candidate)
        held = settled.certificate is not None and settled.certificate.holds
        if held and strain(problem, settled) <= 1.0 and rank(problem, settled)[0] < best:
            best, which = rank(problem, settled)[0], settled.deployment
    return Optimum(best, which, len(every))


def count_deployments(problem: Problem, threads: ThreadPoolExecutor, most: int) -> int:
    """How many `exhaustive` simulates, about; beyond `most` some larger number."""
    routings = with_bounds(
        problem.quality, all_routings(problem.quality, keep_worse=False), 0.95, problem.seed
    )[0]
    good = np.flatnonzero(routings.lower >= (problem.objective.quality_min or 0.0))
    if not len(good):
        return 0
    search = replace(start_search(problem, routings, threads), every_shape=True)
    counted = islice(_deployments(search, int(good[0])), most // len(good) + 1)
    return sum(1 for _ in counted) * len(good)


def _deployments(search: Search, routing: int) -> Iterator[Deployment]:
    demands = search.demands(routing)
    yield from _combine(search, routing, demands, search.problem.cluster.gpus, {})


def _combine(
    search: Search, routing: int, demands: Sequence[Demand], left: int, mixes: dict[int, Mix]
) -> Iterator[Deployment]:
    if not demands:
        found = deployment(routing, mixes)
        if found.fits(search.problem.cluster):
            yield found
        return
    first, *rest = demands
    for mix in stable_mixes(first, left - len(rest)):
        used = sum(r.shape.gpus * r.count for r in mix)
        yield from _combine(search, routing, rest, left - used, mixes | {first.stage: mix})


RATIOS = tuple(2 ** (k / 2) for k in range(-6, 7))
"""Shares of unequal replicas that are tried: in proportion to what each sustains, times these, from 1/8 to 8."""
COARSE = (0.2, 0.45, 1.0, 2.2, 5.0)
"""Instead, where three or more shapes are mixed."""


def stable_mixes(demand: Demand, gpus: int) -> Iterator[Mix]:
    """All multisets of shapes on at most `gpus` GPUs that keep up, with all shares on the grid."""
    for counts in _multisets([s.gpus for s in demand.shapes], gpus):
        mix = tuple(
            Replicas(demand.shapes[s], n, max(float(demand.table.saturated[s]), 1e-6))
            for s, n in enumerate(counts)
            if n
        )
        if mix and sum(r.count / r.level for r in mix) >= 1.0:
            yield from _shared(mix)


def _shared(mix: Mix) -> Iterator[Mix]:
    first, *others = mix
    ratios = RATIOS if len(others) < 2 else COARSE
    for chosen in product(ratios, repeat=len(others)):
        yield first, *(replace(r, level=r.level / x) for r, x in zip(others, chosen, strict=True))


def _multisets(sizes: Sequence[int], total: int) -> Iterator[tuple[int, ...]]:
    if not sizes:
        yield ()
        return
    for n in range(total // sizes[0] + 1):
        for rest in _multisets(sizes[1:], total - n * sizes[0]):
            yield (n, *rest)
