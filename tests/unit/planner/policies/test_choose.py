import re
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from cascadia.domain.errors import Infeasible
from cascadia.domain.policy import Policies
from cascadia.domain.workload import Floats
from cascadia.planner.policies.baselines import greedy
from cascadia.planner.policies.choose import choose, on_workers
from cascadia.planner.policies.compared import baseline_rows
from cascadia.planner.policies.in_flight import worth
from cascadia.planner.policies.played import Outcome, play
from cascadia.planner.policies.residence import Kind, alike
from cascadia.planner.policies.sustained import unit_arrivals
from cascadia.planner.policies.tables import group
from cascadia.planner.policies.wanted import Wanted, keeps, loads, repeated, settling
from cascadia.policy.problem import ModelProfile
from tests.examples import everything
from tests.unit.policy.profiles import profiles

WANTED = Wanted(unit_arrivals(n=2000) / 90, slo_s=0.1, late_max=0.01, accuracy_min=74.0)
KIND = Kind("cpu", profiles(4), most=5, usd_per_hour=0.2)


@pytest.mark.long
def test_one_worker_less_does_not_keep_the_objective() -> None:
    chosen = choose("guard", [KIND], WANTED)
    assert keeps(chosen.outcome, WANTED)
    assert chosen.policies.workers == chosen.group.workers > 1
    less = on_workers("guard", KIND, chosen.group.workers - 1, WANTED)
    assert less is not None
    assert not keeps(less.outcome, WANTED)
    assert chosen.usd_per_hour == pytest.approx(0.2 * chosen.group.workers)
    assert chosen.bound is not None
    assert chosen.outcome.reward <= chosen.bound + 0.05


def test_the_better_of_the_rivals_is_taken() -> None:
    chosen = on_workers("guard", KIND, 3, WANTED)
    assert chosen is not None
    assert {policies.kind for policies, _ in chosen.rivals} == {"mdp", "mdp-counted", "in-flight", "by-slack"}
    assert chosen.outcome.reward == max(o.reward for _, o in chosen.rivals if o.late <= WANTED.late_max)


def test_traffic_that_no_workers_carry_is_refused_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """It once took minutes to tell that 100 % is late, and nothing of how many workers it takes."""
    monkeypatch.delattr("cascadia.planner.policies.choose.on_workers")
    carries_rps = 5 * max(model.carried_rps(0.1) for model in profiles(4))
    much = replace(WANTED, arrival_s=unit_arrivals(n=40_000) / (20 * carries_rps))
    with pytest.raises(Infeasible, match=r"late_max 1\.00% of group 'guard'") as refused:
        choose("guard", [KIND], much)
    told = re.search(r"5 workers .* at most, of [0-9,.]+: it takes (\d+) or more", refused.value.nearest)
    assert told is not None
    assert 60 < int(told.group(1)) <= 100


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("shape", "later"), [(0.1, 0.01), (1.0, 0.001)])
def test_what_is_told_of_a_trace_flatters_where_it_is_bursty_and_else_by_little(
    shape: float, later: float
) -> None:
    """Policies of a trace are judged by the trace; these, by as good a one that nobody has seen."""

    def drawn(seed: int, count: int) -> Floats:
        return np.asarray(np.cumsum(np.random.default_rng(seed).gamma(shape, 1 / shape, count)) / 100.0)

    wanted = Wanted(drawn(1, 6_000), slo_s=0.1, late_max=0.01, accuracy_min=None)
    chosen = on_workers("guard", KIND, 3, wanted)
    assert chosen is not None
    unseen_s = drawn(101, 60_000)
    unseen = play(chosen.policies, chosen.group.models, unseen_s, skip=settling(unseen_s))
    assert unseen.late <= chosen.outcome.late + later
    assert unseen.accuracy >= chosen.outcome.accuracy - 0.2


@pytest.mark.parametrize(("accuracy_min", "accuracy", "worth_"), [(None, 0.0, 0.0), (74.0, 73.0, 63.0)])
def test_an_accuracy_that_nobody_asked_for_is_not_missing(
    accuracy_min: float | None, accuracy: float, worth_: float
) -> None:
    """A point that is missing to what was asked counts ten."""
    in_time = Outcome(
        accuracy,
        0.0,
        mean_s=0.01,
        p50_s=0.01,
        p95_s=0.01,
        p99_s=0.01,
        busy=0.5,
        batch=1.0,
        served=(1.0,),
        alarms=0,
    )
    merit = replace(WANTED, accuracy_min=accuracy_min).merit(in_time)
    assert (merit.keeps, merit.worth) == (accuracy_min is None, pytest.approx(worth_, abs=1e-6))


@pytest.mark.long
def test_no_rival_stays_late_after_a_jam() -> None:
    """The model that is fastest alone carries less here than comes: who falls back to it never catches up."""
    first, second = (
        ModelProfile(name, accuracy, tuple(float(s) for s in np.linspace(one_s, all_s, 8)))
        for name, accuracy, one_s, all_s in (("first", 60.0, 0.004, 0.040), ("second", 70.0, 0.006, 0.020))
    )
    rate_rps = 2 * 0.8 * second.throughput_rps(0.1)
    arrival_s = unit_arrivals(n=6_000) / rate_rps
    assert 2 * first.throughput_rps(0.1) < rate_rps
    wanted = Wanted(arrival_s, slo_s=0.1, late_max=0.01, accuracy_min=None, variable=True)
    chosen = on_workers("guard", Kind("cpu", (first, second), most=2, usd_per_hour=0.2), 2, wanted)
    assert chosen is not None
    at_once = int(2 * rate_rps * wanted.slo_s)
    jammed_s = np.maximum(arrival_s, arrival_s[at_once])
    late = {
        policies.kind: play(policies, chosen.group.models, jammed_s, skip=4_500).late
        for policies, _ in chosen.rivals
    }
    assert {"mdp", "in-flight", "by-slack"} < set(late)
    assert max(late.values()) <= wanted.late_max


ODD = [
    # Workers, largest batch, gaps, load, SLO: little on few workers is where the simplest was better than all others.
    (1, 1, 1.0, 0.3, 0.1),
    (2, 16, 0.25, 0.3, 0.1),
    (4, 16, 1.0, 0.3, 0.1),
    (20, 16, 0.25, 0.3, 0.1),
    (100, 4, 1.0, 0.6, 0.1),
    # Only the fastest is ever in time, alone.
    (1, 16, 1.0, 0.5, 0.0141),
]


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize(("workers", "most", "shape", "load", "slo_s"), ODD)
def test_no_table_by_slack_alone_is_better_than_what_is_chosen(
    workers: int, most: int, shape: float, load: float, slo_s: float
) -> None:
    """The most accurate model that the slack leaves time for, whatever share of it, is among the rivals."""
    models = profiles(most)
    rate_rps = load * workers * max(model.throughput_rps(slo_s) for model in models)
    wanted = Wanted(unit_arrivals(shape, n=3000) / rate_rps, slo_s=slo_s, late_max=0.01, accuracy_min=None)
    chosen = on_workers("guard", Kind("cpu", models, most=workers), workers, wanted)
    assert chosen is not None

    def worth_of(policies: Policies) -> float:
        played = play(policies, chosen.group.models, wanted.arrival_s, skip=wanted.skip)
        return worth([played], [1.0], wanted.late_max)

    best = worth([chosen.outcome], [1.0], wanted.late_max)
    assert best >= max(worth_of(greedy(chosen.group, b, s)) for b in (0.5, 1.0) for s in (0.5, 1.0)) - 1e-9


@pytest.mark.long
def test_a_cheaper_kind_of_worker_beside_makes_the_most_quality_no_less() -> None:
    wanted = replace(WANTED, accuracy_min=None)
    dear = replace(KIND, name="dear", models=KIND.models[1:3], usd_per_hour=2.0)
    slow = tuple(
        replace(model, latency_s=tuple(3 * latency_s for latency_s in model.latency_s))
        for model in dear.models
    )
    cheap = replace(KIND, name="cheap", models=slow, most=8, usd_per_hour=0.1)
    alone = choose("guard", [dear], wanted)
    other = choose("guard", [cheap], wanted)
    assert other.outcome.reward < alone.outcome.reward
    assert other.usd_per_hour < alone.usd_per_hour
    assert choose("guard", [cheap, dear], wanted).kind.name == "dear"


@pytest.mark.long
def test_the_cheaper_kind_of_worker_is_taken() -> None:
    slow = replace(KIND, models=KIND.models[1:3])
    quick = tuple(replace(m, latency_s=tuple(s / 3 for s in m.latency_s)) for m in slow.models)
    fast = Kind("gpu", quick, most=2, usd_per_hour=2.0)
    wanted = replace(WANTED, arrival_s=WANTED.arrival_s[:1000])
    assert choose("guard", [fast, slow], wanted).kind.name == "cpu"
    assert choose("guard", [replace(fast, usd_per_hour=0.2), slow], wanted).kind.name == "gpu"


@pytest.mark.long
@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (
            replace(WANTED, accuracy_min=82.0),
            "quality_min 82 of group 'guard'; 5 workers of kind 'cpu' reach",
        ),
        (replace(WANTED, slo_s=0.005), "no model of group 'guard' answers within"),
        (replace(WANTED, arrival_s=WANTED.arrival_s / 8), "late_max 1.00% of group 'guard'; 5 workers"),
    ],
)
def test_what_cannot_be_had_says_what_comes_nearest(wanted: Wanted, says: str) -> None:
    with pytest.raises(Infeasible) as error:
        choose("guard", [KIND], wanted)
    assert says in str(error.value)


@pytest.mark.long
def test_one_model_more_makes_what_comes_nearest_no_less() -> None:
    def linear(name: str, accuracy: float, first_s: float, each_s: float) -> ModelProfile:
        return ModelProfile(name, accuracy, tuple(first_s + each_s * n for n in range(32)))

    two = (linear("small", 63.2, 0.0118, 0.00925), linear("large", 72.6, 0.0489, 0.01474))
    more = (*two, linear("between", 70.0, 0.04873, 0.01949))
    wanted = Wanted(unit_arrivals(n=8_000) / 600, slo_s=0.1, late_max=0.01, accuracy_min=66.9)

    def nearest(models: tuple[ModelProfile, ...]) -> float:
        with pytest.raises(Infeasible) as error:
            choose("guard", [Kind("cpu", models, most=8)], wanted)
        return float(str(error.value).rsplit(" ", 1)[1])

    assert nearest(more) >= nearest(two)


def test_loads_are_those_of_the_window_by_which_policies_are_looked_up() -> None:
    arrival_s = np.concatenate([np.arange(0, 10, 0.01), np.arange(10, 20, 0.002)])
    low, high = loads(arrival_s)
    assert low == pytest.approx(100, rel=0.1)
    assert 500 <= high <= 600


@pytest.mark.long
def test_each_baseline_is_played_with_the_best_of_its_settings() -> None:
    chosen = on_workers("guard", KIND, 3, WANTED)
    assert chosen is not None
    short = replace(WANTED, arrival_s=WANTED.arrival_s[:1500])
    rows = {row.name: row for row in baseline_rows(chosen.group, short)}
    assert set(rows) == {"jellyfish+", "modelswitching", "gears", "greedy", "mixture"}
    assert all(0 <= row.outcome.late <= 1 and row.setting for row in rows.values())


GIB = (1.0, 1.0, 2.0, 3.0, 4.0)


@pytest.mark.long
def test_models_that_do_not_fit_together_are_chosen_among() -> None:
    tight = replace(KIND, memory_gib=4.0, takes_gib=GIB)
    chosen, free = on_workers("guard", tight, 3, WANTED), on_workers("guard", KIND, 3, WANTED)
    assert chosen is not None
    assert free is not None
    weigh = dict(zip([m.name for m in KIND.models], GIB, strict=True))
    assert len(chosen.sits) == 3
    assert all(sum(weigh[name] for name in here) <= 4 for here in chosen.sits)
    assert "spread" in {policies.kind for policies, _ in chosen.rivals}
    assert chosen.outcome.reward <= free.outcome.reward + 0.1
    assert chosen.outcome.reward == max(o.reward for _, o in chosen.rivals if o.late <= WANTED.late_max)


def test_no_set_of_the_same_size_is_better_than_the_one_that_a_fluid_takes() -> None:
    tight = replace(KIND, memory_gib=2.0, takes_gib=GIB)
    every = group("guard", KIND.models, slo_s=0.1, workers=3)
    made = alike(every, tight, (50.0, 100.0))
    assert made is not None
    assert {model.name for model in made.models} in ({"tiny", "small"}, {"medium"})
    assert alike(every, replace(tight, memory_gib=0.5), (50.0, 100.0)) is None


@pytest.mark.long
def test_where_all_fit_all_sit_everywhere() -> None:
    chosen = on_workers("guard", replace(KIND, memory_gib=12.0, takes_gib=GIB), 2, WANTED)
    assert chosen is not None
    assert chosen.sits == (tuple(m.name for m in KIND.models),) * 2


@pytest.mark.long(in_ci=2)
@pytest.mark.parametrize("tenths", range(700, 1000, 7)[:: 1 if everything() else 4])
def test_a_bar_that_a_model_just_reaches_is_reached(tenths: int) -> None:
    """However the mean of so many equal accuracies is rounded, be it of one model or of several."""
    bar = tenths / 10
    models = tuple(
        ModelProfile(name, bar, (alone_s, 1.5 * alone_s)) for name, alone_s in (("a", 0.01), ("b", 0.02))
    )
    wanted = Wanted(unit_arrivals(n=1200) / 20, slo_s=0.1, late_max=0.01, accuracy_min=bar)
    chosen = choose("guard", [Kind("cpu", models, most=2)], wanted)
    assert chosen.outcome.accuracy == pytest.approx(bar)


def test_a_share_that_is_just_as_late_as_allowed_is_allowed() -> None:
    """Whatever the counts: 1 less a mean is off in its last digits."""
    model = ModelProfile("a", 80.0, (0.1,))
    alone = group("guard", [model], slo_s=0.15, workers=1)
    policies = greedy(alone, batch_share=1.0)
    for late in range(1, 50):
        # So many of a hundred come with another, and wait for it.
        arrival_s = np.sort(np.append(np.arange(100 - late), np.arange(late))).astype(float)
        played = play(policies, alone.models, arrival_s)
        assert played.late == late / 100
        wanted = Wanted(arrival_s, slo_s=0.15, late_max=late / 100, accuracy_min=None)
        assert keeps(played, wanted)


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("late", ["serve", "drop"])
@pytest.mark.parametrize(("rate_rps", "workers"), [(99.5, 1), (100.5, 2), (101.5, 2), (199, 2), (201, 3)])
def test_plans_hold_when_their_traffic_lasts_eight_times_as_long(
    rate_rps: float, workers: int, late: Literal["serve", "drop"]
) -> None:
    """Of a little more than is carried nothing is late for a hundred deadlines, and then everything."""
    model = ModelProfile("a", 80.0, (0.01,))
    short_s, judged_s = (unit_arrivals(50.0, n, seed=n) / rate_rps for n in (10_000, 60_000))
    wanted = Wanted(short_s, slo_s=4.0, late_max=0.001, accuracy_min=70.0, late=late, unseen_s=judged_s)
    chosen = choose("guard", [Kind("cpu", (model,), most=4, usd_per_hour=1.0)], wanted)
    assert chosen.group.workers == workers
    longer = play(chosen.policies, chosen.group.models, repeated(judged_s, 8))
    assert keeps(longer, wanted)
