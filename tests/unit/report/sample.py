"""A plan and a report such as a real run gives: three stages on 32 H100s, the Azure trace at 10 requests/s."""

from dataclasses import replace

import numpy as np

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.gear import Gear
from cascadia.domain.objective import Objective
from cascadia.domain.plan import (
    FORMAT_VERSION,
    JudgePlan,
    Plan,
    Predicted,
    Proof,
    QualityPrediction,
    Quantiles,
    ReplicaGroup,
    Stability,
    StagePlan,
    StagePrediction,
)
from cascadia.report.data import (
    AttainmentCurve,
    FrontierPoint,
    KneePoint,
    LatencySamples,
    QualityStep,
    QueueLength,
    RateSensitivity,
    ReportData,
)


def sample_plan() -> Plan:
    stages = (
        StagePlan(
            "small",
            "meta-llama/Llama-3.1-8B-Instruct",
            "vllm",
            quantization=None,
            max_model_len=32768,
            replicas=(ReplicaGroup("h100", 1, 1, 4, 1.0),),
        ),
        StagePlan(
            "medium",
            "meta-llama/Llama-3.1-70B-Instruct",
            "vllm",
            quantization=None,
            max_model_len=32768,
            replicas=(ReplicaGroup("h100", 4, 1, 2, 1.0),),
        ),
        StagePlan(
            "large",
            "meta-llama/Llama-3.1-405B-Instruct",
            "sglang",
            quantization="fp8",
            max_model_len=32768,
            replicas=(ReplicaGroup("h100", 8, 1, 1, 0.54), ReplicaGroup("h100", 4, 2, 1, 0.46)),
        ),
    )
    predictions = (
        StagePrediction(
            "small",
            1.0,
            0.6213,
            rate_rps=10.0,
            latency=Quantiles(2.31, 1.93, 4.87, 7.42),
            ttft=Quantiles(0.071, 0.052, 0.163, 0.291),
            utilisation=0.9973,
            tokens_per_s=12930.0,
            load=0.584,
        ),
        StagePrediction(
            "medium",
            0.3787,
            0.2462,
            rate_rps=3.787,
            latency=Quantiles(5.62, 4.81, 9.94, 13.7),
            ttft=Quantiles(0.214, 0.178, 0.433, 0.712),
            utilisation=0.9973,
            tokens_per_s=5187.0,
            load=0.731,
        ),
        StagePrediction(
            "large",
            0.1325,
            0.1325,
            rate_rps=1.325,
            latency=Quantiles(7.35, 6.28, 11.21, 15.6),
            ttft=Quantiles(0.382, 0.322, 0.804, 1.27),
            utilisation=0.9973,
            tokens_per_s=1921.0,
            load=0.812,
        ),
    )
    judge = StagePrediction(
        "judge",
        1.3787,
        0.0,
        rate_rps=13.787,
        latency=Quantiles(0.047, 0.041, 0.092, 0.131),
        ttft=Quantiles(0.047, 0.041, 0.092, 0.131),
        utilisation=0.9973,
        tokens_per_s=15840.0,
        load=0.312,
    )
    predicted = Predicted(
        e2e=Quantiles(4.83, 2.94, 14.62, 22.9),
        ttft=Quantiles(3.46, 1.97, 10.8, 17.3),
        objective_s=14.62,
        stage_bound_s=11.21,
        quality=QualityPrediction(86.42, 85.13, 0.95, "max-t bootstrap", 1000),
        stages=predictions,
        judge=judge,
        rate_rps=10.0,
        usd_per_hour=80.1,
        usd_per_1k_requests=2.225,
    )
    return Plan(
        version=FORMAT_VERSION,
        objective=Objective("latency", 0.95, 85.0),
        cluster=Cluster((Pool("h100", "h100-sxm", 4, 8, 2.67),)),
        thresholds=(71.0, 83.5),
        stages=stages,
        judge=JudgePlan(
            "llm",
            "self-hosted",
            "meta-llama/Llama-3.1-8B-Instruct",
            engine="vllm",
            quantization=None,
            max_model_len=32768,
            replicas=(ReplicaGroup("h100", 1, 1, 2, 1.0),),
        ),
        predicted=predicted,
        gears=(
            Gear(40.0, 8.0, ("small", "medium", "large"), (76.0, 88.0)),
            Gear(None, None, ("small", "medium"), (71.0, 83.5)),
        ),
        proof=Proof("optimal", "columns", 11.21, 11.21, 0.0),
        seed=7,
        digest="9f2c4e1ab07d5b63" * 4,
        wall_s=1.84,
        stability=Stability(
            8,
            1,
            14.62,
            p95_repeated_s=15.37,
            objective_once_s=14.62,
            objective_repeated_s=15.37,
            backlog_first=48.7,
            backlog_last=49.3,
        ),
        headroom=1.44,
    )


def sample_report() -> ReportData:
    """All sections filled."""
    rng = np.random.default_rng(3)
    n = 20_000
    reached = rng.random(n)
    small = rng.lognormal(0.62, 0.55, n)
    medium = rng.lognormal(1.55, 0.42, n)
    large = rng.lognormal(1.83, 0.36, n)
    e2e = small + np.where(reached < 0.3787, medium, 0) + np.where(reached < 0.1325, large, 0)
    e2e *= 14.62 / np.quantile(e2e, 0.95)
    scale = np.linspace(0.5, 12, 80)
    curves = []
    for name, middle in (
        ("Cascadia", 1.5),
        ("CascadeServe", 2.6),
        ("Uniform allocation", 3.3),
        ("Uniform parallelism", 2.9),
        ("RouteLLM-style pre-router", 3.6),
        ("405B alone", 5.4),
    ):
        attainment = 1 / (1 + (middle / scale) ** 5)
        curves.append(AttainmentCurve(name, scale, attainment, middle * 19**0.2, chosen=name == "Cascadia"))
    minutes = np.linspace(0, 3600, 240)
    return ReportData(
        plan=sample_plan(),
        notes=("12 inputs longer than a model's context were cut to fit.",),
        spec_name="cascade.yaml",
        version="0.1.0",
        date="2025-06-03",
        gpu_names={"h100-sxm": "H100"},
        latency=LatencySamples(
            e2e, {"small": small, "medium": medium[reached < 0.3787], "large": large[reached < 0.1325]}
        ),
        queues=tuple(
            QueueLength(
                name,
                minutes,
                np.maximum(0, np.round(size + size * np.sin(minutes / 380 + size))),
                int(2 * size),
                600.0,
            )
            for name, size in (("small", 2.0), ("medium", 5.0), ("large", 3.0))
        ),
        frontier=(
            *(
                FrontierPoint(q, q - 1.3, latency, usd)
                for q, latency, usd in (
                    (71.2, 5.1, 1.2),
                    (77.9, 7.8, 1.5),
                    (82.4, 10.9, 1.9),
                    (88.1, 19.4, 2.6),
                    (89.9, 27.5, 3.1),
                    (90.8, 41.0, 3.9),
                )
            ),
            FrontierPoint(86.42, 85.13, 14.62, 2.225, "this plan", chosen=True),
            FrontierPoint(86.3, 85.0, 24.3, 2.9, "CascadeServe", baseline=True),
            FrontierPoint(86.4, 85.1, 29.8, 2.225, "Uniform allocation", baseline=True),
            FrontierPoint(86.0, 84.8, 33.1, 2.7, "RouteLLM-style pre-router", baseline=True),
            FrontierPoint(91.1, 89.9, 55.2, 5.6, "405B alone", baseline=True),
        ),
        knee=(
            KneePoint(38.4, 31.0, 13, {"small": (ReplicaGroup("h100-sxm", 2, 1, 2, 1.0),)}),
            KneePoint(85.44, 14.62, 32, {"small": (ReplicaGroup("h100-sxm", 4, 1, 2, 1.0),)}, chosen=True),
            KneePoint(95.0, 14.4, 36, {"small": (ReplicaGroup("h100-sxm", 4, 1, 3, 1.0),)}, fastest=True),
        ),
        attainment=tuple(curves),
        slo_base_s=5.0,
        rate_sensitivity=RateSensitivity(
            np.array([0.5, 0.75, 1.0, 1.25, 1.5, 1.75]),
            np.array([2.5, 2.7, 2.94, 3.4, 4.8, np.nan]),
            np.array([11.9, 13.0, 14.62, 18.7, 31.0, np.nan]),
            np.array([17.0, 19.4, 22.9, 32.1, 58.0, np.nan]),
        ),
        quality_sensitivity=(
            QualityStep(75, 7.7, {"small": 18, "medium": 12, "large": 0}, 1.5),
            QualityStep(80, 10.8, {"small": 14, "medium": 16, "large": 0}, 1.9),
            QualityStep(85, 14.62, {"small": 4, "medium": 8, "large": 16}, 2.225),
            QualityStep(88, 24.1, {"small": 2, "medium": 4, "large": 24}, 2.6),
            QualityStep(92, float("nan"), {}, float("nan")),
        ),
    )


def bare_report() -> ReportData:
    """What a plan alone gives."""
    return ReportData(plan=replace(sample_plan(), gears=()))
