"""Share of what its replicas sustain that a stage is sent: 1 is the most that it could carry for ever.

Requests go to the replica with the least in hand, so that unequal replicas are busy alike: together they sustain the
sum of what each does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from cascadia.domain.problem import Problem
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.deployment.options import Mix
from cascadia.planner.routing.routings import Decisions
from cascadia.planner.tables.capacity import Sustained
from cascadia.planner.tables.loads import Load, judge_load, period_ps, stage_load
from cascadia_sim.iteration.timing import PS_PER_S


@dataclass(eq=False)
class Capacities:
    """Capacities of deployments, by what their replicas sustain."""

    sustained: Sustained = field(default_factory=Sustained)

    def share(self, mix: Mix, load: Load) -> float:
        """Share of the mix's capacity that the load takes."""
        if not len(load):
            return 0.0
        total = sum(r.count * r.shape.there * self.sustained.rps(r.shape.timing, load) for r in mix)
        return load.rate_rps / total if total > 0 else np.inf

    def shares(self, problem: Problem, deployment: Deployment, decided: Decisions) -> Mapping[int, float]:
        """Shares by stage index, and under `JUDGE` for a judge with GPUs; of those that have replicas or a limit."""
        reached = decided.reached
        found = {
            s: self.share(mix, stage_load(problem, s, reached[s]))
            for s, mix in deployment.mixes
            if s != JUDGE and mix
        }
        found |= limit_shares(problem, decided)
        if deployment.judge:
            found[JUDGE] = self.share(deployment.judge, judge_load(problem, reached, decided.judged))
        return found


def limit_shares(problem: Problem, decided: Decisions) -> Mapping[int, float]:
    """Shares of their requests_per_minute that APIs are sent, by stage; of those that have a limit and are asked."""
    limits = {
        s: stage.external.requests_per_minute for s, stage in enumerate(problem.stages) if stage.external
    }
    if not any(limits.values()):
        return {}
    period, asked = period_ps(problem), decided.reached.sum(axis=1)
    sent = asked * (60.0 * PS_PER_S / period if period > 0 else 0.0)
    return {s: float(sent[s]) / limit for s, limit in limits.items() if limit and asked[s]}
