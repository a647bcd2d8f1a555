"""A cascade: stages from small to large, and a judge that gates all but the last one deployed.

A request goes to the first stage; when its answer is done, it is judged; when the verdict is there, it is
either answered or goes to the next stage. A stage may be skipped by the question alone, which is looked at once, on
arrival.

With one gate, or verdicts that are mere delays, each part is fed by those before it and they are simulated one after
the other. A self-hosted judge that several gates share is fed by stages which its own verdicts feed: then all but the
first stage, which nobody feeds, are simulated in step (`shared_judge.py`).
"""

from collections.abc import Sequence

import numpy as np

from cascadia_sim.cascade.elsewhere import simulate_elsewhere
from cascadia_sim.cascade.first_stage import FirstRuns
from cascadia_sim.cascade.parts import (
    CascadeRun,
    CascadeStage,
    JudgeStage,
    Routing,
    StageVisits,
    Verdicts,
    judged_tokens,
    route,
    verdict_tokens,
)
from cascadia_sim.cascade.shared_judge import simulate_together
from cascadia_sim.cascade.stage import StageRun, simulate_stage
from cascadia_sim.engine.dispatch import DEFAULT, Dispatch
from cascadia_sim.errors import BadInput
from cascadia_sim.iteration.timing import Ints

__all__ = ["CascadeRun", "CascadeStage", "JudgeStage", "StageVisits", "Verdicts", "simulate_cascade"]


def simulate_cascade(
    stages: Sequence[CascadeStage],
    judge: JudgeStage | None,
    arrival_ps: Ints,
    dispatch: Dispatch = DEFAULT,
    foresight_ps: int | Ints = 0,
    first_runs: FirstRuns | None = None,
) -> CascadeRun:
    """Serves requests [n] that arrive at `arrival_ps`. `judge` may be None where nothing is judged.

    `foresight_ps` is how long the question is looked at where any stage is entered by it, of all or of each [n].
    `first_runs`: where runs of first stages are kept.
    """
    first_runs = FirstRuns() if first_runs is None else first_runs
    arrival_ps = np.asarray(arrival_ps, np.int64)
    routing = route(stages, arrival_ps.size)
    if routing.gates and judge is None:
        raise BadInput("judge", "missing, but more than one stage is deployed", "give a JudgeStage")
    seen_ps = arrival_ps + foresight_ps if routing.foresees else arrival_ps
    if judge is not None and judge.replicas and len(routing.gates) > 1:
        visits, verdicts = simulate_together(stages, judge, seen_ps, dispatch, routing, first_runs)
        return _result(arrival_ps, routing, visits, verdicts)
    visits, verdicts = _simulate_in_turn(stages, judge, seen_ps, dispatch, routing, first_runs)
    return _result(arrival_ps, routing, visits, verdicts)


def _simulate_in_turn(
    stages: Sequence[CascadeStage],
    judge: JudgeStage | None,
    arrival_ps: Ints,
    dispatch: Dispatch,
    routing: Routing,
    first_runs: FirstRuns,
) -> tuple[list[StageVisits], list[Verdicts]]:
    visits: list[StageVisits] = []
    verdicts: list[Verdicts] = []
    arrive_ps = arrival_ps.copy()
    for stage in routing.stages:
        s, who = stages[stage], routing.requests[stage]
        kept = None if visits else first_runs
        visits.append(
            StageVisits(stage, who, arrive_ps[who], _served(s, who, arrive_ps[who], dispatch, kept))
        )
        if stage in routing.gates and judge is not None:
            verdicts.append(_judge(stages, judge, visits[-1], routing))
            arrive_ps[verdicts[-1].requests] = verdicts[-1].finish_ps
    return visits, verdicts


def _served(
    stage: CascadeStage, who: Ints, arrival_ps: Ints, dispatch: Dispatch, kept: FirstRuns | None
) -> StageRun:
    if stage.elsewhere is not None:
        return simulate_elsewhere(stage.elsewhere, who, arrival_ps)
    lengths = stage.input_tokens[who], stage.output_tokens[who], stage.cached_tokens[who]
    rule = stage.own_rule
    if kept is not None and rule is None:
        return kept.run(stage, who, arrival_ps, dispatch)
    return simulate_stage(stage.replicas, dispatch, arrival_ps, *lengths, rule=rule)


def _judge(
    stages: Sequence[CascadeStage], judge: JudgeStage, visits: StageVisits, routing: Routing
) -> Verdicts:
    """The verdicts on all answers of one stage that are judged, by a judge that has no others to give."""
    who, asked_ps = routing.judged[visits.stage], visits.run.finish_ps[routing.waits(visits.stage)]
    gate = np.full(who.size, visits.stage, np.int64)
    if judge.latency_ps is not None:
        given_ps = asked_ps + judge.latency_ps[visits.stage, who]
        return Verdicts(gate, who, asked_ps, given_ps, routing.decides[visits.stage], None)
    written = verdict_tokens(judge, visits.stage, who)
    run = simulate_stage(
        judge.replicas,
        judge.dispatch,
        asked_ps,
        judged_tokens(stages, judge, visits.stage, who),
        written,
        np.full(who.size, judge.cached_tokens, np.int64),
        most_output=int(written.max(initial=judge.output_tokens)),
    )
    return Verdicts(gate, who, asked_ps, run.finish_ps, routing.decides[visits.stage], run)


def _result(
    arrival_ps: Ints, routing: Routing, visits: Sequence[StageVisits], verdicts: Sequence[Verdicts]
) -> CascadeRun:
    n = arrival_ps.size
    first_byte_ps, finish_ps, answered_by = (np.empty(n, np.int64) for _ in range(3))
    given = _merged(verdicts)
    for v in visits:
        # Requests that a later stage answers instead are overwritten there.
        first_byte_ps[v.requests], finish_ps[v.requests] = v.run.first_token_ps, v.run.finish_ps
        if v.stage in routing.gates and given is not None:
            judged = routing.judged[v.stage]
            first_byte_ps[judged] = finish_ps[judged] = given.finish_ps[given.stage == v.stage]
        answered_by[v.requests] = v.stage
    return CascadeRun(arrival_ps, first_byte_ps, finish_ps, answered_by, tuple(visits), given)


def _merged(verdicts: Sequence[Verdicts]) -> Verdicts | None:
    """All gates' verdicts as one; only a judge without replicas has them apart."""
    if len(verdicts) < 2:
        return verdicts[0] if verdicts else None
    run: StageRun | None = verdicts[0].run
    return Verdicts(
        np.concatenate([v.stage for v in verdicts]),
        np.concatenate([v.requests for v in verdicts]),
        np.concatenate([v.arrival_ps for v in verdicts]),
        np.concatenate([v.finish_ps for v in verdicts]),
        np.concatenate([v.decides for v in verdicts]),
        run,
    )
