"""Plans for tests: one by hand, and any that could be."""

from dataclasses import replace

from hypothesis import strategies as st

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.gear import Gear
from cascadia.domain.names import NAME
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
    StagePlan,
    StagePrediction,
)
from cascadia.testing.plans import plan, stage


def a_plan() -> Plan:
    """Two stages and a judge on two nodes, and a gear for rising load, in the format of today."""
    made = plan(
        [
            stage("small", ReplicaGroup("h100-sxm", 1, 1, 3, 1.0), model="a/b"),
            stage(
                "large",
                ReplicaGroup("h100-sxm", 4, 1, 1, 0.4),
                ReplicaGroup("h100-sxm", 4, 2, 1, 0.6),
                model="a/c",
                engine="sglang",
                quantization="fp8",
                max_model_len=32768,
            ),
        ],
        Cluster((Pool("h100-sxm", "h100-sxm", 2, 8, 2.67),)),
        JudgePlan(
            "llm",
            "self-hosted",
            "a/d",
            engine="vllm",
            quantization=None,
            max_model_len=8192,
            replicas=(ReplicaGroup("h100-sxm", 1, 1, 1, 1.0),),
        ),
    )
    return replace(
        made,
        version=FORMAT_VERSION,
        thresholds=(62.5,),
        gears=(Gear(40.0, 6.0, ("small", "large"), (62.5,)), Gear(None, None, ("small",), (50.0,))),
    )


_FINITE = st.floats(allow_nan=False, allow_infinity=False)
_NAMES = st.from_regex(NAME, fullmatch=True).map(lambda name: f"{name[:12]}-")


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Consistent plans with odd names and numbers."""
    pool = Pool(draw(_NAMES), draw(_NAMES), 10, 8, draw(st.floats(0, 1e3)))
    names = draw(st.lists(_NAMES, min_size=1, max_size=4, unique=True))
    stages = tuple(
        StagePlan(
            name,
            draw(_NAMES),
            draw(st.sampled_from(["vllm", "sglang"])),
            quantization=draw(st.none() | _NAMES),
            max_model_len=draw(st.integers(1, 10**6)),
            replicas=(ReplicaGroup(pool.name, draw(st.integers(1, 8)), 1, 1, 1.0),),
        )
        for name in names
    )
    thresholds = tuple(draw(st.floats(0, 101)) for _ in names[1:])
    times = st.builds(Quantiles, _FINITE, _FINITE, _FINITE, _FINITE)
    stage = st.builds(
        StagePrediction,
        st.sampled_from(names),
        _FINITE,
        _FINITE,
        rate_rps=_FINITE,
        latency=times,
        ttft=times,
        utilisation=_FINITE,
        tokens_per_s=_FINITE,
    )
    predicted = st.builds(
        Predicted,
        times,
        times,
        _FINITE,
        _FINITE,
        st.builds(QualityPrediction, _FINITE, _FINITE, _FINITE, _NAMES, st.integers(1)),
        st.lists(stage, max_size=4).map(tuple),
        st.none() | stage,
        _FINITE,
        _FINITE,
        _FINITE,
    )
    return Plan(
        FORMAT_VERSION,
        Objective("cost", draw(st.floats(0.01, 0.99)), draw(st.none() | st.floats(0, 100)), draw(_FINITE)),
        Cluster((pool,)),
        thresholds=thresholds,
        stages=stages,
        judge=JudgePlan(
            "certainty", "router", None, engine="vllm", quantization=None, max_model_len=1, replicas=()
        ),
        predicted=draw(predicted),
        gears=(Gear(None, draw(st.floats(1e-3, 1e6)), tuple(names), thresholds),),
        proof=Proof("incumbent", "paper", draw(_FINITE), draw(_FINITE), draw(_FINITE)),
        seed=draw(st.integers(0, 2**63)),
        digest=draw(_NAMES),
        wall_s=draw(_FINITE),
    )
