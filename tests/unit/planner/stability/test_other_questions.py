"""Capacity is held for other questions like the table's, with the plan's confidence, as quality is."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.plan import plan, routings_of
from cascadia.planner.refinement.refine import Refinement
from cascadia.planner.search.context import Search, start_search
from cascadia.planner.search.reference_tables import References
from cascadia.planner.stability.other_questions import OtherQuestions, alike, visits_of
from tests.unit.planner.account.test_question_range import TRAFFIC, a_table
from tests.unit.planner.problems import SHORT, problem


def test_the_share_that_goes_on_is_known_as_well_as_a_binomial_tells() -> None:
    for prompts in (100, 400):
        given = problem(table=a_table(prompts), trace=TRAFFIC)
        others = OtherQuestions.of(given)
        hard = given.quality.quality[0] < 50.0
        share = others.means(hard.astype(float))
        own = float(hard[given.workload.row].mean())
        assert share.mean() == pytest.approx(own, abs=0.02)
        # The table's own chance, and that of which of its questions are asked how often.
        assert share.std() == pytest.approx(np.sqrt(own * (1 - own) / prompts), rel=0.25)
        assert others.at_most(hard.astype(float), 0.95) == np.sort(share)[190]


def test_rows_are_those_whose_means_were_told() -> None:
    given = problem(table=a_table(100), trace=TRAFFIC)
    others, hard = OtherQuestions.of(given), given.quality.quality[0] < 50.0
    means = others.means(hard.astype(float))
    for draw in (0, 7, others.draws - 1):
        assert hard[others.rows(draw)].mean() == pytest.approx(means[draw])


def test_a_large_table_takes_bounded_memory() -> None:
    others = OtherQuestions(0, np.arange(400_000), np.zeros(1, np.int64), np.ones(400_000))
    assert others.draws == 50


def test_nothing_is_told_where_all_go_the_same_way() -> None:
    given = problem(table=a_table(100), trace=TRAFFIC)
    routings, _ = routings_of(given)
    alone = next(k for k in range(len(routings)) if routings.deployed[k].sum() == 1)
    assert alike(given, visits_of(given, routings, [(1.0, alone)]))


@pytest.mark.slow
def test_no_stage_of_a_plan_may_be_sent_more_than_it_sustains() -> None:
    """On 60 questions a share of a fifth may be 1.45 times that: whoever is full with these is passed over."""
    table = a_table(60)
    found = plan(problem(table=table, trace=TRAFFIC, quality_min=70.0), effort=SHORT)
    search = found.search

    def loads(search: Search, d: Deployment) -> Mapping[int, float]:
        return search.capacities.shares(search.problem, d, search.decisions(d.routing))

    two = [c.deployment for c in found.candidates if len(c.deployment.mixes) == 2]
    chosen = max(two, key=lambda d: loads(search, d)[1] / loads(search, d)[0])
    # The large model is as good as full.
    times = 0.95 / loads(search, chosen)[1]
    w = search.problem.workload
    faster = replace(search.problem, workload=replace(w, arrival_s=w.arrival_s / times))
    anew = start_search(faster, search.routings, search.threads)
    assert loads(anew, chosen)[0] <= loads(anew, chosen)[1] == pytest.approx(0.95, rel=0.02)
    state = Refinement(anew, anew.simulator, References(anew))
    (full,) = state.simulate([chosen])
    assert state.why_not_with_others(chosen).startswith(
        "with other questions like the table's s1 may be sent "
    )
    settled = state.certified(full).certificate
    assert settled is not None
    assert not settled.holds
    assert not Refinement(search, search.simulator, References(search)).why_not_with_others(
        found.chosen.deployment
    )
