"""Whether a plan holds, told without the planner's certificate: its own replicas on its own trace, eight times."""

from typing import NamedTuple

import numpy as np

from cascadia.domain.plan import Plan, ReplicaGroup
from cascadia.domain.problem import Judge, Problem, Stage
from cascadia.planner.routing.routings import decided
from cascadia_sim.cascade.cascade import CascadeRun, CascadeStage, JudgeStage, simulate_cascade
from cascadia_sim.cascade.stage import Replica
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.build import replica_timing

TIMES = 8


class Played(NamedTuple):
    """p95 of the trace once and eight times, and how many requests are under way when each round ends."""

    once_s: float
    again_s: float
    under_way: list[int]


def played_again(plan: Plan, problem: Problem, times: int = TIMES) -> Played:
    w = problem.workload
    period_s = float(w.arrival_s[-1] + w.arrival_s[-1] / (len(w) - 1))
    arrival_s = np.concatenate([w.arrival_s + k * period_s for k in range(times)])
    many = _run(plan, problem, arrival_s, times)
    one = _run(plan, problem, w.arrival_s, 1)
    done_s = many.finish_ps / 1e12
    ends_s = [(k + 1) * period_s for k in range(times)]
    return Played(
        float(np.quantile(one.latency_ps / 1e12, 0.95)),
        float(np.quantile(done_s - arrival_s, 0.95)),
        [int(((arrival_s <= end) & (done_s > end)).sum()) for end in ends_s],
    )


def _run(
    plan: Plan, problem: Problem, arrival_s: "np.ndarray[tuple[int], np.dtype[np.float64]]", times: int
) -> CascadeRun:
    w, table = problem.workload, problem.quality
    deployed = np.array([s.deployed for s in plan.stages])
    on = decided(table, deployed, plan.thresholds, plan.skip_below or None).take(w.row)
    stages = []
    for s, (known, planned) in enumerate(zip(problem.stages, plan.stages, strict=True)):
        hit = np.floor(w.prefix_tokens * known.config.prefix_cache_hit_rate).astype(np.int64)
        stages.append(
            CascadeStage(
                _replicas(plan, known, planned.replicas),
                np.tile(w.input_tokens[s], times),
                np.tile(w.output_tokens[s], times),
                np.tile(np.minimum(hit, w.input_tokens[s] - 1), times),
                np.tile(on.accepts[s], times),
            )
        )
    return simulate_cascade(stages, _judge(plan, problem, times), np.rint(arrival_s * 1e12).astype(np.int64))


def _judge(plan: Plan, problem: Problem, times: int) -> JudgeStage | None:
    judge = problem.judge
    if judge.placement != "self-hosted":
        some = np.full(
            (len(problem.stages), times * len(problem.workload)), round(judge.latency_p50_s * 1e12)
        )
        return JudgeStage(latency_ps=some)
    if not plan.judge.replicas:
        return None
    replicas = _replicas(plan, judge, plan.judge.replicas)
    return JudgeStage(replicas, prompt_tokens=judge.prompt_tokens, output_tokens=judge.output_tokens)


def _replicas(plan: Plan, known: Stage | Judge, groups: tuple[ReplicaGroup, ...]) -> tuple[Replica, ...]:
    made = []
    for group in groups:
        pool = plan.cluster.pool(group.pool)
        assert known.architecture is not None
        assert known.config is not None
        timing = replica_timing(
            known.architecture,
            gpu(pool.gpu),
            tp=group.tp,
            pp=group.pp,
            config=known.config,
            gpus_per_node=pool.gpus_per_node,
        )
        made += [Replica(timing, group.share / group.count)] * group.count
    return tuple(made)
