"""Exits behind layers as choices of policies: read, never worse than without, written, replayed, and started."""

import json
from dataclasses import astuple, replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia.domain.errors import BadInput, Infeasible
from cascadia.domain.names import LayerExit
from cascadia.files.plan_file import parse_plan, plan_json
from cascadia.planner.policies.choose import Chosen, choose
from cascadia.planner.policies.planned import OnePassPlan, plan_one_pass
from cascadia.planner.policies.played import play
from cascadia.planner.policies.read import read_asked
from cascadia.planner.policies.replayed import replay_policies
from cascadia.planner.policies.residence import Kind
from cascadia.planner.policies.sustained import unit_arrivals
from cascadia.planner.policies.wanted import Wanted, judged, keeps
from cascadia.policy.problem import ModelProfile
from cascadia.render.one_pass import serve_arguments
from cascadia.router.settings.from_plan import settings_of
from tests.examples import everything
from tests.unit.planner.policies.one_pass_plans import NAMES, SPEC, family, written

ASKS = (
    SPEC.replace("group: guard}\nlatency", "group: guard, exits: [{layer: 1}]}\nlatency")
    .replace("quality_min: 78", "quality_min: 81.5")
    .replace("rate_rps: 300", "rate_rps: 200")
)
"""Of its models none but the largest reaches the bar, by little."""


def with_exits(document: str, *exits: tuple[str, float, float]) -> str:
    """A family with further rows of `m-4`: an exit's name, its accuracy, and its share of the time."""
    table = json.loads(document)
    whole = table["models"][2]
    for at, accuracy, share in exits:
        told = {"name": f"m-4{at}", "accuracy": accuracy, "texts": 1500}
        told["p95_s"] = [share * s for s in whole["p95_s"]]
        told["drawn_s"] = [[share * s for s in drawn] for drawn in whole["drawn_s"]]
        table["models"].append(told)
    return json.dumps(table)


EXITS = (("@layer-1", 79.0, 0.45), ("@layer-1/0.9", 81.8, 0.6), ("@layer-1/0.99", 80.0, 0.9))


def planned(folder: Path, spec: str = ASKS, table: str | None = None) -> OnePassPlan:
    path = written(folder, spec)
    (folder / "family.json").write_text(table or with_exits(family(), *EXITS))
    (folder / "models" / "m-4" / "ramps.json").touch()
    return plan_one_pass(read_asked(path), folder, dict.fromkeys(NAMES, 8))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exits")


@pytest.fixture(scope="module")
def exiting(folder: Path) -> OnePassPlan:
    return planned(folder)


@pytest.mark.long
def test_an_exit_saves_a_worker_and_is_written_as_a_model_of_its_own(
    folder: Path, exiting: OnePassPlan
) -> None:
    without = planned(folder, ASKS.replace(", exits: [{layer: 1}]", ""))
    assert exiting.chosen.group.workers < without.chosen.group.workers
    assert exiting.plan.predicted.quality.mean >= 81.5
    # None that a faster and better one beats, nor one that no policy takes.
    assert [stage.name for stage in exiting.plan.stages if stage.at is not None] == ["large@layer-1/0.9"]
    (stage,) = (stage for stage in exiting.plan.stages if stage.at is not None)
    assert (stage.at, stage.accuracy, stage.group) == (LayerExit(1, 0.9), 81.8, "guard")
    told, plain = exiting.plan.predicted.quality, without.plan.predicted.quality
    assert (told.questions, plain.questions) == (1500, 2000)
    # The bound is on all three that were measured, of which this one was chosen.
    assert (told.mean - told.lower) * np.sqrt(1500) > 1.3 * (plain.mean - plain.lower) * np.sqrt(2000)


def test_a_plan_with_exits_is_read_back_replayed_and_started(folder: Path, exiting: OnePassPlan) -> None:
    plan = exiting.plan
    assert parse_plan(plan_json(plan), "plan") == plan
    wanted = read_asked(folder / "guard.yaml").wanted
    predicted, outcome, _ = replay_policies(plan, wanted.judged_s)
    chosen = exiting.chosen
    played = play(chosen.policies, chosen.group.models, wanted.judged_s, skip=wanted.skip)
    assert astuple(outcome)[:8] == pytest.approx(astuple(played)[:8], rel=1e-9)
    assert outcome.served == played.served
    assert sum(stage.accepted for stage in predicted.stages) == pytest.approx(1.0)
    deployed = [stage for stage in plan.stages if stage.deployed]
    folder_of = (folder / "models" / "m-4").resolve()
    assert f"large@layer-1/0.9={folder_of}@layer-1/0.9" in serve_arguments(deployed, "80", None)
    urls = [f"http://127.0.0.1:{80 + at}" for at in range(plan.policies[0].workers)]
    told = settings_of(plan, {"guard": urls}, "plan", None)
    assert "large@layer-1/0.9" in [stage.name for stage in told.stages]
    with pytest.raises(BadInput, match=r"is another exit than 'large@layer-1/0\.9' says"):
        parse_plan(plan_json(plan).replace('"sure": 0.9', '"sure": 0.8'), "plan")


@pytest.mark.long
def test_exits_that_are_worth_nothing_are_left_out_and_said_so(folder: Path) -> None:
    found = planned(folder, table=with_exits(family(), ("@layer-1", 60.0, 0.99)))
    assert all(stage.at is None for stage in found.plan.stages)
    assert any(note.startswith("no exit is used") for note in found.notes)
    tight = ASKS.replace("group: guard", "group: guard, memory_gib: 1").replace(
        "most: 2,", "most: 2, memory_gib: 1,"
    )
    found = planned(folder, tight)
    assert all(stage.at is None for stage in found.plan.stages)
    assert any(note.startswith("no exit is used") for note in found.notes)
    roomy = planned(folder, tight.replace("most: 2, memory_gib: 1", "most: 2, memory_gib: 4"))
    assert any(stage.at for stage in roomy.plan.stages)


@pytest.mark.parametrize(
    ("old", "new", "table", "says"),
    [
        ("{layer: 1}", "{layer: 2}", None, "has no exit of stage 'large' behind layer 2"),
        ("[{layer: 1}]", "[{layer: 2}, {layer: 1}]", None, "are not in order"),
        ("[{layer: 1}]", "[{layer: 0}]", None, "at least 1"),
        ("[{layer: 1}]", "[{thinking_tokens: 9}]", None, "thinking_tokens"),
        ("exits: [", "accuracy: 82, exits: [", None, "planned by measured accuracies"),
        ("task: classify", "task: rerank", None, "exits are of models that classify"),
        ("task", "task", "ramps", "train ramps with `cascadia exits train"),
    ],
)
def test_what_cannot_be_is_told(folder: Path, old: str, new: str, table: str | None, says: str) -> None:
    ramps = folder / "models" / "m-4" / "ramps.json"
    path = written(folder, ASKS.replace(old, new))
    (folder / "family.json").write_text(with_exits(family(), *EXITS))
    if table == "ramps":
        ramps.unlink()
    else:
        ramps.touch()
    with pytest.raises(BadInput, match=says):
        plan_one_pass(read_asked(path), folder, dict.fromkeys(NAMES, 8))


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (with_exits(family(), *EXITS).replace("81.8", "null"), "says no accuracy of 'm-4@layer-1/0.9'"),
        (family().replace("82.0", "null"), "'large': says no accuracy"),
    ],
)
def test_an_accuracy_that_is_missing_is_told(folder: Path, table: str, says: str) -> None:
    path = written(folder, ASKS)
    (folder / "family.json").write_text(table)
    with pytest.raises(BadInput) as error:
        read_asked(path)
    assert says in str(error.value)


def rank(chosen: Chosen | None) -> tuple[float, ...]:
    """Key by which workers are chosen; nothing is worse than none."""
    if chosen is None:
        return (np.inf,)
    return chosen.usd_per_hour, chosen.group.workers, -chosen.outcome.reward


def found(kind: Kind, wanted: Wanted) -> Chosen | None:
    try:
        return choose("guard", [kind], wanted)
    except Infeasible:
        return None


@pytest.mark.long
@settings(max_examples=6 if everything() else 3, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    models=st.integers(1, 2),
    exits=st.integers(1, 3),
    load=st.sampled_from((0.2, 0.6, 1.1)),
    goal=st.sampled_from((None, 55.0, 75.0)),
)
def test_no_choice_is_worse_for_exits(
    seed: int, models: int, exits: int, load: float, goal: float | None
) -> None:
    """Over random profiles, loads and objectives; where there is a plan without exits there is one with."""
    rng = np.random.default_rng(seed)

    def profile(name: str) -> ModelProfile:
        alone, each = rng.uniform(0.002, 0.02), rng.uniform(0.2, 1.0)
        return ModelProfile(name, float(rng.uniform(40, 95)), tuple(alone * (1 + each * n) for n in range(4)))

    plain = tuple(profile(f"m{n}") for n in range(models))
    kind = Kind("cpu", plain, most=3, usd_per_hour=0.2)
    offered = tuple(profile(f"m0@layer-{n + 1}") for n in range(exits))
    slo_s = 0.06
    rate_rps = load * 3 * max(model.throughput_rps(slo_s) for model in plain) or 10.0
    wanted = Wanted(unit_arrivals(n=600) / rate_rps, slo_s=slo_s, late_max=0.02, accuracy_min=goal)
    without, exiting = found(kind, wanted), found(replace(kind, exits=offered), wanted)
    assert rank(exiting) <= rank(without)
    if exiting is not None:
        assert keeps(exiting.outcome, wanted)
        # Exits that nobody takes are gone from the tables, and nothing else changed.
        assert judged(exiting.policies, exiting.group.models, wanted).outcome == exiting.outcome


@pytest.mark.long
def test_the_exits_that_a_fluid_mixes_are_as_good_as_all_of_them() -> None:
    """Nine measured exits, of which five or fewer are weighed; over twelve such draws at most 0.02 points were lost."""
    rng = np.random.default_rng(2)

    def profile(name: str, accuracy: float, share: float) -> ModelProfile:
        return ModelProfile(name, accuracy, tuple(0.012 * share * (1 + 0.8 * n) for n in range(6)))

    whole, exits = profile("m", 85.0, 1.0), []
    for layer, (sure, more, loses) in product(
        (1, 2, 3), (("", 0.0, 12.0), ("/0.6", 0.1, 4.0), ("/0.9", 0.35, 0.8))
    ):
        share = float(np.clip(layer / 4 + more + rng.normal(0, 0.05), 0.1, 1))
        exits.append(profile(f"m@layer-{layer}{sure}", 85 - loses + layer / 2 + rng.normal(0, 0.4), share))
    rate_rps = 1.6 * 2 * whole.throughput_rps(0.06)
    wanted = Wanted(unit_arrivals(n=1000) / rate_rps, slo_s=0.06, late_max=0.01, accuracy_min=None)
    kind = Kind("cpu", (whole,), most=2, exits=tuple(exits))
    assert len(kind.exiting(0.06).models) <= 6  # type: ignore[union-attr]
    some = choose("guard", [kind], wanted)
    every = choose("guard", [replace(kind, models=(whole, *exits), exits=())], wanted)
    assert some.outcome.reward >= every.outcome.reward - 0.1
