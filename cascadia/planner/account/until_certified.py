"""The plan before its exits are certified: who is not drawn as evidence thinks to the end, and nobody leaves."""

from dataclasses import replace
from math import ceil

import numpy as np

from cascadia.domain.plan import ExitPromise, Plan, UntilCertified
from cascadia.exits.certify import Promise, fewest_inputs
from cascadia.planner.account.assemble import api_usd, quantiles
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.refinement.state import before_certified, broken
from cascadia.planner.search.context import Search, allowed
from cascadia_sim.iteration.timing import PS_PER_S

MOST = 6
"""Routings on the replicas of another plan that are looked at."""


def until_certified(search: Search, deployment: Deployment, promise: ExitPromise) -> UntilCertified:
    found = before_certified(search, deployment)
    assert found is not None
    problem, run = found.problem, found.run
    apis_usd = api_usd(problem, run) / max(len(problem.workload), 1)
    quality = problem.quality.quality[run.answered_by, problem.workload.row]
    inputs = fewest_inputs(Promise(promise.risk, promise.confidence))
    return UntilCertified(
        e2e=quantiles(run.latency_ps / PS_PER_S),
        objective_s=found.stability.objective_once_s,
        quality=float(quality.mean()),
        usd_per_hour=deployment.usd_per_hour + 3600.0 * problem.workload.rate_rps * apis_usd,
        requests=ceil(inputs / promise.shadow),
        why=broken(found),
    )


def first_state_note(plan: Plan) -> str:
    """Note on the plan before its exits are certified."""
    before, quantile = plan.until_certified, f"p{plan.objective.quantile * 100:g}"
    assert before is not None
    told = (
        f"exits are in force once certified, after at least {before.requests:,} requests; until then {quantile} is "
        f"{before.objective_s:.3g} s (then {plan.predicted.objective_s:.3g}), quality {before.quality:.1f} "
        f"(then {plan.predicted.quality.mean:.1f}), at {before.usd_per_hour:.2f} $/h"
    )
    return f"{told}; this does not hold until then: {before.why}" if before.why else told


def on_same_replicas(search: Search, other: Search, deployment: Deployment) -> list[Deployment]:
    """The replicas of a plan of `other`, under routings of `search` that use its stages and reach the bar. Without a
    judge on GPUs they are for routings that ask none: answers drawn as evidence are judged at the last stage too.
    """
    used = other.routings.deployed[deployment.routing]
    same = np.flatnonzero((search.routings.deployed == used).all(axis=1) & allowed(search))
    order = same[np.argsort(-search.routings.lower[same], kind="stable")]
    if search.self_hosted_judge and not deployment.judge:
        order = np.array([k for k in order.tolist() if not search.asks(k)], np.int64)
    if not len(order):
        return []
    at = np.unique(np.linspace(0, len(order) - 1, MOST).astype(int))
    return [replace(deployment, routing=int(order[k])) for k in at]
