"""A written plan, replayed: on its own traffic it shows what it predicted."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pytest

from cascadia.domain.cluster import Pool
from cascadia.domain.errors import BadInput
from cascadia.domain.plan import ASKS_NONE, Mixture, Plan, Predicted
from cascadia.domain.problem import Judge
from cascadia.domain.quality import QualityTable
from cascadia.files.plan_file import read_plan, write_plan
from cascadia.planner.replay.replay import replay
from cascadia.planner.stability.certificate import MOST_ROUNDS
from cascadia_traces.trace import Trace
from tests.examples import first_in_ci
from tests.unit.planner.problems import (
    EXTERNAL,
    FIVE,
    LARGE,
    MEDIUM,
    ON_ROUTER,
    SMALL,
    briefly,
    hosted_judge,
    problem,
    rising_table,
    traffic,
)

pytestmark = pytest.mark.slow

TRACE = traffic(1500)
FAST = replace(TRACE, arrival_s=TRACE.arrival_s / 4)
CASES: dict[str, tuple[Sequence[str], Judge]] = {
    "hosted": (FIVE[1:4], hosted_judge()),
    "foreseen": ((MEDIUM, LARGE), ON_ROUTER),
    "external": ((MEDIUM, LARGE), EXTERNAL),
    "router": ((MEDIUM, LARGE), ON_ROUTER),
}


@dataclass(frozen=True)
class Made:
    plan: Plan
    table: QualityTable


@pytest.fixture(scope="module", params=first_in_ci(CASES, 2))
def made(request: pytest.FixtureRequest) -> Made:
    models, judge = CASES[request.param]
    table = rising_table(len(models))
    if request.param == "foreseen":
        # The judge sees less in an answer than in the question: so some are not asked for.
        table = replace(
            table, foreseen=np.clip(table.quality + 5.0, 0, 100), score=np.clip(table.score, 40, 60)
        )
    found = briefly(problem(models, judge=judge, trace=TRACE, table=table)).plan
    assert sum(s.deployed for s in found.stages) > 1
    assert any(found.skip_below) == (request.param == "foreseen")
    return Made(found, table)


def test_unequal_replicas_are_written_as_they_were_simulated(tmp_path: Path) -> None:
    pools = (Pool("b", "h100-sxm", 1, 1, 3.0), Pool("a", "l40s", 1, 3, 1.0))
    table = rising_table(1)
    found = briefly(
        problem((SMALL,), pools=pools, judge=ON_ROUTER, trace=FAST, table=table, quality_min=0.0)
    ).plan
    shares = [g.share / g.count for g in found.stages[0].replicas]
    assert len(set(shares)) > 1
    write_plan(found, tmp_path / "plan.json")
    shown = replay(read_plan(tmp_path / "plan.json"), FAST, folder=tmp_path, table=table)
    assert without_quality(shown.predicted) == without_quality(found.predicted)


def without_quality(predicted: Predicted) -> dict[str, object]:
    return {f.name: getattr(predicted, f.name) for f in fields(predicted) if f.name != "quality"}


@pytest.mark.long(in_ci=1)
def test_on_its_own_trace_and_table_a_plan_shows_exactly_what_it_predicted(
    made: Made, tmp_path: Path
) -> None:
    shown = replay(made.plan, TRACE, folder=tmp_path, table=made.table)
    assert without_quality(shown.predicted) == without_quality(made.plan.predicted)


@pytest.mark.long(in_ci=1)
def test_quality_on_its_own_table_is_near_the_predicted_mean(made: Made, tmp_path: Path) -> None:
    shown = replay(made.plan, TRACE, folder=tmp_path, table=made.table)
    assert shown.predicted.quality.mean == pytest.approx(made.plan.predicted.quality.mean, abs=2.0)


@pytest.mark.long(in_ci=1)
def test_without_the_table_paths_are_drawn_and_latencies_are_near(made: Made, tmp_path: Path) -> None:
    shown = replay(made.plan, TRACE, folder=tmp_path).predicted
    assert shown.e2e.mean_s == pytest.approx(made.plan.predicted.e2e.mean_s, rel=0.05)
    # Mixtures and skips may send little more than one request in twenty on: the 95th percentile is steep in how many.
    steep = made.plan.mixture is not None or any(made.plan.skip_below)
    near = 0.1 if steep else 0.05
    assert shown.e2e.p95_s == pytest.approx(made.plan.predicted.e2e.p95_s, rel=near)
    assert shown.quality == made.plan.predicted.quality
    assert shown.score_mean is None
    for drawn, predicted in zip(shown.stages, made.plan.predicted.stages, strict=True):
        assert drawn.reached == pytest.approx(predicted.reached, abs=0.05)


def test_without_the_table_prompt_ids_say_nothing(made: Made, tmp_path: Path) -> None:
    named = replace(TRACE, prompt_id=tuple(f"q{i}" for i in range(len(TRACE))))
    shown, same = (replay(made.plan, trace, folder=tmp_path).predicted for trace in (named, TRACE))
    assert shown == same


def test_stages_whose_calibrations_are_no_more_those_of_the_plan_are_named(
    made: Made, tmp_path: Path
) -> None:
    assert made.plan.calibrations
    assert not [note for note in replay(made.plan, TRACE, folder=tmp_path).notes if "calibrations of" in note]
    name, then = next(iter(made.plan.calibrations.items()))
    older = {**made.plan.calibrations, name: replace(then, error_tpot=then.error_tpot + 0.01)}
    notes = replay(replace(made.plan, calibrations=older), TRACE, folder=tmp_path).notes
    assert [note for note in notes if f"the calibrations of {name} are not those" in note]


def test_only_a_plan_that_looks_at_the_question_misses_what_a_table_foresees(
    made: Made, tmp_path: Path
) -> None:
    """A mixture skips a stage by turns, and needs nothing foreseen for that."""
    blind = replace(made.table, foreseen=None)
    gates = len(made.plan.thresholds)
    for least, told in ((ASKS_NONE, False), (60.0, True)):
        mixed = Mixture(0.25, (0.0,) * gates, (least,) * gates)
        plan = replace(
            made.plan, thresholds=(0.0,) * gates, skip_below=(0.0,) * gates, mixture=mixed, gears=()
        )
        notes = replay(plan, TRACE, folder=tmp_path, table=blind).notes
        assert any("give --foresight" in note for note in notes) is told


def test_writing_and_reading_changes_nothing(made: Made, tmp_path: Path) -> None:
    write_plan(made.plan, tmp_path / "plan.json")
    again = read_plan(tmp_path / "plan.json")
    assert again == made.plan
    for table in (made.table, None):
        shown, shown_again = (
            replay(p, TRACE, folder=tmp_path, table=table).predicted for p in (made.plan, again)
        )
        assert shown == shown_again


def test_more_traffic_is_slower(made: Made, tmp_path: Path) -> None:
    calm, busy = (
        replay(made.plan, TRACE.scaled(rate), folder=tmp_path, table=made.table).predicted
        for rate in (10.0, 70.0)
    )
    assert calm.e2e.mean_s < made.plan.predicted.e2e.mean_s < busy.e2e.mean_s
    assert busy.usd_per_hour == calm.usd_per_hour


def test_a_trace_that_comes_far_too_fast_is_played_no_more_often_than_any(made: Made, tmp_path: Path) -> None:
    shown = replay(made.plan, traffic(100).scaled(2_000.0), folder=tmp_path)
    assert shown.rounds == MOST_ROUNDS
    assert shown.certificate.stability.rounds == MOST_ROUNDS
    assert not shown.certificate.holds


def test_another_seed_draws_other_paths(made: Made, tmp_path: Path) -> None:
    one, other = (replay(made.plan, TRACE, folder=tmp_path, seed=seed) for seed in (1, 2))
    assert (one.run.answered_by != other.run.answered_by).any()


def test_a_request_that_no_replica_holds_is_named(made: Made, tmp_path: Path) -> None:
    tight = replace(
        made.plan,
        stages=tuple(
            replace(s, config=replace(s.config, gpu_memory_utilization=0.02)) for s in made.plan.stages
        ),
    )
    huge = Trace(np.array([0.0, 1.0]), np.array([100_000, 10]), np.array([10, 10]))
    with pytest.raises(BadInput, match=r"cannot serve a request of .* plan for this trace"):
        replay(tight, huge, folder=tmp_path)


def test_a_model_that_is_not_there_is_named(made: Made, tmp_path: Path) -> None:
    first, *rest = made.plan.stages
    lost = replace(made.plan, stages=(replace(first, model="no/such-model"), *rest))
    with pytest.raises(BadInput, match="no/such-model"):
        replay(lost, TRACE, folder=tmp_path)


def test_a_table_that_foresees_nothing_is_noted_where_the_plan_skips(made: Made, tmp_path: Path) -> None:
    shown = replay(made.plan, TRACE, folder=tmp_path, table=replace(made.table, foreseen=None))
    assert any("no stage is skipped" in note for note in shown.notes) == any(made.plan.skip_below)
