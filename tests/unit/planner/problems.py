"""Problems without files: models of the catalogue on made traffic, small enough to plan in half a second."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.objective import Objective
from cascadia.domain.problem import Judge, Problem, Stage
from cascadia.domain.quality import QualityTable
from cascadia.planner.plan import PlanResult, plan
from cascadia.planner.problem.join import join
from cascadia.planner.refinement.state import Effort
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.models.catalogue import architecture
from cascadia_traces.trace import Trace

SMALL = "Qwen/Qwen2.5-1.5B-Instruct"
MEDIUM = "meta-llama/Llama-3.1-8B-Instruct"
LARGE = "Qwen/Qwen2.5-32B-Instruct"
FIVE = ("Qwen/Qwen2.5-0.5B-Instruct", SMALL, MEDIUM, "Qwen/Qwen2.5-14B-Instruct", LARGE)

EXTERNAL = Judge("llm", "external", latency_p50_s=0.2, latency_p95_s=0.5)
ON_ROUTER = Judge("embedding", "router", latency_p50_s=0.01, latency_p95_s=0.02)
NODE = Pool("h100-sxm", "h100-sxm", 1, 8, 2.5)


def hosted_judge(model: str = SMALL) -> Judge:
    return Judge(
        "llm",
        "self-hosted",
        model=model,
        architecture=architecture(model),
        config=EngineConfig(),
        prompt_tokens=200,
    )


def traffic(requests: int = 200, rate_rps: float = 40.0, seed: int = 0) -> Trace:
    """Poisson arrivals; answers of about 120 tokens to questions of about 500."""
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(1 / rate_rps, requests)
    read = np.clip(rng.lognormal(6.2, 0.6, requests), 8, 3000).astype(np.int64)
    wrote = np.clip(rng.lognormal(4.8, 0.5, requests), 4, 900).astype(np.int64)
    return Trace(np.cumsum(gaps) - gaps[0], read, wrote)


def problem(
    models: Sequence[str] = (MEDIUM, LARGE),
    *,
    pools: Sequence[Pool] = (NODE,),
    judge: Judge = EXTERNAL,
    objective: Objective | None = None,
    quality_min: float = 52.0,
    trace: Trace | None = None,
    table: QualityTable | None = None,
    quantization: str | None = None,
    seed: int = 0,
) -> Problem:
    known = table if table is not None else rising_table(len(models))
    config = EngineConfig(quantization=quantization)
    return Problem(
        stages=tuple(
            Stage(name, model, architecture(model), engine="vllm", quantization=quantization, config=config)
            for name, model in zip(known.stages, models, strict=True)
        ),
        cluster=Cluster(tuple(pools)),
        judge=judge,
        workload=join(trace or traffic(), known, seed=seed).workload,
        quality=known,
        objective=objective or Objective("latency", 0.95, quality_min),
        confidence=0.95,
        seed=seed,
        digest="0" * 64,
    )


def rising_table(
    stages: int, *, prompts: int = 200, levels: int = 5, seed: int = 0, slope: float = 22
) -> QualityTable:
    """Each stage is better than the one before; the gate sees quality with noise, on few levels.

    The steeper, the more answers are wholly right or wrong, and the better a gate tells who gains by going on.
    """
    rng = np.random.default_rng(seed)
    hard = rng.normal(size=prompts)
    ability = np.linspace(0.0, 1.2, stages)[:, None]
    quality = np.clip(55 + slope * (ability - hard + 0.5 * rng.normal(size=(stages, prompts))), 0, 100)
    score = (
        np.round(np.clip(quality + 10 * rng.normal(size=quality.shape), 0, 100) / 100 * levels) * 100 / levels
    )
    return quality_table(score, quality)


def quality_table(score: object, quality: object) -> QualityTable:
    seen = np.asarray(score, dtype=np.float64)
    return QualityTable(
        tuple(f"p{i}" for i in range(seen.shape[1])),
        tuple(f"s{i}" for i in range(len(seen))),
        seen,
        quality=np.asarray(quality, dtype=np.float64),
        input_tokens=np.full(seen.shape, 500.0),
        output_tokens=np.full(seen.shape, 120.0),
    )


SHORT = Effort(routings=4, combinations=300, simulated_requests=2_000)
LEAST = Effort(routings=1, combinations=30, simulated_requests=0, fewest_simulations=1)


def briefly(given: Problem, **asked: Any) -> PlanResult:
    """The plan after a short search, for what holds of every plan however long was searched for it."""
    return plan(given, **{"effort": SHORT, **asked})
