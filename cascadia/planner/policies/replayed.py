"""A written plan of one-pass models on any trace, by the simulation that predicted it."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cascadia.domain.errors import BadInput
from cascadia.domain.plan import Plan, Predicted, QualityPrediction
from cascadia.domain.policy import Policies
from cascadia.domain.workload import Floats
from cascadia.planner.policies.planned import predict_one_pass
from cascadia.planner.policies.played import Outcome, run_of
from cascadia.planner.policies.wanted import Wanted, judged, long_enough
from cascadia.policy.problem import ModelProfile
from cascadia_sim.batch.simulate import BatchRun


class ReplayedPolicies(NamedTuple):
    """`rounds` of the trace were played, one after the other, as a plan's are where it is short."""

    predicted: Predicted
    outcome: Outcome
    rounds: int


def replay_policies(plan: Plan, arrival_s: Floats) -> ReplayedPolicies:
    """The fate of requests that arrive then, counted as the plan's were. Raises `BadInput` where the plan has no
    policies, or more groups."""
    if len(arrival_s) < 2 or arrival_s[-1] <= arrival_s[0]:
        raise BadInput("trace", "has fewer than two moments", "take a longer one")
    policies, models = _planned(plan)
    objective = plan.objective
    long_s, rounds = long_enough(arrival_s, policies.slo_s)
    wanted = Wanted(
        long_s,
        slo_s=policies.slo_s,
        late_max=1 - objective.quantile,
        accuracy_min=objective.quality_min,
        late=policies.late,
    )
    run, judged_s, outcome = judged(policies, models, wanted)
    predicted = predict_one_pass(
        policies, models, run, judged_s, skip=wanted.skip, quantile=objective.quantile
    )
    usd_per_hour = plan.predicted.usd_per_hour
    predicted = replace(
        predicted,
        quality=_quality(plan.predicted.quality, predicted.quality),
        usd_per_hour=usd_per_hour,
        usd_per_1k_requests=usd_per_hour / 3.6 / predicted.rate_rps,
    )
    return ReplayedPolicies(predicted, outcome, rounds)


def run_policies(plan: Plan, arrival_s: Floats) -> tuple[Policies, tuple[ModelProfile, ...], BatchRun]:
    """The same by request, of the trace once, beside the policies and the models that they name."""
    policies, models = _planned(plan)
    return policies, models, run_of(policies, models, np.asarray(arrival_s, np.float64))


def _planned(plan: Plan) -> tuple[Policies, tuple[ModelProfile, ...]]:
    if len(plan.policies) != 1:
        raise BadInput("plan: policies", f"are of {len(plan.policies)} groups", "plan one group at a time")
    policies = plan.policies[0]
    profiles = []
    for at, stage in enumerate(plan.stages):
        if stage.name not in policies.models:
            continue
        if stage.accuracy is None or not stage.batch_s:
            raise BadInput(f"plan: stages[{at}]", "says neither accuracy nor batch_s", "plan again")
        try:
            profiles.append(ModelProfile(stage.name, stage.accuracy, stage.batch_s, stage.batch_drawn_s))
        except ValueError as error:
            raise BadInput(f"plan: stages[{at}]", str(error), "plan again") from None
    return policies, tuple(profiles)


def _quality(planned: QualityPrediction, found: QualityPrediction) -> QualityPrediction:
    """`found`, with the error of as many texts as the plan's own mean was measured on."""
    spread = planned.mean * (100 - planned.mean)
    if not planned.questions or spread <= 0:
        return replace(planned, mean=found.mean, lower=found.mean - (planned.mean - planned.lower))
    off = (planned.mean - planned.lower) * (found.mean * (100 - found.mean) / spread) ** 0.5
    return replace(planned, mean=found.mean, lower=max(found.mean - off, 0.0))
