"""What the loss of a node leaves of a plan's promise."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from cascadia.domain.cluster import Cluster, Pool, Spot
from cascadia.domain.quality import Asked
from cascadia.planner.account.losses import node_losses, nodes_of
from cascadia.planner.allocation.demand import JUDGE, Replicas
from cascadia.planner.deployment.deployment import Deployment, deployment
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.plan import routings_of
from cascadia.planner.search.context import Search, start_search
from cascadia.planner.stability.repeats import at_rate
from tests.unit.planner.instances import pool, shape
from tests.unit.planner.problems import MEDIUM, SMALL, hosted_judge, problem, rising_table, traffic

SPOT = Pool("spot", "h100-sxm", 3, 2, 3.0, spot=Spot(1.0, 2.0))


@pytest.fixture(scope="module")
def search() -> Search:
    made = problem((SMALL, MEDIUM), pools=(SPOT,), trace=traffic(150, 30.0))
    with ThreadPoolExecutor(1) as threads:
        return start_search(made, routings_of(made)[0], threads)


def deployed(search: Search, small: int, medium: int, routing: int = -1) -> Deployment:
    one = {s: next(x for x in search.shapes[s] if x.gpus == 1) for s in (0, 1)}
    counts = {s: count for s, count in ((0, small), (1, medium)) if count}
    k = routing % len(search.routings)
    return deployment(k, {s: (Replicas(one[s], count, float(count)),) for s, count in counts.items()})


def test_the_rest_carries_less_and_says_how_much(search: Search) -> None:
    here = deployed(search, 3, 3)
    (loss,) = node_losses(search, here, (here.routing,))
    assert (loss.pool, loss.gpus, loss.without) == ("spot", 2, ())
    # Six GPUs on three nodes, each taken away twice a day.
    assert loss.interruptions_per_day == 6.0
    assert loss.rate_rps > 0
    assert loss.latency_s is not None
    assert loss.quality == pytest.approx(float(search.routings.mean[here.routing]), abs=1e-6)


def test_without_a_stage_its_requests_go_to_the_next_or_get_the_answer_before(search: Search) -> None:
    table = search.problem.quality.quality.mean(axis=1)
    (first,) = node_losses(search, deployed(search, 1, 5), (len(search.routings) - 1,))
    assert first.without == ("s0",)
    assert first.quality == pytest.approx(float(table[1]))
    (last,) = node_losses(search, deployed(search, 5, 1), (len(search.routings) - 1,))
    assert last.without == ("s1",)
    assert last.quality == pytest.approx(float(table[0]))


def test_nothing_is_left_of_a_stage_that_stood_alone(search: Search) -> None:
    alone = next(k for k in range(len(search.routings)) if not search.routings.deployed[k, 1])
    here = deployed(search, 1, 0, alone)
    (loss,) = node_losses(search, here, (alone,))
    assert (loss.rate_rps, loss.latency_s, loss.quality) == (0.0, None, None)


@pytest.mark.parametrize("verdicts", [None, 2])
def test_without_the_judge_all_go_on_through_every_stage(verdicts: int | None) -> None:
    """Answers of a stage with exits are scored more than once, at the last stage too: that fails as well."""
    table = rising_table(2)
    if verdicts is not None:
        count, every = np.full(table.score.shape, verdicts), np.ones(table.score.shape)
        table = replace(table, verdicts=Asked(count, every, count, every))
    judged = problem(
        (SMALL, MEDIUM), pools=(SPOT,), judge=hosted_judge(), table=table, trace=traffic(150, 5.0)
    )
    with ThreadPoolExecutor(1) as threads:
        found = start_search(judged, routings_of(judged)[0], threads)
    k = int(np.flatnonzero(found.routings.judged(np.arange(len(found.routings))).any(axis=1))[-1])
    kept = deployed(found, 3, 2, k)
    one = next(x for x in found.shapes[JUDGE] if x.gpus == 1)
    here = deployment(k, dict(kept.mixes) | {JUDGE: (Replicas(one, 1, 1.0),)})
    (loss,) = node_losses(found, here, (k,))
    assert loss.without == ("judge",)
    assert loss.quality == pytest.approx(float(judged.quality.quality[1].mean()))
    # One replica of the second stage is left, and each request has waited for the first stage's answer before.
    alone = next(i for i in range(len(found.routings)) if not found.routings.deployed[i, 0])
    second = deployed(found, 0, 1, alone)
    plain = Simulator.of(replace(judged, quality=rising_table(2)))
    took_s = plain.run(second, found.decisions(alone)).latency_ps * 1e-12
    assert loss.latency_s is not None
    assert loss.latency_s > 1.05 * float(np.quantile(took_s, 0.95))


def test_a_lighter_gear_takes_over_where_the_own_setting_is_too_heavy(search: Search) -> None:
    light = int(np.argmin(search.routings.reached[:, 1]))
    heavy = int(np.argmax(search.routings.reached[:, 1]))
    singles = Cluster((replace(SPOT, nodes=6, gpus_per_node=1),))
    fast = replace(search, problem=at_rate(replace(search.problem, cluster=singles), 80 / 30), _decisions={})
    here = deployed(fast, 4, 2, heavy)
    (own,) = node_losses(fast, here, (heavy,))
    (geared,) = node_losses(fast, here, (heavy, light))
    assert geared.gear == 1
    assert own.rate_rps < 80 <= geared.rate_rps


def test_nothing_is_told_where_nodes_neither_are_rented_nor_come_and_go(search: Search) -> None:
    here = deployed(search, 2, 3)
    own = replace(search, problem=replace(search.problem, cluster=Cluster((replace(SPOT, spot=None),))))
    assert node_losses(own, here, (here.routing,)) == ()


def test_replicas_end_with_each_node_that_they_lie_on() -> None:
    four = pool(8, 4)
    here = deployment(0, {0: (Replicas(shape(2), 3, 3.0),), JUDGE: (Replicas(shape(4, pp=2), 1, 1.0),)})
    nodes = sorted(sorted(node.items()) for node in nodes_of(four, here))
    assert nodes == [[((JUDGE, 0), 1)], [((JUDGE, 0), 1)], [((0, 0), 1)], [((0, 0), 2)]]
    assert next(iter(nodes_of(replace(four, rent="gpu"), here))) == Counter({(JUDGE, 0): 1})
