"""A cascade whose gates share one self-hosted judge: judge and stages behind the first simulated in step.

Gate 2's verdicts queue with gate 1's, on which gate 2's arrivals depend. The kernel moves all lanes from
instant to instant, and a visit that ends sets off the next one: verdict, the next stage's answer, its verdict, and
so on. A stage elsewhere answers by itself. The first stage is fed by nobody and is simulated before.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cascadia_sim.cascade.by_rule import QueueingRule, Rule, Ruled, run
from cascadia_sim.cascade.elsewhere import Elsewhere, apis_of
from cascadia_sim.cascade.first_stage import FirstRuns
from cascadia_sim.cascade.parts import (
    CascadeStage,
    JudgeStage,
    Routing,
    StageVisits,
    Verdicts,
    judged_tokens,
    verdict_tokens,
)
from cascadia_sim.cascade.stage import StageRun, check_replicas
from cascadia_sim.engine.arrays import Apis, network_of, no_paths
from cascadia_sim.engine.dispatch import Dispatch, Replica, check_dispatch
from cascadia_sim.engine.requests import RequestArrays, check_fit, check_ran, request_arrays
from cascadia_sim.iteration.timing import Ints


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Replicas behind one dispatch rule, and the visits to them, numbered on from the group before.

    `most_output`: what the dispatcher knows that no answer exceeds, in tokens. `elsewhere` has the times of the visits
    to a stage without replicas. `rule` shares visits in place of `dispatch`.
    """

    replicas: tuple[Replica, ...]
    dispatch: Dispatch
    visits: RequestArrays
    most_output: int | None = None
    elsewhere: Elsewhere | None = None
    rule: Rule | QueueingRule | None = None


def simulate_together(
    stages: Sequence[CascadeStage],
    judge: JudgeStage,
    arrival_ps: Ints,
    dispatch: Dispatch,
    routing: Routing,
    first_runs: FirstRuns,
) -> tuple[list[StageVisits], list[Verdicts]]:
    """Visits of each stage reached, and the verdicts of all gates as one."""
    entry, successor = _successors(stages, routing, arrival_ps.size)
    come_ps, together, arrivals, runs = arrival_ps, routing.stages, list[Ints](), list[StageRun]()
    if stages[first := together[0]].elsewhere is None and stages[first].rule is None:
        who, together = routing.requests[first], together[1:]
        arrivals.append(arrival_ps[who])
        runs.append(first_runs.run(stages[first], who, arrivals[0], dispatch))
        # Its visits, the first in number, are over; what they set off comes from outside, as do those who skip it.
        over, enters = who.size, entry >= who.size
        answered = successor[:over] >= 0
        come_ps = np.concatenate([runs[0].finish_ps[answered], arrival_ps[enters]])
        entry = np.concatenate([successor[:over][answered], entry[enters]]) - over
        successor = np.maximum(successor[over:] - over, -1)
    groups = [_stage_group(stages[s], dispatch, routing.requests[s], arrival_ps) for s in together]
    more_arrivals, more_runs = _run(
        [*groups, _judge_group(stages, judge, routing)], entry, come_ps, successor
    )
    arrivals, runs = [*arrivals, *more_arrivals], [*runs, *more_runs]
    visits = [StageVisits(s, routing.requests[s], arrivals[i], runs[i]) for i, s in enumerate(routing.stages)]
    gate = np.concatenate([np.full(routing.judged[g].size, g, np.int64) for g in routing.gates])
    who = np.concatenate([routing.judged[g] for g in routing.gates])
    decides = np.concatenate([routing.decides[g] for g in routing.gates])
    return visits, [Verdicts(gate, who, arrivals[-1], runs[-1].finish_ps, decides, runs[-1])]


def _stage_group(stage: CascadeStage, dispatch: Dispatch, who: Ints, arrival_ps: Ints) -> _Group:
    lengths = stage.input_tokens[who], stage.output_tokens[who], stage.cached_tokens[who]
    visits, api = request_arrays(arrival_ps[who], *lengths), stage.elsewhere
    if api is None:
        return _Group(stage.replicas, dispatch, visits, rule=stage.own_rule)
    times = Elsewhere(api.first_ps[who], api.whole_ps[who], api.per_minute)
    return _Group((), dispatch, visits, elsewhere=times)


def _judge_group(stages: Sequence[CascadeStage], judge: JudgeStage, routing: Routing) -> _Group:
    tokens = np.concatenate([judged_tokens(stages, judge, g, routing.judged[g]) for g in routing.gates])
    n = tokens.size
    written = np.concatenate([verdict_tokens(judge, g, routing.judged[g]) for g in routing.gates])
    visits = request_arrays(np.zeros(n, np.int64), tokens, written, np.full(n, judge.cached_tokens, np.int64))
    return _Group(judge.replicas, judge.dispatch, visits, int(written.max(initial=judge.output_tokens)))


def _successors(stages: Sequence[CascadeStage], routing: Routing, n: int) -> tuple[Ints, Ints]:
    """Each request's first visit [n], and which visit each visit sets off: an answer behind a gate its verdict, a
    rejection the answer of the next stage that the request enters."""
    sizes = [routing.requests[s].size for s in routing.stages]
    first_answer = np.cumsum([0, *sizes])
    verdict = first_answer[-1] + sum(routing.judged[g].size for g in routing.gates)
    successor = np.full(verdict, -1, np.int64)
    following = np.full(n, -1, np.int64)
    # From the last stage on: `following` has then, of each request, the next stage that it enters.
    for i in range(len(sizes) - 1, -1, -1):
        stage, who = routing.stages[i], routing.requests[routing.stages[i]]
        if stage in routing.gates:
            judged = routing.judged[stage]
            verdict -= judged.size
            answers = successor[first_answer[i] : first_answer[i + 1]]
            answers[routing.waits(stage)] = verdict + np.arange(judged.size)
            rejected = routing.rejected(stage, stages)
            successor[verdict : verdict + judged.size][rejected] = following[judged[rejected]]
        following[who] = first_answer[i] + np.arange(sizes[i])
    return following, successor


def _run(
    groups: Sequence[_Group], entry: Ints, come_ps: Ints, successor: Ints
) -> tuple[list[Ints], list[StageRun]]:
    """Arrival times and runs by group; `entry` are the visits that come from outside, at `come_ps`."""
    from cascadia_sim.engine import kernel
    from cascadia_sim.engine.fleet import fleet_of, requests_of, sites_of

    for g in groups:
        check_dispatch(g.dispatch)
        if g.elsewhere is None:
            check_replicas(g.replicas)
            check_fit(g.visits, [r.timing for r in g.replicas])
    replicas = [r for g in groups for r in g.replicas]
    fleet, sites = fleet_of([r.timing for r in replicas]), sites_of(replicas, [g.most_output for g in groups])
    requests = requests_of(
        *(np.concatenate(column) for column in zip(*(g.visits for g in groups), strict=True))
    )
    requests.arrival_ps[entry] = come_ps
    sizes = [g.visits.arrival_ps.size for g in groups]
    network = network_of(
        np.repeat(np.arange(len(groups), dtype=np.int64), sizes),
        successor,
        entry[np.argsort(come_ps, kind="stable")],
        sizes=[len(g.replicas) for g in groups],
        by_load=np.array(
            [kernel.OWN_RULE if g.rule else g.dispatch == "least-outstanding" for g in groups], np.int64
        ),
        most_load=np.full(len(groups), np.inf),
        apis=_apis(groups),
    )
    first_replica = network.first_replica
    paths = no_paths(successor.size, entry.size)
    ruled = [
        Ruled(i, np.arange(first_replica[i], first_replica[i + 1]), [r.timing for r in g.replicas], g.rule)
        for i, g in enumerate(groups)
        if g.rule is not None
    ]
    run(fleet, requests, sites, network, paths, until_ps=kernel.NEVER, ruled=ruled)
    for visit, came_ps in ((v, ps) for each in ruled for v, ps in each.came_ps.items()):
        requests.arrival_ps[visit] = came_ps
    check_ran(requests.arrival_ps, requests.finish_ps)
    first_token_ps, finish_ps = (t + paths.wait_ps for t in (requests.first_token_ps, requests.finish_ps))
    runs, arrivals = [], []
    busy_ps = fleet.state[:, kernel.BUSY] // fleet.limits[:, kernel.STAGES]
    ends = np.cumsum(sizes)
    for i, end in enumerate(ends):
        mine, own = slice(end - sizes[i], end), slice(first_replica[i], first_replica[i + 1])
        arrivals.append(requests.arrival_ps[mine])
        runs.append(
            StageRun(
                replica=network.replica[mine] - own.start,
                first_token_ps=first_token_ps[mine],
                finish_ps=finish_ps[mine],
                busy_ps=busy_ps[own] if groups[i].replicas else np.zeros(1, np.int64),
                preemptions=int(fleet.state[own, kernel.PREEMPTIONS].sum()),
                span_ps=int(finish_ps[mine].max() - requests.arrival_ps[mine].min()),
            )
        )
    return arrivals, runs


def _apis(groups: Sequence[_Group]) -> Apis:
    """Stages elsewhere, with the times of each visit; those of others are not read."""
    apis = apis_of([g.elsewhere for g in groups])
    if not apis.elsewhere.any():
        return apis
    none = [np.zeros(g.visits.arrival_ps.size, np.int64) for g in groups]
    times = [g.elsewhere or Elsewhere(own, own) for g, own in zip(groups, none, strict=True)]
    return apis._replace(
        first_ps=np.concatenate([t.first_ps for t in times]),
        whole_ps=np.concatenate([t.whole_ps for t in times]),
    )
