"""Tables that need no solving, what they carry, and the bound above them all."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from cascadia.domain.policy import Decision, Policy
from cascadia.planner.policies.baselines import gears, greedy, jellyfish, mixture, model_switching
from cascadia.planner.policies.fluid import fluid_bound
from cascadia.planner.policies.in_flight import Sample, in_flight_ladder
from cascadia.planner.policies.mdp import APART, mdp_ladder
from cascadia.planner.policies.played import outcome, play
from cascadia.planner.policies.sustained import SETTLES, sustained_rps, unit_arrivals
from cascadia.planner.policies.tables import Group, by_slack, gathered, group, one_model
from cascadia.planner.policies.wanted import Wanted, judged
from cascadia.policy.arrivals import Poisson
from cascadia.policy.problem import ModelProfile
from cascadia_sim.batch.simulate import BatchRun
from tests.unit.policy.profiles import profiles

SLO_S = 0.1
UNIT_S = unit_arrivals(n=8000)


def guard(workers: int = 10) -> Group:
    return group("guard", profiles(), slo_s=SLO_S, workers=workers)


def test_by_slack_the_best_model_in_time_is_taken() -> None:
    one, two = by_slack(profiles(), (2, 2, 2, 1, 1))[:2]
    asked = [(slack_s, one.model[one.at(slack_s)]) for slack_s in (0.1, 0.09, 0.05, 0.02, 0.001)]
    assert asked == [(0.1, "huge"), (0.09, "large"), (0.05, "medium"), (0.02, "small"), (0.001, "tiny")]
    # Of two queued the best in time may take only one.
    assert (two.model[two.at(0.1)], two.batch[two.at(0.1)]) == ("huge", 1)


def test_requests_are_gathered_until_the_earliest_cannot_wait() -> None:
    rows = gathered(profiles()[0], 3, 8)
    waits = [row.batch[row.at(0.1)] for row in rows]
    assert waits == [0, 0, 3, 4, 5, 6, 7, 8]
    assert rows[1].batch[rows[1].at(0.01)] == 2


def test_an_outcome_is_of_who_is_counted_and_its_latency_of_who_was_answered() -> None:
    """The first two are not counted; of a hundred others, who took 1 to 100 ms each, the last four were dropped."""
    latency_s = np.r_[9.0, 9.0, np.arange(1, 97) / 1e3, np.full(4, np.inf)]
    model = np.r_[0, 0, np.zeros(50, np.int64), np.ones(46, np.int64), np.full(4, -1)]
    run = BatchRun(latency_s, model, np.full(102, 2), np.array([0.2, 0.6]), 3)
    policies = jellyfish(guard())
    first, second = (next(m for m in profiles() if m.name == name).accuracy for name in policies.models[:2])
    found = outcome(replace(policies, slo_s=0.08), profiles(), run, skip=2)
    assert (found.p50_s, found.p95_s, found.p99_s) == pytest.approx((0.048, 0.092, 0.096), abs=1e-3)
    assert found.late == pytest.approx(0.2)
    assert found.accuracy == pytest.approx((50 * first + 30 * second) / 80)
    assert found.served[:2] == (0.5, 0.46)
    assert (found.busy, found.batch, found.alarms) == (pytest.approx(0.4), 2.0, 3)


@pytest.mark.parametrize(("load", "rounds"), [(0.7, 1), (1.03, 8)])
def test_a_verdict_is_by_the_traffic_as_it_is_and_by_its_repeats_where_waiting_grows(
    load: float, rounds: int
) -> None:
    """A little too much is late in the end only, which one round is too short to tell."""
    fastest = min(profiles(), key=lambda model: -model.throughput_rps(SLO_S))
    alone = guard(1).policies([Policy(np.inf, one_model(fastest, len(fastest.latency_s)))], "one")
    arrival_s = np.arange(2000) / (load * fastest.throughput_rps(SLO_S))
    wanted = Wanted(arrival_s, slo_s=SLO_S, late_max=0.01, accuracy_min=None)
    assert len(judged(alone, profiles(), wanted).arrival_s) == rounds * len(arrival_s)


def test_jellyfish_takes_the_best_model_whose_throughput_is_above_the_load() -> None:
    policies = jellyfish(guard())
    for level in policies.levels:
        model = next(m for m in profiles() if m.name == level.rows[0].model[0])
        assert level.up_to == pytest.approx(10 * model.throughput_rps(SLO_S / 2))
        assert model.latency_s[level.rows[-1].batch[0] - 1] <= SLO_S / 2
    # No request alone takes these less than half the SLO.
    assert {level.rows[0].model[0] for level in policies.levels} == {"tiny", "small", "medium"}


@pytest.mark.parametrize("made", [model_switching, gears])
def test_what_was_measured_beforehand_holds_at_its_rate(made: object) -> None:
    policies = made(guard(), UNIT_S)  # type: ignore[operator]
    assert len(policies.levels) >= 3
    for level in policies.levels:
        alone = replace(policies, levels=(level,))
        assert play(alone, profiles(), UNIT_S / level.up_to, skip=SETTLES).late <= 0.01


def test_gathering_carries_at_least_as_much_as_not() -> None:
    assert gears(guard(), UNIT_S).levels[-1].up_to >= model_switching(guard(), UNIT_S).levels[-1].up_to


def test_a_rate_that_is_sustained_is_the_largest() -> None:
    alone = guard(1).policies([jellyfish(guard(1)).levels[-1]], "one")
    rate_rps = sustained_rps(alone, profiles(), 0.01, UNIT_S, 200.0)
    assert play(alone, profiles(), UNIT_S / rate_rps, skip=SETTLES).late <= 0.01
    assert play(alone, profiles(), UNIT_S / rate_rps / 1.03, skip=SETTLES).late > 0.01


def test_greed_is_late_where_foresight_is_not() -> None:
    arrival_s = UNIT_S / 500
    greed = play(greedy(guard()), profiles(), arrival_s, skip=SETTLES)
    ladder = play(
        mdp_ladder(guard(), Poisson(1.0), from_rps=500, to_rps=500), profiles(), arrival_s, skip=SETTLES
    )
    assert greed.late > 0.05 > 0.01 > ladder.late


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("rate_rps", [100.0, 300.0, 500.0, 800.0, 950.0])
def test_nothing_passes_the_fluid(rate_rps: float) -> None:
    bound = fluid_bound(guard(), rate_rps)
    assert bound is not None
    arrival_s = UNIT_S / rate_rps
    solved = mdp_ladder(guard(), Poisson(1.0), from_rps=rate_rps, to_rps=rate_rps)
    rung = in_flight_ladder(guard(), Sample((arrival_s,), (1.0,), SETTLES))
    mixed = mixture(guard())
    rewards = [
        play(solved, profiles(), arrival_s, skip=SETTLES).reward,
        play(rung, profiles(), arrival_s, skip=SETTLES).reward,
        play(mixed.first, profiles(), arrival_s, others=mixed.kinds, skip=SETTLES).reward,
    ]
    assert max(rewards) <= bound + 0.05
    assert max(rewards) >= 0.93 * bound


def test_the_fluid_is_a_mixture_of_two() -> None:
    models = (ModelProfile("a", 60.0, (0.01,)), ModelProfile("b", 90.0, (0.04,)))
    two = Group("g", models, slo_s=0.1, workers=2)
    # 100 a second on two workers: 20 ms each, of which a third can have 40 ms.
    assert fluid_bound(two, 100.0) == pytest.approx(60 + 30 / 3)
    assert fluid_bound(two, 50.0) == pytest.approx(90)
    assert fluid_bound(two, 201.0) is None


def test_neighbours_of_a_ladder_are_alike() -> None:
    ladder = mdp_ladder(guard(), Poisson(1.0), from_rps=50, to_rps=900)
    accuracies = [level.expected.accuracy for level in ladder.levels if level.expected]
    assert np.abs(np.diff(accuracies)).max() < APART
    assert len(accuracies) == len(ladder.levels) > 5
    assert ladder.queue == "worker"


def test_a_ladder_by_requests_in_flight_knows_no_rate() -> None:
    sample = Sample(tuple(UNIT_S / rate for rate in (100, 500, 900)), (1, 1, 1), SETTLES)
    ladder = in_flight_ladder(guard(), sample)
    assert ladder.index == "in_flight"
    assert ladder.queue == "central"
    assert ladder.at(1).decide(1, SLO_S) == Decision("huge", 1)
    assert ladder.levels[-1].decide(3, SLO_S).model == "tiny"
    for rate in (100, 500, 900):
        assert play(ladder, profiles(), UNIT_S / rate, skip=SETTLES).late < 0.01


def test_a_mixture_moves_one_worker_at_a_time() -> None:
    mixed = mixture(guard(4))
    assert len(mixed.kinds) == 4
    names = [
        tuple(level.rows[0][0].model for level in (kind.levels[i] for kind in mixed.kinds))
        for i in range(len(mixed.first.levels))
    ]
    assert all(sum(a != b for a, b in zip(x, y, strict=True)) == 1 for x, y in itertools.pairwise(names))
    assert len(set(names[0])) == len(set(names[-1])) == 1
    assert len(mixed.at(30.0).first.levels) == 1


def test_one_model_takes_all_that_is_queued_up_to_its_batch() -> None:
    assert [row.batch[0] for row in one_model(profiles()[0], 3)] == [1, 2, 3]
