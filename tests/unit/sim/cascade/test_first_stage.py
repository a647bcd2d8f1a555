"""What comes after a first stage changes nothing of it, so its run is kept."""

import numpy as np
import pytest

from cascadia_sim.cascade.cascade import CascadeStage, JudgeStage, simulate_cascade
from cascadia_sim.cascade.first_stage import FirstRuns
from cascadia_sim.cascade.stage import simulate_stage
from cascadia_sim.engine.dispatch import DEFAULT
from cascadia_sim.iteration.timing import Ints
from tests.unit.sim.machines import ints, replica

pytestmark = pytest.mark.slow

ARRIVALS = ints(*range(0, 40_000, 500))
N = ARRIVALS.size
SMALL, MEDIUM, JUDGE = replica(), replica(), replica()


def stage(replicas: int, accept: Ints, tokens: int = 10) -> CascadeStage:
    return CascadeStage(
        (SMALL,) * replicas,
        np.full(N, tokens, np.int64),
        np.full(N, 3, np.int64),
        np.zeros(N, np.int64),
        accept % 3 == 0,
    )


def cascade(second: int) -> list[CascadeStage]:
    every = np.arange(N)
    return [stage(2, every), stage(second, every // 3), stage(1, every)]


@pytest.mark.parametrize(
    "judge", [JudgeStage((JUDGE,), prompt_tokens=4), JudgeStage(latency_ps=np.full((3, N), 7))]
)
def test_deployments_that_share_a_first_stage_share_its_very_run(judge: JudgeStage) -> None:
    runs = FirstRuns()
    one, other = (simulate_cascade(cascade(s), judge, ARRIVALS, first_runs=runs) for s in (1, 2))
    assert one.stages[0].run is other.stages[0].run
    assert one.stages[1].run is not other.stages[1].run


def test_a_kept_run_is_what_the_stage_would_do_again() -> None:
    runs, judge = FirstRuns(), JudgeStage((JUDGE,), prompt_tokens=4)
    for _ in range(2):
        found = simulate_cascade(cascade(2), judge, ARRIVALS, first_runs=runs)
        alone = simulate_cascade(cascade(2), judge, ARRIVALS)
        assert found.finish_ps.tolist() == alone.finish_ps.tolist()
    # Two replicas alike, in a stage by itself.
    first = cascade(2)[0]
    lengths = first.input_tokens, first.output_tokens, first.cached_tokens
    itself = simulate_stage(first.replicas, DEFAULT, ARRIVALS, *lengths)
    assert found.stages[0].run.finish_ps.tolist() == itself.finish_ps.tolist()
    assert found.stages[0].run.busy_ps.tolist() == itself.busy_ps.tolist()


@pytest.mark.parametrize(
    "other",
    [stage(2, np.arange(N), tokens=11), stage(1, np.arange(N))],
    ids=["other lengths", "other replicas"],
)
def test_another_first_stage_has_a_run_of_its_own(other: CascadeStage) -> None:
    runs, who = FirstRuns(), np.arange(N)
    first = runs.run(stage(2, np.arange(N)), who, ARRIVALS, DEFAULT)
    second = runs.run(other, who, ARRIVALS, DEFAULT)
    assert first.finish_ps.tolist() != second.finish_ps.tolist()


def test_requests_that_come_at_other_times_have_a_run_of_their_own() -> None:
    runs, who = FirstRuns(), np.arange(N)
    first = runs.run(stage(1, who), who, ARRIVALS, DEFAULT)
    later = runs.run(stage(1, who), who, ARRIVALS + 5, DEFAULT)
    assert (later.finish_ps - first.finish_ps).tolist() == [5] * N


def test_only_the_runs_that_were_wanted_last_are_kept() -> None:
    runs, who = FirstRuns(most_requests=2 * N), np.arange(N)
    one, two, three = (runs.run(stage(s, who), who, ARRIVALS, DEFAULT) for s in (1, 2, 3))
    assert runs.run(stage(3, who), who, ARRIVALS, DEFAULT) is three
    assert runs.run(stage(2, who), who, ARRIVALS, DEFAULT) is two
    assert runs.run(stage(1, who), who, ARRIVALS, DEFAULT) is not one


def test_where_none_are_kept_a_run_is_the_same_and_made_anew() -> None:
    runs, who = FirstRuns(most_requests=0), np.arange(N)
    one, again = (runs.run(stage(1, who), who, ARRIVALS, DEFAULT) for _ in range(2))
    kept = FirstRuns().run(stage(1, who), who, ARRIVALS, DEFAULT)
    assert one is not again
    assert one.finish_ps.tolist() == again.finish_ps.tolist() == kept.finish_ps.tolist()
