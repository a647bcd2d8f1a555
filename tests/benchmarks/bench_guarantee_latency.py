"""What the quality guarantee costs in seconds, and whether it holds for whole plans.

Calibration tables are drawn as in `bench_guarantee`; on each, the full planner makes a plan with the lower bound, and
on some another with the plain mean (what everyone else ships). Each plan's thresholds are looked up on the population.

    python -m tests.benchmarks.bench_guarantee_latency [--samples 500] [--means 100]

Prints a Markdown table; exits with 1 where bounded plans miss a bar in more than 5 % of the samples.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.errors import Infeasible
from cascadia.domain.objective import Objective
from cascadia.domain.problem import Judge, Problem, Stage
from cascadia.domain.workload import Workload
from cascadia.planner import plan as planner
from cascadia.planner.refinement.refine import Effort
from cascadia.planner.routing.guarantee import with_bounds
from cascadia.planner.routing.routings import Routings
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.models.catalogue import architecture
from cascadia_traces.formats.reading import read_trace
from tests.benchmarks.bench_guarantee import Cascade, Choice, cascades, drawn, truth
from tests.data import data_path

QUESTIONS = (100, 300, 1_000)
REQUESTS = 300
LIGHT = Effort(
    routings=4, combinations=300, window_requests=300, simulated_requests=3_000, fewest_simulations=8
)


@dataclass(frozen=True)
class Setting:
    """Models and cluster for the cascade at `index` of `bench_guarantee.cascades`, and one bar."""

    index: int
    models: tuple[tuple[str, str | None], ...]
    nodes: int
    rate_rps: float
    bar: float


SETTINGS = (
    Setting(
        0,
        (("google/gemma-2b-it", None), ("google/gemma-7b-it", None), ("Qwen/Qwen1.5-72B-Chat", None)),
        2,
        16.0,
        68,
    ),
    Setting(
        2,
        (
            ("meta-llama/Llama-3.1-8B-Instruct", None),
            ("meta-llama/Llama-3.1-70B-Instruct", None),
            ("meta-llama/Llama-3.1-405B-Instruct", "fp8"),
        ),
        3,
        40.0,
        92,
    ),
)


class Sample(NamedTuple):
    """Latency of the two plans (NaN: none), and what their thresholds give on the population."""

    bound_s: float
    bound_quality: float
    mean_s: float
    mean_quality: float


@lru_cache(maxsize=4)
def cascade(index: int) -> Cascade:
    return next(islice(cascades(), index, None))


@lru_cache(maxsize=4)
def base(index: int, requests: int = REQUESTS) -> Problem:
    """The problem of `SETTINGS[index]` with the population as its table; samples replace that."""
    setting = SETTINGS[index]
    population = cascade(setting.index).population
    trace = read_trace(data_path("traces/azure_2023_conv.csv")).rows(0, requests).scaled(setting.rate_rps)
    stages = len(setting.models)
    tile = np.ones((stages, 1), np.int64)
    judge = architecture("meta-llama/Llama-3.1-8B-Instruct")
    return Problem(
        stages=tuple(
            Stage(
                f"s{i}",
                name,
                architecture(name),
                engine="vllm",
                quantization=q,
                config=EngineConfig(quantization=q),
            )
            for i, (name, q) in enumerate(setting.models)
        ),
        cluster=Cluster((Pool("h100", "h100-sxm", setting.nodes, 8, 2.95),)),
        judge=Judge("llm", "self-hosted", "judge", judge, config=EngineConfig(), prompt_tokens=267),
        workload=Workload(
            trace.arrival_s - trace.arrival_s[0],
            np.zeros(requests, np.int64),
            tile * np.minimum(trace.input_tokens, 4096),
            tile * trace.output_tokens,
            np.zeros(requests, np.int64),
        ),
        quality=population,
        objective=Objective("latency", 0.95, setting.bar),
        confidence=0.95,
        seed=0,
        digest="",
    )


def one_sample(job: tuple[int, int, int, bool]) -> Sample:
    """(setting, questions, sample's number, also with the mean?) to the plans."""
    index, questions, sample, with_mean = job
    known, setting = base(index), SETTINGS[index]
    population = cascade(setting.index).population
    table = drawn(population, questions, np.random.default_rng((questions, sample)))
    row = np.random.default_rng(sample).integers(questions, size=REQUESTS)
    problem = replace(known, quality=table, workload=replace(known.workload, row=row))
    found: list[float] = []
    for trusting in (False, True):
        if trusting and not with_mean:
            found += [float("nan")] * 2
            continue
        latency_s, choice = _planned(problem, trusting)
        found += [latency_s, truth(population, choice)[0] if choice else float("nan")]
    return Sample(*found)


def _planned(problem: Problem, trusting: bool) -> tuple[float, Choice | None]:
    original = planner.with_bounds
    if trusting:
        planner.with_bounds = _mean_as_bound
    try:
        result = planner.plan(problem, effort=LIGHT)
    except Infeasible:
        return float("nan"), None
    finally:
        planner.with_bounds = original
    routing = result.chosen.deployment.routing
    routings = result.search.routings
    return result.plan.predicted.objective_s, Choice(routings.thresholds[routing], routings.deployed[routing])


def _mean_as_bound(*args: object) -> tuple[Routings, str]:
    routings, _ = with_bounds(*args)  # type: ignore[arg-type]
    return replace(routings, lower=routings.mean), "mean"


def rows(
    settings: Iterable[int], samples: int, means: int, workers: ProcessPoolExecutor
) -> Iterator[tuple[str, float]]:
    for index in settings:
        setting = SETTINGS[index]
        for questions in QUESTIONS:
            jobs = [(index, questions, sample, sample < means) for sample in range(samples)]
            found = np.array(list(workers.map(one_sample, jobs, chunksize=5)))
            bound_s, bound_q, mean_s, mean_q = found.T
            planned, trusted = np.isfinite(bound_s), np.isfinite(mean_s)
            missed = float((bound_q[planned] < setting.bar - 1e-9).sum()) / samples
            mean_missed = float((mean_q[trusted] < setting.bar - 1e-9).sum()) / max(means, 1)
            both = planned & trusted
            price = float(np.median(bound_s[both] / mean_s[both])) if both.any() else float("nan")
            cells = (
                cascade(setting.index).name,
                f"{questions}",
                f"{setting.bar:g}",
                f"{mean_missed:.1%}",
                f"{missed:.1%}",
                f"{1 - planned.mean():.1%}",
                f"{np.median(mean_s[trusted]):.2f} s",
                f"{np.median(bound_s[planned]):.2f} s" if planned.any() else "-",
                f"{price:.2f}×",
            )
            yield f"| {' | '.join(cells)} |", missed


HEAD = (
    "| cascade | questions | bar | plain mean misses | bound misses | no plan | p95, mean | p95, bound | price |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--means", type=int, default=100, help="samples that are also planned with the mean")
    parser.add_argument("--setting", type=int, choices=range(len(SETTINGS)), help="only this one")
    given = parser.parse_args(arguments)
    settings = range(len(SETTINGS)) if given.setting is None else [given.setting]
    # No table comes twice: a store of them would only grow.
    os.environ["CASCADIA_CACHE_DIR"] = os.devnull
    started, worst = time.monotonic(), 0.0
    print(HEAD)
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        for row, missed in rows(settings, given.samples, given.means, workers):
            print(row, flush=True)
            worst = max(worst, missed)
    took = f"{time.monotonic() - started:.0f} s; most misses of bounded plans {worst:.1%}"
    print(f"\n{given.samples} samples a row ({given.means} with the mean), {took}")
    return int(worst > 0.05)


if __name__ == "__main__":
    sys.exit(main())
