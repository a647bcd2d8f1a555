"""A plan of one-pass models is a plan like any other: written, read back, and replayed as it was predicted."""

import json
from dataclasses import asdict, astuple, replace
from pathlib import Path

import numpy as np
import pytest

from cascadia.domain.errors import BadInput, Infeasible
from cascadia.domain.plan import Predicted
from cascadia.files.plan_file import read_plan, write_plan
from cascadia.planner.policies.planned import plan_one_pass
from cascadia.planner.policies.played import play, run_of
from cascadia.planner.policies.read import read_asked
from cascadia.planner.policies.replayed import replay_policies
from cascadia.planner.problem.trace_file import read_trace_for
from tests.unit.planner.policies.one_pass_plans import NAMES, RANKED, SPEC, family, planned, written


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plans")


def test_what_is_written_is_read_back_and_replayed_as_it_was_predicted(folder: Path) -> None:
    found = planned()
    plan = found.plan
    write_plan(plan, folder / "plan.json")
    assert read_plan(folder / "plan.json") == plan
    arrival_s = read_asked(written(folder)).wanted.arrival_s
    predicted, outcome, _ = replay_policies(plan, arrival_s)
    assert outcome.accuracy == pytest.approx(plan.predicted.quality.mean, abs=0.3)
    assert outcome.late <= 0.011
    assert predicted.e2e.p50_s == pytest.approx(plan.predicted.e2e.p50_s, rel=0.1)
    assert sum(stage.accepted for stage in predicted.stages) == pytest.approx(1.0)


def test_the_figures_of_a_plan_are_those_of_its_replay_on_the_same_requests(folder: Path) -> None:
    """Of the drawn times, as they were measured, not of the 95th percentile that policies count with."""
    found, wanted = planned(), read_asked(written(folder)).wanted
    predicted, outcome, _ = replay_policies(found.plan, wanted.judged_s)
    chosen = found.chosen.outcome
    assert astuple(outcome)[:8] == pytest.approx(astuple(chosen)[:8], rel=1e-9)
    assert _told(predicted) == pytest.approx(_told(found.plan.predicted), rel=1e-9)
    every = play(found.chosen.policies, found.chosen.group.models, wanted.judged_s)
    certain = tuple(replace(model, drawn_s=()) for model in found.chosen.group.models)
    assert every.p50_s < 0.95 * play(found.chosen.policies, certain, wanted.judged_s).p50_s


def _told(predicted: Predicted) -> list[float]:
    """All figures but their names."""
    found = [predicted.rate_rps, predicted.objective_s, predicted.usd_per_hour, predicted.usd_per_1k_requests]
    found += [predicted.quality.mean, predicted.quality.lower, predicted.quality.questions]
    for stage in predicted.stages:
        found += [*asdict(stage.latency).values(), stage.accepted, stage.load, stage.utilisation]
    return [*found, *asdict(predicted.e2e).values()]


@pytest.mark.parametrize(
    ("seconds", "workload", "rounds"), [(11, "", 1), (2, "", 5), (11, ", rate_rps: 330", 2)]
)
def test_a_trace_is_replayed_as_it_was_planned_on(
    folder: Path, seconds: int, workload: str, rounds: int
) -> None:
    """At the rate that the spec gives it, in as many rounds, and from the same request on."""
    rng = np.random.default_rng(3)
    arrival_s = 7.0 + np.cumsum(rng.exponential(1 / 200, 200 * seconds))
    rows = "\n".join(f"{at:.6f},10,1" for at in arrival_s)
    (folder / "trace.csv").write_text(f"arrival_s,input_tokens,output_tokens\n{rows}")
    one = "".join(
        line for line in SPEC.splitlines(keepends=True) if "tiny" not in line and "large" not in line
    )
    one = one.replace("rate_rps: 300, requests: 1000", f"trace: trace.csv{workload}").replace("78", "70")
    path = written(folder, one)
    plan = plan_one_pass(read_asked(path), folder, dict.fromkeys(NAMES, 8)).plan
    trace, notes = read_trace_for(folder / "trace.csv", None, None, plan.seed, plan)
    replayed = replay_policies(plan, np.asarray(trace.arrival_s))
    assert _told(replayed.predicted) == pytest.approx(_told(plan.predicted), rel=1e-9)
    assert (replayed.rounds, notes) == (rounds, ())


def test_workers_that_models_share_are_counted_once(folder: Path) -> None:
    found = planned()
    plan, workers = found.plan, found.chosen.group.workers
    assert [stage.name for stage in plan.stages] == list(NAMES)
    assert {stage.group for stage in plan.stages} == {"guard"}
    assert plan.gpus == workers
    assert plan.gpus_by_pool() == {"core": workers}
    assert plan.predicted.usd_per_hour == pytest.approx(0.05 * workers)


def test_workers_are_counted_where_the_least_accurate_model_is_not_deployed(folder: Path) -> None:
    beaten = SPEC.replace("task: classify", "accuracy: 60, task: classify", 1).replace(
        "name: tiny", "name: slow"
    )
    table = json.loads(family())
    table["models"][0] |= {key: table["models"][2][key] for key in ("p95_s", "drawn_s")}
    path = written(folder, beaten)
    (folder / "family.json").write_text(json.dumps(table))
    plan = plan_one_pass(read_asked(path), folder, dict.fromkeys((*NAMES, "slow"), 8)).plan
    assert [stage.deployed for stage in plan.stages] == [False, True, True]
    assert plan.gpus == plan.policies[0].workers == plan.gpus_by_pool()["core"] > 0


def test_quality_is_told_with_the_error_of_so_many_texts(folder: Path) -> None:
    quality = planned().plan.predicted.quality
    assert quality.questions == 2000
    assert quality.lower == pytest.approx(quality.mean - 164.5 * np.sqrt(0.79 * 0.21 / 2000), abs=0.1)


@pytest.mark.long
def test_where_memory_holds_fewer_models_all_workers_have_the_same(folder: Path) -> None:
    spec = SPEC.replace("group: guard}", "group: guard, memory_gib: 1}").replace(
        "most: 2,", "most: 2, memory_gib: 2,"
    )
    found = planned(spec)
    deployed = [stage.name for stage in found.plan.stages if stage.deployed]
    assert len(deployed) == 2
    assert set(found.chosen.sits) == {tuple(deployed)}
    assert any("not deployed" in note for note in found.notes)


def test_a_deadline_below_one_batch_is_infeasible_and_says_what_the_fastest_takes(folder: Path) -> None:
    with pytest.raises(Infeasible, match=r"within objective\.latency_max_s 0\.001") as refused:
        planned(SPEC.replace("latency_max_s: 0.1", "latency_max_s: 0.001"))
    assert "the fastest takes 0.002 s" in refused.value.nearest


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("large, model: models/m-4, task: classify", "m-4, task: classify", r"stages\[2\]\.model: is missing"),
        ("engine: onnxruntime, group: guard}\n  - {name: small", "engine: vllm, group: guard}\n  - {name: small",
         r"stages\[0\]\.engine: is vllm.* write onnxruntime"),
        ("tiny, model: models/m-1, task: classify", "tiny, model: models/m-1, task: rerank",
         "some stages classify and others rerank; plan each task by a spec of its own"),
        ("requests: 1000}", "requests: 1000, documents: 5}", "documents says nothing to models that classify"),
        ("task: classify", "task: rerank", r"add `documents: <number>` to workload"),
        ("kind: core,", "kind: core, gpu: h1000,", r"workers\[0\]\.gpu: unknown GPU 'h1000'"),
        ("tiny, model: models/m-1, task: classify", "tiny, model: models/m-1, task: embed",
         "embeddings of two models cannot be compared, so they do not cascade"),
        ("tiny, model: models/m-1, task: classify", "tiny, model: models/m-1, task: guess", "'classify' or 'rerank'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told(folder: Path, old: str, new: str, says: str) -> None:
    assert old in SPEC
    path = written(folder, SPEC.replace(old, new))
    with pytest.raises(BadInput, match=says):
        plan_one_pass(read_asked(path), folder, dict.fromkeys(NAMES, 8))


@pytest.mark.long
def test_rankings_are_planned_as_batches_of_their_own(folder: Path) -> None:
    found = planned(RANKED)
    plan = found.plan
    assert {stage.task for stage in plan.stages} == {"rerank"}
    assert [stage.batch_s for stage in plan.stages if stage.name == "tiny"] == [(pytest.approx(0.002 * 5.2),)]
    (policies,) = plan.policies
    assert {size for level in policies.levels for row in level.rows for size in row.batch} <= {0, 1}
    assert found.chosen.outcome.late <= 0.01
    outcome = replay_policies(plan, read_asked(written(folder, RANKED)).wanted.arrival_s).outcome
    assert outcome.batch == 1


def test_a_ranking_longer_than_any_batch_measured_is_told(folder: Path) -> None:
    with pytest.raises(BadInput, match="batches of up to 16 of stage 'tiny', and a ranking of 16 documents"):
        read_asked(written(folder, RANKED.replace("documents: 7", "documents: 16")))


@pytest.mark.long
def test_a_plan_that_slower_engines_would_break_says_so_and_a_tighter_bound_leaves_room(folder: Path) -> None:
    busy = SPEC.replace("rate_rps: 300", "rate_rps: 330")
    tight = busy.replace("latency_max_s: 0.1", "latency_max_s: 0.09")
    told = [note for note in planned(tight).notes if "10% longer than measured" in note]
    late, asked = slower_late(tight, 0.09, folder), 0.01
    assert late > asked
    assert [f"{late:.1%} are late (1.0% may be)" in note for note in told] == [True]
    roomy = planned(busy)
    assert slower_late(busy, 0.1, folder) <= asked
    assert not any("longer than measured" in note for note in roomy.notes)
    assert slower_late(tight.replace("latency_max_s: 0.09", "latency_max_s: 0.08"), 0.09, folder) <= asked


def slower_late(spec: str, within_s: float, folder: Path) -> float:
    """The share later than `within_s` on the plan of `spec`, where each batch takes a tenth longer."""
    chosen, wanted = planned(spec).chosen, read_asked(written(folder, spec)).wanted
    slower = [
        replace(
            model,
            latency_s=tuple(1.1 * np.array(model.latency_s)),
            drawn_s=tuple(map(tuple, 1.1 * np.array(model.drawn_s))),
        )
        for model in chosen.group.models
    ]
    run = run_of(chosen.policies, slower, wanted.judged_s)
    return float((run.latency_s[wanted.skip :] > within_s + 1e-9).mean())


def test_the_latency_told_is_that_of_the_objectives_quantile(folder: Path) -> None:
    found, arrival_s = planned(), read_asked(written(folder)).wanted.judged_s
    assert found.plan.objective.quantile == pytest.approx(0.99)
    assert found.plan.predicted.objective_s == pytest.approx(found.plan.predicted.e2e.p99_s)
    predicted = replay_policies(found.plan, arrival_s).predicted
    assert predicted.objective_s == pytest.approx(predicted.e2e.p99_s)
    assert predicted.e2e.p95_s < predicted.e2e.p99_s


@pytest.mark.long
def test_a_model_too_slow_for_the_deadline_is_told_so(folder: Path) -> None:
    notes = planned(
        SPEC.replace("quality_min: 78, latency_max_s: 0.1", "quality_min: 70, latency_max_s: 0.009")
    ).notes
    assert "not deployed: large; one request alone takes longer than 0.009 s" in notes
    assert not any("as accurate and faster" in note for note in notes)
