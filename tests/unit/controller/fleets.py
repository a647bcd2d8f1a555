"""Fleets drawn at random: what is observed, in any state, and what is wanted of the same GPUs."""

from collections import Counter

from hypothesis import strategies as st

from cascadia.controller.move.state import Desired, Kind, Observed, Replica, Routing

STAGES = ("small", "large")
KINDS = (
    Kind("small", "a", 1, "v1"),
    Kind("small", "a", 1, "v2"),
    Kind("small", "b", 1),
    Kind("large", "a", 1),
    Kind("large", "a", 2, "tp2"),
    Kind("large", "b", 2),
)
CAPACITY = {kind: 1.0 * kind.gpus + 0.25 * (kind.spec == "v2") for kind in KINDS}


@st.composite
def moves(draw: st.DrawFn, most: int = 3) -> tuple[Observed, Desired]:
    """Any observed state, and a plan that its GPUs hold."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=2, max_size=4, unique=True))
    counts = {kind: draw(st.integers(0, most)) for kind in kinds}
    stages = tuple(s for s in STAGES if any(n for k, n in counts.items() if k.stage == s))
    if not stages:
        counts[kinds[0]] = 1
        stages = (kinds[0].stage,)
    replicas = tuple(
        Replica(
            f"{kind.stage}-{i}",
            kind,
            draw(st.sampled_from(["ready", "ready", "ready", "starting", "draining", "failed"])),
            draw(st.integers(0, 2)),
        )
        for i, kind in enumerate(draw(st.lists(st.sampled_from(kinds), max_size=most + 1)))
    )
    pools = ("a", "b")
    used = Counter(dict.fromkeys(pools, 0))
    used.update({p: sum(r.kind.gpus for r in replicas if r.kind.pool == p) for p in pools})
    wanted = {p: sum(k.gpus * n for k, n in counts.items() if k.pool == p) for p in pools}
    gpus = {p: max(used[p], wanted[p]) + draw(st.integers(0, 1)) for p in pools}
    served = tuple(s for s in STAGES if any(r.state == "ready" and r.kind.stage == s for r in replicas))
    routing = (
        draw(st.sampled_from([None, Routing(served, (50.0,)), Routing(served, (70.0,))])) if served else None
    )
    rps = st.sampled_from([0.0, 0.5, 1.0, 2.0])
    need = {stage: draw(rps) for stage in STAGES}
    later = {stage: draw(rps) for stage in stages}
    surge = {p: draw(st.integers(0, 1)) for p in pools}
    observed = Observed(replicas, gpus, routing, need)
    return observed, Desired(counts, Routing(stages, (70.0,)), later, CAPACITY, surge)
