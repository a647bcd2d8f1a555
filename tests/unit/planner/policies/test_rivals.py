"""What is offered, and need not be used: models, waiting, and lateness that is allowed."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia.domain.policy import Policy
from cascadia.planner.policies.choose import on_workers
from cascadia.planner.policies.played import play
from cascadia.planner.policies.residence import Kind
from cascadia.planner.policies.rivals import MANY, NEAR, best_of_each, sets_of, thinned
from cascadia.planner.policies.sustained import unit_arrivals
from cascadia.planner.policies.tables import by_slack, gathered, group, one_model
from cascadia.planner.policies.wanted import Wanted, keeps
from cascadia.policy.problem import ModelProfile
from tests.unit.policy.profiles import profiles


def made_up(rng: np.random.Generator, count: int) -> tuple[ModelProfile, ...]:
    """Models of which a further request in a batch costs anything from a fifth of the first to as much."""
    alone_s, right = np.sort(rng.uniform(0.002, 0.06, count)), np.sort(rng.uniform(60, 90, count))
    return tuple(
        ModelProfile(
            f"m{at}",
            float(right[at]),
            tuple(alone_s[at] * (1 + more * np.arange(rng.choice([1, 4, 8])))),
        )
        for at, more in enumerate(rng.uniform(0.2, 1.0, count))
    )


def instance(seed: int, count: int, requests: int = 1500) -> tuple[Kind, Wanted]:
    rng = np.random.default_rng(seed)
    models, workers = made_up(rng, count), int(rng.choice([1, 2, 3, 6]))
    slo_s = float(models[-1].latency_s[0] * rng.choice([1.2, 2, 3, 10]))
    rate_rps = rng.choice([0.3, 0.5, 0.7]) * workers * max(m.throughput_rps(slo_s) for m in models)
    made, judged = (unit_arrivals(rng.choice([0.5, 1.0]), requests, s) / rate_rps for s in (1, 2))
    wanted = Wanted(made, slo_s=slo_s, late_max=0.01, accuracy_min=None, unseen_s=judged)
    return Kind("cpu", models, most=workers), wanted


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize(
    ("seed", "count"),
    [
        *((seed, 2) for seed in range(6)),
        *(pytest.param(seed, 3, marks=pytest.mark.slow) for seed in (3, 1, 5)),
    ],
)
def test_one_model_more_never_makes_a_plan_worse(seed: int, count: int) -> None:
    kind, wanted = instance(seed, count)
    chosen = on_workers("guard", kind, kind.most, wanted)
    assert chosen is not None
    for left in kind.models:
        fewer = replace(kind, models=tuple(model for model in kind.models if model is not left))
        without = on_workers("guard", fewer, kind.most, wanted)
        if without is not None and keeps(without.outcome, wanted):
            assert keeps(chosen.outcome, wanted)
            assert chosen.outcome.reward >= without.outcome.reward - NEAR


@pytest.mark.long
def test_a_model_that_only_takes_the_time_of_others_is_left_out() -> None:
    """The one in the middle is little better than the fastest, and as slow as the best: by slack alone it is taken."""
    fast, middle, best = (
        ModelProfile(name, right, tuple(first_s + more_s * np.arange(most)))
        for name, right, first_s, more_s, most in (
            ("fast", 60.48, 0.0024, 0.0022, 8), ("middle", 71.94, 0.0339, 0.01, 4), ("best", 89.05, 0.0353, 0.0093, 16)
        )
    )  # fmt: skip
    wanted = Wanted(unit_arrivals(n=12_000) / 2460, slo_s=0.106, late_max=0.01, accuracy_min=None)
    chosen = on_workers("guard", Kind("cpu", (fast, middle, best), most=8), 8, wanted)
    assert chosen is not None
    assert "middle" not in {m for level in chosen.policies.levels for row in level.rows for m in row.model}
    assert chosen.outcome.accuracy > 62.5


def test_waiting_for_a_minimum_queue_is_no_refusal() -> None:
    """Served at once a request takes a worker for long, and others are late; three that wait take it little longer."""
    models = (
        ModelProfile("quick", 78.71, (0.0247, 0.0299, 0.0352, 0.0404)),
        ModelProfile("good", 79.67, (0.0364, 0.0663)),
    )
    made, judged = (unit_arrivals(0.5, 3000, seed) / 239 for seed in (1, 2))
    wanted = Wanted(made, slo_s=0.0437, late_max=0.01, accuracy_min=None, unseen_s=judged)
    chosen = on_workers("guard", Kind("cpu", models, most=8), 8, wanted)
    assert chosen is not None
    assert keeps(chosen.outcome, wanted)
    at_once = by_slack(models, (4, 1))
    assert all(min(row.batch) > 0 for row in at_once)
    assert any(0 in row.batch for row in chosen.policies.levels[0].rows)


def test_what_keeps_the_objective_is_taken_before_what_earns_more() -> None:
    """An answer that is late within the bound costs reward, but not the accuracy that is asked for."""
    wanted = Wanted(unit_arrivals(n=200), slo_s=1.0, late_max=0.01, accuracy_min=79.8)
    run = group("guard", profiles(), slo_s=1.0, workers=1)
    outcome = play(
        run.policies([Policy(1.0, one_model(run.models[-1], 1))], "one"), run.models, wanted.arrival_s
    )
    right, earns = replace(outcome, accuracy=80.0, late=0.009), replace(outcome, accuracy=79.5, late=0.0)
    assert earns.reward > right.reward
    assert wanted.merit(right) > wanted.merit(earns)
    assert wanted.merit(replace(earns, accuracy=81.0)) > wanted.merit(right)


def test_of_one_model_by_slack_gathers_as_a_minimum_queue_does() -> None:
    model = profiles()[0]
    slack = zip(by_slack((model,), (8,), 1.0, 3), gathered(model, 3, 8), strict=True)
    for ours, theirs in slack:
        for left_s in np.linspace(0.0, 0.1, 101):
            assert ours.batch[ours.at(left_s)] == theirs.batch[theirs.at(left_s)]


@pytest.mark.long
def test_of_very_many_models_few_are_searched_among_and_all_are_solved_for() -> None:
    """Sixty once took no end: each border of sixty was tried, for each set of fifty-nine."""
    models = [
        ModelProfile(
            f"m{n}",
            90 - 40 / (1 + 0.2 * n),
            tuple(0.001 * (1 + 0.1 * n) * (1 + 0.5 * size) for size in range(8)),
        )
        for n in range(60)
    ]
    every = group("guard", models, slo_s=0.05, workers=2)
    few = thinned(every)
    assert len(every.models) == 60
    assert 1 < len(few.models) <= MANY
    assert (few.models[0].name, few.models[-1].name) == ("m0", "m59")
    assert all(set(each.models) < set(few.models) for each in sets_of(every))
    wanted = Wanted(unit_arrivals(n=600) / 900, slo_s=0.05, late_max=0.02, accuracy_min=None)
    found = best_of_each(every, [], wanted)
    assert {len(rival.policies.models) for rival in found} == {60}
    assert {"mdp", "in-flight", "by-slack"} <= {rival.policies.kind for rival in found}
