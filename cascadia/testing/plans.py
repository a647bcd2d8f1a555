"""Plans to render: a realistic one and a factory."""

from collections.abc import Sequence

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.external import External
from cascadia.domain.gear import Gear
from cascadia.domain.objective import Objective
from cascadia.domain.plan import (
    JudgePlan,
    Plan,
    Predicted,
    Proof,
    QualityPrediction,
    Quantiles,
    ReplicaGroup,
    StagePlan,
    StagePrediction,
)
from cascadia_sim.iteration.engine_config import EngineConfig

NO_JUDGE = JudgePlan(
    "embedding", "router", None, engine="vllm", quantization=None, max_model_len=0, replicas=()
)


FRONTIER_API = External(
    2.5,
    10.0,
    ttft_p50_s=0.6,
    ttft_p95_s=1.5,
    tpot_p50_s=0.012,
    tpot_p95_s=0.03,
    base_url="https://api.example.com",
    api_key_env="FRONTIER_KEY",
)
"""Somebody else's, without a limit."""


def quantiles(p50_s: float) -> Quantiles:
    return Quantiles(mean_s=p50_s, p50_s=p50_s, p95_s=2 * p50_s, p99_s=3 * p50_s)


def prediction(name: str, p50_s: float = 4.0) -> StagePrediction:
    return StagePrediction(
        name,
        1.0,
        0.5,
        rate_rps=6.0,
        latency=quantiles(p50_s),
        ttft=quantiles(0.1),
        utilisation=0.6,
        tokens_per_s=4000.0,
    )


def stage(name: str, *replicas: ReplicaGroup, model: str = "org/model", **changes: object) -> StagePlan:
    fields: dict[str, object] = {
        "engine": "vllm",
        "quantization": None,
        "max_model_len": 8192,
        "config": EngineConfig(),
    } | changes
    return StagePlan(name=name, model=model, replicas=replicas, **fields)  # type: ignore[arg-type]


def plan(stages: Sequence[StagePlan], cluster: Cluster, judge: JudgePlan = NO_JUDGE) -> Plan:
    predicted = Predicted(
        e2e=quantiles(5.0),
        ttft=quantiles(0.5),
        objective_s=10.0,
        stage_bound_s=8.0,
        quality=QualityPrediction(86.0, 85.1, 0.95, "bound", 1000),
        stages=tuple(prediction(s.name) for s in stages),
        judge=prediction("judge", 0.2) if judge.gpus else None,
        rate_rps=6.0,
        usd_per_hour=80.0,
        usd_per_1k_requests=3.7,
    )
    thresholds = (50.0,) * (len(stages) - 1)
    return Plan(
        version=1,
        objective=Objective("latency", quality_min=85.0),
        cluster=cluster,
        thresholds=thresholds,
        stages=tuple(stages),
        judge=judge,
        predicted=predicted,
        gears=(Gear(None, 4.0, tuple(s.name for s in stages if s.deployed), thresholds),),
        proof=Proof("optimal", "columns", 8.0, 8.0, 0.0),
        seed=7,
        digest="0f" * 32,
        wall_s=1.0,
    )


POOLS = Cluster(
    (
        Pool("h100", "h100-sxm", nodes=5, gpus_per_node=8, usd_per_gpu_hour=2.67),
        Pool("l4", "l4", nodes=2, gpus_per_node=4, usd_per_gpu_hour=0.8),
    )
)


def three_stages() -> Plan:
    """Mixed shapes, two pools, both engines, pipelines over nodes, a self-hosted judge."""
    return plan(
        [
            stage(
                "small",
                ReplicaGroup("h100", tp=1, pp=1, count=4, share=0.7),
                ReplicaGroup("l4", tp=2, pp=1, count=2, share=0.3),
                model="meta-llama/Llama-3.1-8B-Instruct",
            ),
            stage(
                "medium",
                ReplicaGroup("h100", tp=4, pp=1, count=1, share=0.25),
                ReplicaGroup("h100", tp=4, pp=3, count=1, share=0.75),
                model="meta-llama/Llama-3.1-70B-Instruct",
                engine="sglang",
                quantization="fp8",
                config=EngineConfig(max_num_batched_tokens=4096, kv_cache_dtype="fp8"),
            ),
            stage(
                "large",
                ReplicaGroup("h100", tp=8, pp=2, count=1, share=1.0),
                model="meta-llama/Llama-3.1-405B-Instruct-FP8",
                quantization="fp8",
                max_model_len=16384,
                config=EngineConfig(max_num_seqs=128, gpu_memory_utilization=0.92),
            ),
        ],
        POOLS,
        JudgePlan(
            "llm",
            "self-hosted",
            "meta-llama/Llama-3.1-8B-Instruct",
            engine="vllm",
            quantization=None,
            max_model_len=4096,
            replicas=(ReplicaGroup("h100", tp=1, pp=1, count=1, share=1.0),),
        ),
    )
