"""Exits of the last stage in use: their trials wait for verdicts, though no verdict there sends anybody on."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from cascadia.domain.objective import Objective
from cascadia.domain.plan import ExitPromise
from cascadia.domain.points import Points
from cascadia.domain.problem import Judge, Problem
from cascadia.planner.account.verdicts import asked_of
from cascadia.planner.allocation.demand import JUDGE, Replicas
from cascadia.planner.deployment.deployment import deployment
from cascadia.planner.deployment.options import Option
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.plan import NO_CLIMB, plan
from cascadia.planner.refinement.refine import effort_for
from cascadia.planner.refinement.state import windowed
from cascadia.planner.routing.frontier import all_routings
from cascadia.planner.routing.points import Setting
from cascadia.planner.routing.routings import ACCEPTS_NONE
from cascadia.planner.search.composition import Composer
from cascadia.planner.search.context import Search, start_search
from cascadia.planner.search.exit_settings import tries, under
from cascadia.planner.search.reference_tables import judge_tokens
from cascadia.planner.stability.repeats import repeated
from cascadia.planner.tables.loads import arrival_ps, judge_load, verdict_reads, verdicts_each
from cascadia.planner.thinning import thinned
from cascadia_sim.cascade.cascade import CascadeStage, JudgeStage, simulate_cascade
from cascadia_sim.cascade.stage import Replica
from cascadia_sim.iteration.timing import PS_PER_S
from tests.unit.planner.pointed import with_exits
from tests.unit.planner.problems import hosted_judge
from tests.unit.sim.machines import machine

MEDIAN = Objective("latency", 0.5, 60.0)
DELAYED = Judge("llm", "external", latency_p50_s=2.0, latency_p95_s=2.0)
BOTH_OPEN = Setting((60.0, 60.0, ACCEPTS_NONE), (2,))


def alone(judge: Judge, requests: int = 50, rate_rps: float = 6.0) -> Problem:
    """A stage with two exits and nothing behind it."""
    both = with_exits(MEDIAN, requests=requests, rate_rps=rate_rps)
    w, known = both.workload, both.points
    assert known is not None
    first = [0, 1, 2]
    table, points = both.quality, known.table
    return replace(
        both,
        stages=both.stages[:1],
        judge=judge,
        workload=replace(w, input_tokens=w.input_tokens[:1], output_tokens=w.output_tokens[:1]),
        quality=_rows(table, [0]),
        points=Points(_rows(points, first), (0, 0, 0), known.trial_tokens[first]),
    )


def _rows(table, rows):  # type: ignore[no-untyped-def]
    taken = {
        name: getattr(table, name)[rows] for name in ("score", "quality", "input_tokens", "output_tokens")
    }
    return replace(table, stages=tuple(table.stages[row] for row in rows), **taken)


def trials_of(problem: Problem, setting: Setting) -> np.ndarray:
    """Trials of each request, from exit to exit; the whole answer is nobody's to judge."""
    assert problem.points is not None
    score = problem.points.table.score[:, problem.workload.row]
    return np.where(score[0] >= setting.levels[0], 1, 2)


@pytest.fixture
def searched() -> Iterator[Callable[[Problem], Search]]:
    with ThreadPoolExecutor(1) as threads:

        def search(exiting: Problem) -> Search:
            routings = replace(all_routings(exiting.quality), tries=tries(exiting))
            return start_search(exiting, routings, threads)

        yield search


def test_an_answer_of_the_last_stage_waits_for_the_verdicts_on_its_trials(
    searched: Callable[[Problem], Search],
) -> None:
    """A plan had them at once."""
    problem = alone(DELAYED)
    exiting, asked = under(problem, BOTH_OPEN), trials_of(problem, BOTH_OPEN)
    assert set(asked.tolist()) == {1, 2}
    search = searched(exiting)
    decided = search.decisions(0)
    assert not decided.judged.any()
    assert search.asks(0)
    mix = (Replicas(search.shapes[0][0], 4, 4.0),)
    run = Simulator.of(exiting).run(deployment(0, {0: mix}), decided)
    waited = (run.finish_ps - run.stages[0].run.finish_ps) / PS_PER_S
    assert waited == pytest.approx(2.0 * asked)
    assert run.verdicts is not None
    assert not run.verdicts.decides.any()
    assert asked_of(exiting, run.verdicts).tolist() == asked.tolist()
    # As the search composes it too.
    rows, fixed = Composer.on(exiting).rows(search.routings, 0, [0], [[Option(mix, 1.0)]])
    assert rows[0][0] + fixed == pytest.approx(run.latency_ps / PS_PER_S)


def test_a_judge_on_gpus_is_planned_for_trials_at_the_last_stage(
    searched: Callable[[Problem], Search],
) -> None:
    """Of one stage there were no replicas of a judge at all."""
    judge = replace(hosted_judge(), output_tokens=3)
    problem = alone(judge)
    exiting, asked = under(problem, BOTH_OPEN), trials_of(problem, BOTH_OPEN)
    search = searched(exiting)
    assert search.self_hosted_judge
    asker, gate = search.demands(0)
    assert (asker.stage, gate.stage, asker.gated) == (0, JUDGE, True)
    none = np.zeros((1, len(asked)), np.bool_)
    load = judge_load(exiting, ~none, none)
    assert load.output_tokens.tolist() == (3 * asked).tolist()
    # Instructions, question and trial, once or twice; the thinking is not read.
    w, table = exiting.workload, exiting.quality
    scale = w.output_tokens[0] / table.output_tokens[0, w.row]
    read = asked * (judge.prompt_tokens + w.input_tokens[0] + 40 * scale)
    assert np.abs(load.input_tokens - read).max() <= 1
    # What all routings are priced by is just that.
    assert judge_tokens(search, np.array([0]))[0] == pytest.approx(load.input_tokens.sum())
    shape, small = search.shapes[JUDGE][0], search.shapes[0][0]
    mixes = {0: (Replicas(small, 4, 4.0),), JUDGE: (Replicas(shape, 1, 1.0),)}
    run = Simulator.of(exiting).run(deployment(0, mixes), search.decisions(0))
    assert run.verdicts is not None
    assert run.verdicts.run is not None
    assert (run.finish_ps == run.verdicts.finish_ps).all()


def test_without_exits_one_stage_has_no_judge(searched: Callable[[Problem], Search]) -> None:
    search = searched(under(alone(hosted_judge()), Setting((ACCEPTS_NONE,) * 3, (2,))))
    assert not search.self_hosted_judge
    assert not search.asks(0)
    assert [demand.stage for demand in search.demands(0)] == [0]


def test_gates_share_the_judge_with_the_last_stages_trials() -> None:
    """Both in one run of the simulator: the judge's own queue is of all."""
    both = with_exits(MEDIAN, requests=40)
    assert both.points is not None
    points = Points(both.points.table, (0, 1, 1, 1), both.points.trial_tokens[[3, 0, 1, 2]])
    problem = replace(both, points=points, judge=replace(hosted_judge(), output_tokens=3))
    exiting = under(problem, Setting((ACCEPTS_NONE, 50.0, 50.0, ACCEPTS_NONE), (0, 3)))
    every = np.ones((2, 40), np.bool_)
    gated = every & np.array([[True], [False]])
    asked = verdicts_each(exiting, gated)
    on = np.arange(40) % 2 == 0
    stages = [
        CascadeStage(
            (Replica(machine(kv=1_000_000)),),
            exiting.workload.input_tokens[s],
            exiting.workload.output_tokens[s],
            np.zeros(40, np.int64),
            accept=~on if s == 0 else ~every[0],
            judged=gated[s],
            tried=~gated[s] & (asked[s] > 0),
        )
        for s in range(2)
    ]
    gate = JudgeStage(
        (Replica(machine(kv=1_000_000)),),
        prompt_tokens=200,
        output_tokens=3,
        read_tokens=verdict_reads(exiting, gated),
        verdicts=asked,
    )
    run = simulate_cascade(stages, gate, arrival_ps(exiting))
    assert run.verdicts is not None
    # All wait at the gate, and who goes on waits for its trials as well, then is answered whatever they say.
    assert (run.answered_by == on).all()
    assert run.verdicts.stage.tolist() == [0] * 40 + [1] * 20
    assert run.verdicts.decides.tolist() == [True] * 40 + [False] * 20
    assert run.finish_ps[on].tolist() == run.verdicts.finish_ps[40:].tolist()
    assert (run.verdicts.arrival_ps[40:] == run.stages[1].run.finish_ps).all()


def test_whoever_is_drawn_is_drawn_in_every_round_and_window() -> None:
    """Verdicts were drawn anew where a trace is repeated, thinned or cut: some who wrote no trial waited for three."""
    promise = ExitPromise(0.01, 0.9, 0.3)
    problem = replace(alone(DELAYED, requests=300), exits=promise)
    exiting = under(problem, BOTH_OPEN)
    gates = np.zeros((1, 300), np.bool_)
    once, drawn = verdicts_each(exiting, gates), exiting.workload.drawn
    assert drawn is not None
    # Both trials and the answer at the end.
    assert set(once[drawn].tolist()) == {3}
    assert 0.2 < drawn.mean() < 0.4
    twice = repeated(Simulator.of(exiting), 2).problem
    assert verdicts_each(twice, np.tile(gates, 2)).tolist() == np.tile(once, 2).tolist()
    for part in (windowed(exiting, 40), thinned(exiting, 60)):
        w = part.workload
        assert w.drawn is not None
        counts = verdicts_each(part, np.zeros(w.drawn.shape, np.bool_))
        assert (counts[w.drawn] == 3).all()
        assert (counts[~w.drawn] < 3).all()


@pytest.mark.slow
def test_a_plan_of_one_stage_with_exits_has_replicas_of_its_judge() -> None:
    problem = alone(replace(hosted_judge(), output_tokens=1))
    made = plan(problem, effort=replace(effort_for(problem.cluster), **NO_CLIMB)).plan
    assert any(not each.last for each in made.stages[0].exits), "there is nothing to test without"
    assert made.judges
    assert made.judge.replicas
    told = made.predicted.judge
    assert told is not None
    assert told.reached > 0.5
