"""A written plan of one-pass models on any trace, by the simulation that predicted it."""

import numpy as np

from cascadia.domain.errors import BadInput
from cascadia.domain.plan import Plan, Predicted
from cascadia.domain.policy import Policies
from cascadia.domain.workload import Floats
from cascadia.planner.policies.planned import predict_one_pass
from cascadia.planner.policies.played import Outcome, outcome, run_of
from cascadia.policy.problem import ModelProfile
from cascadia_sim.batch.simulate import BatchRun


def replay_policies(plan: Plan, arrival_s: Floats) -> tuple[Predicted, Outcome]:
    """The fate of requests that arrive then. Raises `BadInput` where the plan has no policies, or more groups."""
    if len(arrival_s) < 2 or arrival_s[-1] <= arrival_s[0]:
        raise BadInput("trace", "has fewer than two moments", "take a longer one")
    policies, models, run = run_policies(plan, arrival_s)
    predicted = predict_one_pass(policies, models, run, arrival_s, quantile=plan.objective.quantile)
    return predicted, outcome(policies, models, run)


def run_policies(plan: Plan, arrival_s: Floats) -> tuple[Policies, tuple[ModelProfile, ...], BatchRun]:
    """The same by request, beside the policies and the models that they name."""
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
    models = tuple(profiles)
    return policies, models, run_of(policies, models, np.asarray(arrival_s, np.float64))
