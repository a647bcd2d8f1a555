"""Policies played on a stream of requests by the simulator."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cascadia.domain.policy import WINDOW_S, Policies, PolicyRow
from cascadia.domain.workload import Floats
from cascadia.policy.problem import ModelProfile
from cascadia_sim.batch.simulate import BatchFleet, BatchRun, Level, Step, WorkerKind, simulate_batches
from cascadia_sim.engine.results import quantile


@dataclass(frozen=True, slots=True)
class Outcome:
    """Accuracy (0-100) of the requests in time, share (0-1) that is late or dropped, latency, and how busy (0-1) the
    workers were. `served` is the share of the requests by model; `alarms` counts decisions beyond the last level."""

    accuracy: float
    late: float
    mean_s: float
    p50_s: float
    p95_s: float
    p99_s: float
    busy: float
    batch: float
    served: tuple[float, ...]
    alarms: int

    @property
    def reward(self) -> float:
        """Accuracy that a request earns in the mean, nothing where it is late."""
        return self.accuracy * (1 - self.late)


def worker_kind(policies: Policies, models: Sequence[ModelProfile], count: int) -> WorkerKind:
    """`count` workers on which `models` (of the policies' names) take as long as their profiles say."""
    profiles = {model.name: model for model in models}
    index = {name: m for m, name in enumerate(policies.models)}

    def steps(row: PolicyRow) -> tuple[Step, ...]:
        rows = zip(row.slack_s, row.model, row.batch, strict=True)
        return tuple(
            Step(slack_s, index[model], batch, row.refuses_at(at))
            for at, (slack_s, model, batch) in enumerate(rows)
        )

    levels = tuple(Level(level.up_to, tuple(map(steps, level.rows))) for level in policies.levels)
    here = [profiles[name] for name in policies.models]
    # Only what all have can be drawn: the times of one table were measured together.
    drawn_s = tuple(model.drawn_s for model in here) if all(model.drawn_s for model in here) else ()
    return WorkerKind(count, tuple(model.latency_s for model in here), levels, drawn_s)


def play(
    policies: Policies,
    models: Sequence[ModelProfile],
    arrival_s: Floats,
    *,
    skip: int = 0,
    others: Sequence[WorkerKind] = (),
) -> Outcome:
    """Outcome of requests that arrive at `arrival_s` (n, not decreasing), the first `skip` not counted.

    `others` are further kinds of workers on the same queue, with tables of their own over the same models.
    """
    return outcome(policies, models, run_of(policies, models, arrival_s, others), skip)


def run_of(
    policies: Policies,
    models: Sequence[ModelProfile],
    arrival_s: Floats,
    others: Sequence[WorkerKind] = (),
) -> BatchRun:
    """The same by request."""
    count = policies.workers - sum(kind.count for kind in others)
    fleet = BatchFleet(
        (*((worker_kind(policies, models, count),) if count else ()), *others),
        slo_s=policies.slo_s,
        queue=policies.queue,
        index=policies.index,
        drops=policies.late == "drop",
        least_s=policies.least_s,
        window_s=WINDOW_S,
    )
    return simulate_batches(fleet, arrival_s)


def outcome(policies: Policies, models: Sequence[ModelProfile], run: BatchRun, skip: int = 0) -> Outcome:
    """Sums of a run, without its first `skip` requests."""
    by_name = {model.name: model.accuracy for model in models}
    accuracy = np.array([by_name[name] for name in policies.models])
    latency_s, model = run.latency_s[skip:], run.model[skip:]
    # Simulated times are whole picoseconds, which a deadline in seconds is not.
    in_time = latency_s <= policies.slo_s + 1e-9
    answered = np.isfinite(latency_s)
    served = np.bincount(model[answered], minlength=len(accuracy)) / max(len(model), 1)
    known = latency_s[answered] if answered.any() else np.array([np.inf])
    p50_s, p95_s, p99_s = (quantile(known, share) for share in (0.5, 0.95, 0.99))
    return Outcome(
        accuracy=float(accuracy[model[in_time]].mean()) if in_time.any() else 0.0,
        late=float(np.mean(~in_time)),
        mean_s=float(known.mean()),
        p50_s=p50_s,
        p95_s=p95_s,
        p99_s=p99_s,
        busy=float(run.busy.mean()),
        batch=float(run.batch[skip:][answered].mean()) if answered.any() else 0.0,
        served=tuple(float(share) for share in served),
        alarms=run.beyond,
    )
