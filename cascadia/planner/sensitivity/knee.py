"""Price of latency: of all deployments that were simulated, those that none beats in both.

A curve of what was tried, not of what there is: a search for the fastest plan looks little at cheap ones.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from cascadia.domain.plan import ReplicaGroup
from cascadia.planner.account.assemble import groups
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.plan import PlanResult
from cascadia.planner.refinement.refine import Candidate
from cascadia.planner.stability.certificate import OVERLOADED

MOST = 16
"""So many points are kept, evenly by cost, the chosen and the fastest among them."""


@dataclass(frozen=True, slots=True)
class KneePoint:
    """A deployment of the asked quality. `latency_s` is of the objective's quantile, end to end; `quality_lower` holds
    with the plan's confidence; `replicas` are by stage, the judge's under `judge`."""

    usd_per_hour: float
    latency_s: float
    gpus: int
    _: KW_ONLY
    quality_lower: float
    replicas: dict[str, tuple[ReplicaGroup, ...]]
    chosen: bool
    fastest: bool


def knee(result: PlanResult) -> tuple[KneePoint, ...]:
    """Points by rising cost and falling latency; empty for the goal `quality`, whose candidates differ in it."""
    if result.search.problem.objective.goal == "quality":
        return ()
    bar = result.search.problem.objective.quality_min or 0.0
    sure = {c.deployment.key: c for c in (result.fastest, result.chosen)}
    others = [
        c
        for c in result.candidates
        if c.deployment.key not in sure
        and c.quality_lower >= bar
        and all(_may_hold(c, mine) for mine in sure.values())
    ]
    fastest_s = result.fastest.latency_s
    found = unbeaten([*sure.values(), *(c for c in others if c.latency_s > fastest_s)])
    named = [
        c for c in found if c.deployment.key in (result.chosen.deployment.key, result.fastest.deployment.key)
    ]
    step = max(1, -(-len(found) // (MOST - len(named))))
    kept = [c for at, c in enumerate(found) if at % step == 0 or c in named]
    return tuple(_point(result, c) for c in kept)


def _may_hold(c: Candidate, certified: Candidate) -> bool:
    """Tells whether a candidate may hold: only the best are certified to carry the traffic. What seems to beat
    one of these was refused, or passed over as the twin of what was.
    """
    refused = c.certificate is not None and not c.certificate.holds
    beats = c.latency_s <= certified.latency_s and c.usd_per_hour <= certified.usd_per_hour
    return not refused and not beats and c.load <= OVERLOADED


def unbeaten(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates that no other beats in both $/h and latency, by rising cost."""
    kept: list[Candidate] = []
    for c in sorted(candidates, key=lambda c: (c.usd_per_hour, c.latency_s)):
        if not kept or c.latency_s < kept[-1].latency_s:
            kept.append(c)
    return kept


def _point(result: PlanResult, c: Candidate) -> KneePoint:
    names = [stage.name for stage in result.search.problem.stages]
    replicas = {"judge" if s == JUDGE else names[s]: groups(mix) for s, mix in c.deployment.mixes}
    return KneePoint(
        c.usd_per_hour,
        c.latency_s,
        c.deployment.gpus,
        quality_lower=c.quality_lower,
        replicas=replicas,
        chosen=c.deployment.key == result.chosen.deployment.key,
        fastest=c.deployment.key == result.fastest.deployment.key,
    )
