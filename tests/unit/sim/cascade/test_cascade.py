"""Requests climb the cascade in order, and verdicts cost what the judge takes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia_sim.cascade.cascade import CascadeRun, CascadeStage, JudgeStage, simulate_cascade
from cascadia_sim.cascade.stage import Replica, simulate_stage
from cascadia_sim.engine.dispatch import Dispatch
from cascadia_sim.errors import BadInput
from cascadia_sim.iteration.timing import Ints
from tests.examples import examples
from tests.unit.sim.machines import ints, machine, replica, small_machines

pytestmark = pytest.mark.slow


def stage(*accept: int, replicas: int = 1, tokens: int = 10, written: int = 2) -> CascadeStage:
    n = len(accept)
    return CascadeStage(
        tuple(replica() for _ in range(replicas)),
        np.full(n, tokens, np.int64),
        np.full(n, written, np.int64),
        np.zeros(n, np.int64),
        np.array(accept, dtype=bool),
    )


def delay(*ps: int, requests: int) -> JudgeStage:
    return JudgeStage(latency_ps=np.repeat(np.array(ps, dtype=np.int64)[:, None], requests, axis=1))


ALONE_PS = 1010 + 1001  # ten tokens read, two written


def test_a_rejected_request_arrives_at_the_next_stage_with_its_verdict() -> None:
    run = simulate_cascade([stage(1, 0), stage(1, 1)], delay(7, 0, requests=2), ints(0, 90_000))
    assert run.answered_by.tolist() == [0, 1]
    assert run.finish_ps.tolist() == [ALONE_PS + 7, 90_000 + ALONE_PS + 7 + ALONE_PS]
    assert run.stages[1].requests.tolist() == [1]
    assert run.stages[1].arrival_ps.tolist() == [90_000 + ALONE_PS + 7]


def test_nothing_leaves_before_the_verdict_and_the_last_stage_streams() -> None:
    run = simulate_cascade([stage(1, 0), stage(1, 1)], delay(7, 0, requests=2), ints(0, 90_000))
    assert run.first_byte_ps.tolist() == [run.finish_ps[0], 90_000 + ALONE_PS + 7 + 1010]


def test_the_last_deployed_stage_accepts_all() -> None:
    run = simulate_cascade([stage(0), stage(0, replicas=0)], None, ints(5))
    assert run.answered_by.tolist() == [0]
    assert run.verdicts is None
    assert run.finish_ps.tolist() == [5 + ALONE_PS]


def test_a_stage_without_replicas_is_skipped() -> None:
    stages = [stage(0, replicas=0), stage(0), stage(1, replicas=0), stage(0)]
    run = simulate_cascade(stages, delay(99, 7, 99, 99, requests=1), ints(0))
    assert run.answered_by.tolist() == [3]
    assert run.finish_ps.tolist() == [2 * ALONE_PS + 7]
    assert [v.stage for v in run.stages] == [1, 3]


def test_a_stage_that_nobody_reaches_is_not_run() -> None:
    run = simulate_cascade([stage(1, 1), stage(1, 1)], delay(0, 0, requests=2), ints(0, 1))
    assert [v.stage for v in run.stages] == [0]


def test_a_verdict_reads_instruction_question_and_answer() -> None:
    judge = JudgeStage((replica(),), prompt_tokens=50, output_tokens=2)
    run = simulate_cascade([stage(1), stage(1)], judge, ints(0))
    assert run.verdicts is not None
    assert run.verdicts.arrival_ps.tolist() == [ALONE_PS]
    assert run.finish_ps.tolist() == [ALONE_PS + 1000 + 50 + 10 + 2 + 1001]


def test_the_cached_instruction_is_not_read_again() -> None:
    judge = JudgeStage((replica(),), prompt_tokens=50, output_tokens=1, cached_tokens=50)
    run = simulate_cascade([stage(1), stage(1)], judge, ints(0))
    assert run.finish_ps.tolist() == [ALONE_PS + 1000 + 10 + 2]


def test_gates_share_one_judge_and_queue_at_it() -> None:
    slow = Replica(machine(seqs=1, token_ps=np.full(300, 50_000, np.int64)))
    judge = JudgeStage((slow,), "round-robin", output_tokens=1)
    # The second request's answer is ready while the judge reads the first one's at gate 2.
    first_verdict = ALONE_PS + 50_000
    second_asked = first_verdict + ALONE_PS
    arrival = ints(0, second_asked + 10 - ALONE_PS)
    run = simulate_cascade([stage(0, 1), stage(1, 1), stage(1, 1)], judge, arrival)
    assert run.verdicts is not None
    assert run.verdicts.stage.tolist() == [0, 0, 1]
    assert run.verdicts.requests.tolist() == [0, 1, 0]
    assert run.verdicts.finish_ps.tolist() == [first_verdict, second_asked + 100_000, second_asked + 50_000]
    assert run.finish_ps.tolist() == [second_asked + 50_000, second_asked + 100_000]


def relaxed(
    stages: list[CascadeStage], judge: JudgeStage, arrival_ps: Ints, dispatch: Dispatch
) -> tuple[Ints, dict[int, Ints]]:
    """Finish and verdict times by waveform relaxation: whole stages again and again until nothing changes."""
    gates = range(len(stages) - 1)
    who = [np.arange(arrival_ps.size)]
    for s in gates:
        who.append(who[-1][~stages[s].accept[who[-1]]])
    verdict = [np.zeros(w.size, np.int64) for w in who[:-1]]
    while True:
        finishes = []
        for s, w in enumerate(who):
            come = arrival_ps if s == 0 else verdict[s - 1][~stages[s - 1].accept[who[s - 1]]]
            columns = (
                c[w] for c in (stages[s].input_tokens, stages[s].output_tokens, stages[s].cached_tokens)
            )
            finishes.append(simulate_stage(stages[s].replicas, dispatch, come, *columns).finish_ps)
        lengths = [stages[g].input_tokens[who[g]] + stages[g].output_tokens[who[g]] for g in gates]
        tokens = np.concatenate(lengths) + judge.prompt_tokens
        asked = np.concatenate(finishes[:-1])
        n = tokens.size
        run = simulate_stage(
            judge.replicas,
            judge.dispatch,
            asked,
            tokens,
            np.full(n, judge.output_tokens),
            np.zeros(n, int),
            most_output=judge.output_tokens,
        )
        after = np.split(run.finish_ps, np.cumsum([w.size for w in who[:-1]])[:-1])
        if all((a == b).all() for a, b in zip(after, verdict, strict=True)):
            finish = np.zeros(arrival_ps.size, np.int64)
            for s, w in enumerate(who):
                finish[w] = finishes[s] if s == len(stages) - 1 else verdict[s]
            return finish, dict(enumerate(verdict))
        verdict = after


@settings(max_examples=examples(150))
@given(st.integers(0, 2**32), st.integers(3, 4), st.integers(1, 25), st.data())
def test_stages_and_judge_in_step_agree_with_relaxing_them_apart(
    seed: int, depth: int, n: int, data: st.DataObject
) -> None:
    rules = st.sampled_from(["round-robin", "least-outstanding"])
    dispatch, judging = data.draw(rules), data.draw(rules)
    rng = np.random.default_rng(seed)
    fleet = small_machines(rng)
    stages = [
        CascadeStage(
            tuple(
                Replica(fleet[rng.integers(3)], float(rng.integers(1, 3))) for _ in range(rng.integers(1, 3))
            ),
            rng.integers(1, 20, n),
            rng.integers(1, 20, n),
            np.zeros(n, np.int64),
            rng.random(n) < 0.4,
        )
        for _ in range(depth)
    ]
    judge = JudgeStage(
        tuple(Replica(fleet[rng.integers(3)]) for _ in range(rng.integers(1, 3))), judging, 3, 2
    )
    arrival_ps = np.cumsum(rng.choice([0, 500, 8_000, 30_000], n))
    run = simulate_cascade(stages, judge, arrival_ps, dispatch)
    finish_ps, verdict_ps = relaxed(stages, judge, arrival_ps, dispatch)
    assert run.finish_ps.tolist() == finish_ps.tolist()
    assert run.verdicts is not None
    for gate, given_ps in verdict_ps.items():
        assert run.verdicts.finish_ps[run.verdicts.stage == gate].tolist() == given_ps.tolist()


def busy_cascade(judge: JudgeStage) -> CascadeRun:
    rng = np.random.default_rng(3)
    n = 300
    stages = [
        CascadeStage(
            (replica(), replica(2.0)),
            rng.integers(1, 30, n),
            rng.integers(1, 9, n),
            np.zeros(n, np.int64),
            rng.random(n) < 0.5,
        )
        for _ in range(3)
    ]
    return simulate_cascade(stages, judge, np.arange(n) * 1_500)


@pytest.mark.parametrize("judge", [JudgeStage((replica(),), prompt_tokens=9), delay(5, 6, 7, requests=300)])
def test_every_request_is_answered_once_after_every_stage_before(judge: JudgeStage) -> None:
    run = busy_cascade(judge)
    assert (run.finish_ps >= run.first_byte_ps).all()
    assert (run.latency_ps > 0).all()
    assert sum(v.requests.size for v in run.stages) == (run.answered_by + 1).sum()
    assert run.verdicts is not None
    asked = np.bincount(run.verdicts.requests, minlength=300)
    assert asked.tolist() == np.minimum(run.answered_by + 1, 2).tolist()
    assert (run.verdicts.finish_ps >= run.verdicts.arrival_ps).all()


def test_a_cascade_without_what_it_needs_is_refused() -> None:
    with pytest.raises(BadInput, match="none is deployed"):
        simulate_cascade([stage(1, replicas=0)], None, ints(0))
    with pytest.raises(BadInput, match="JudgeStage"):
        simulate_cascade([stage(1), stage(1)], None, ints(0))
    with pytest.raises(BadInput, match="either replicas or latency_ps"):
        JudgeStage()
    with pytest.raises(BadInput, match="either replicas or latency_ps"):
        replace(delay(0, requests=1), replicas=(replica(),))


def skipping(*enter: int, accept: tuple[int, ...]) -> CascadeStage:
    return replace(stage(*accept), enter=np.array(enter, dtype=bool))


def test_a_stage_skipped_by_the_question_costs_one_look_and_no_answer() -> None:
    stages = [skipping(1, 0, accept=(1, 1)), stage(1, 1)]
    run = simulate_cascade(stages, delay(7, 0, requests=2), ints(0, 90_000), foresight_ps=5)
    assert run.answered_by.tolist() == [0, 1]
    # Both are looked at on arrival; who enters waits for a verdict as well.
    assert run.finish_ps.tolist() == [5 + ALONE_PS + 7, 90_000 + 5 + ALONE_PS]
    assert [visits.requests.tolist() for visits in run.stages] == [[0], [1]]


def test_a_stage_that_all_skip_is_not_run() -> None:
    stages = [skipping(0, 0, accept=(1, 1)), stage(0, 1), stage(1, 1)]
    run = simulate_cascade(stages, delay(7, 3, 0, requests=2), ints(0, 90_000), foresight_ps=5)
    assert [visits.stage for visits in run.stages] == [1, 2]
    assert run.answered_by.tolist() == [2, 1]
    assert run.finish_ps.tolist() == [5 + ALONE_PS + 3 + ALONE_PS, 90_000 + 5 + ALONE_PS + 3]


def test_nobody_skips_the_last_stage_that_is_deployed() -> None:
    run = simulate_cascade([skipping(0, accept=(0,)), stage(1, replicas=0)], None, ints(0), foresight_ps=5)
    assert run.answered_by.tolist() == [0]
    assert run.finish_ps.tolist() == [ALONE_PS]


def test_who_enters_a_stage_that_is_not_judged_is_answered_there_and_needs_no_judge() -> None:
    stages = [replace(skipping(1, 0, accept=(0, 0)), judged=False), stage(1, 1)]
    run = simulate_cascade(stages, None, ints(0, 90_000), foresight_ps=5)
    assert run.answered_by.tolist() == [0, 1]
    assert run.finish_ps.tolist() == [5 + ALONE_PS, 90_000 + 5 + ALONE_PS]
    assert run.verdicts is None


@pytest.mark.parametrize("seed", range(6))
def test_who_skips_stages_behind_a_queueing_judge_goes_where_it_would_behind_a_mere_delay(seed: int) -> None:
    """The judge is so fast that its queue is none: paths and answers are then those of verdicts without delay, and
    times are those within its own few picoseconds."""
    rng = np.random.default_rng(seed)
    n = 40
    arrivals = np.sort(rng.integers(0, 40 * ALONE_PS, n))
    enters = [rng.random(n) < 0.6 for _ in range(3)]
    accepts = [rng.random(n) < 0.5 for _ in range(3)]
    stages = [
        replace(stage(*accept), enter=enter, judged=judged)
        for accept, enter, judged in zip(accepts, enters, (True, seed % 2 == 0, True), strict=True)
    ]
    stages.append(stage(*np.ones(n, dtype=int)))
    queued = simulate_cascade(
        stages, JudgeStage((replica(),) * 50, output_tokens=1), arrivals, foresight_ps=5
    )
    delayed = simulate_cascade(stages, delay(0, 0, 0, 0, requests=n), arrivals, foresight_ps=5)
    assert queued.answered_by.tolist() == delayed.answered_by.tolist()
    assert [v.stage for v in queued.stages] == [v.stage for v in delayed.stages]
    for a, b in zip(queued.stages, delayed.stages, strict=True):
        assert a.requests.tolist() == b.requests.tolist()
    first = queued.stages[0]
    assert first.arrival_ps.tolist() == (arrivals[first.requests] + 5).tolist()
    assert (queued.finish_ps >= delayed.arrival_ps + 5 + ALONE_PS).all()
