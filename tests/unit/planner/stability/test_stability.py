"""Plans carry their traffic for as long as it goes on, and what does not is refused with a rate that holds."""

import re
from dataclasses import replace

import numpy as np
import pytest

from cascadia.domain.cluster import Pool
from cascadia.domain.errors import Infeasible
from cascadia.domain.plan import Plan
from cascadia.domain.problem import Problem
from cascadia.planner.allocation.demand import Replicas
from cascadia.planner.baselines.compare import systems
from cascadia.planner.deployment.deployment import Deployment, deployment
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.plan import open_search
from cascadia.planner.refinement.refine import Effort
from cascadia.planner.routing.routings import Decisions
from cascadia.planner.search.context import find_shapes
from cascadia.planner.search.throughput import max_rate_rps
from cascadia.planner.stability.capacity_shares import Capacities
from cascadia.planner.stability.certificate import Certificate, certify, seems_to_hold
from cascadia.planner.stability.headroom import headroom, largest
from cascadia.planner.stability.repeats import at_rate, problem_repeated
from cascadia_sim.engine.requests import PastTheClock
from cascadia_traces.trace import Trace
from tests.unit.planner.played_again import Played, played_again
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
    quality_table,
    rising_table,
    traffic,
)

pytestmark = pytest.mark.slow

ONE = Pool("h100-sxm", "h100-sxm", 1, 1, 2.5)


def alone(trace: Trace, model: str = MEDIUM) -> tuple[Problem, Deployment, Decisions, dict[int, float]]:
    """One model on one GPU, with the share of its capacity that the trace takes."""
    given = problem((model,), pools=(ONE,), trace=trace, quality_min=0.0)
    shape = find_shapes(given)[0][0]
    chosen = deployment(0, {0: (Replicas(shape, 1, 1.0),)})
    every = np.ones((1, len(trace)), dtype=bool)
    decided = Decisions(every, every, ~every, ~every)
    return given, chosen, decided, dict(Capacities().shares(given, chosen, decided))


def certificate(trace: Trace, *, blind: bool = False) -> Certificate:
    """`blind`: without what is known of capacity, by simulation alone."""
    given, chosen, decided, shares = alone(trace)
    return certify(Simulator.of(given), chosen, decided, {} if blind else shares)


def at_share(share: float, requests: int, seed: int = 0) -> Trace:
    """Poisson traffic that takes this share of the capacity of `alone`."""
    trace = traffic(requests, 10.0, seed)
    [found] = alone(trace)[3].values()
    return replace(trace, arrival_s=trace.arrival_s * found / share)


@pytest.mark.parametrize("requests", [20, 60, 200, 1000, 4000])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_not_near_capacity_holds_however_short_the_trace(requests: int, seed: int) -> None:
    found = certificate(at_share(0.6, requests, seed))
    assert found.holds, found.why
    assert (found.stability.rounds > 1) == (requests < 200) or requests == 200


@pytest.mark.parametrize("requests", [60, 200, 1000, 4000])
@pytest.mark.parametrize("blind", [False, True])
def test_what_is_beyond_capacity_is_refused_however_short_the_trace(requests: int, blind: bool) -> None:
    found = certificate(at_share(1.15, requests), blind=blind)
    assert not found.holds
    assert ("is sent" in found.why) == (not blind)


def test_a_queue_of_days_is_refused_before_simulated_time_ends() -> None:
    given, chosen, decided, _ = alone(at_share(4.0, 60))
    [(stage, (replicas,))] = chosen.mixes
    timing = replicas.shape.timing
    slow = replace(timing, token_ps=timing.token_ps * 100_000, sequence_ps=timing.sequence_ps * 100_000)
    late = {stage: (replace(replicas, shape=replace(replicas.shape, timing=slow)),)}
    found = certify(Simulator.of(given), deployment(0, late), decided, {})
    assert found.stability.p95_once_s > 86_400
    assert not found.holds


def test_a_trace_that_ends_in_a_burst_is_no_growing_queue() -> None:
    calm = at_share(0.4, 1200)
    burst = replace(calm, arrival_s=np.append(calm.arrival_s[:-80], np.full(80, calm.arrival_s[-1])))
    found = certificate(burst)
    assert found.holds, found.why
    assert found.stability.backlog_first > 40


def test_long_gaps_between_bursts_hold() -> None:
    """60 at a time, and as many again when those are long done."""
    trace = at_share(0.35, 1200)
    waves = replace(trace, arrival_s=np.sort(trace.arrival_s[-1] / 20 * (np.arange(1200) // 60)))
    assert certificate(waves).holds


def test_a_queue_that_few_requests_come_to_is_seen_though_p95_is_not_touched() -> None:
    """3 % of the requests go to a large model that carries a third of them."""
    n = 3000
    score = np.where(np.arange(n) % 33 == 0, 0.0, 100.0)
    table = quality_table(np.stack([score, np.full(n, 100.0)]), np.full((2, n), 90.0))
    trace = traffic(n, 60.0, 3)
    trace = replace(trace, output_tokens=np.full(n, 150))
    given = problem((SMALL, LARGE), table=table, judge=ON_ROUTER, quality_min=0.0, trace=trace)
    given = replace(given, workload=replace(given.workload, row=np.arange(n)))
    shapes = find_shapes(given)
    slow = replace(shapes[1][0].timing, max_num_seqs=4, sequence_ps=shapes[1][0].timing.sequence_ps[:5])
    mixes = {
        0: (Replicas(shapes[0][-1], 1, 1.0),),
        1: (Replicas(replace(shapes[1][0], timing=slow), 1, 1.0),),
    }
    accepts = np.stack([score >= 50, np.ones(n, dtype=bool)])
    every = np.ones((2, n), dtype=bool)
    decided = Decisions(every, accepts, ~every, every & [[True], [False]])
    found = certify(Simulator.of(given), deployment(0, mixes), decided, {})
    assert found.stability.p95_repeated_s < 1.25 * found.stability.p95_once_s
    assert not found.holds
    assert "stage s1 has" in found.why


def test_headroom_is_the_largest_factor_that_holds() -> None:
    given, chosen, decided, shares = alone(at_share(0.5, 3000))
    simulator = Simulator.of(given)
    found = headroom(simulator, chosen, decided, shares, at_least=1.0)
    assert 1.6 < found < 2.05
    assert certify(simulator, chosen, decided, shares, factor=found).holds
    assert not certify(simulator, chosen, decided, shares, factor=found * 1.1).holds


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 1.1])
def test_what_a_certificate_lets_through_its_first_rounds_let_through(share: float) -> None:
    given, chosen, decided, shares = alone(at_share(share, 1200))
    simulator = Simulator.of(given)
    for factor in (0.8, 1.0, 1.15):
        whole = certify(simulator, chosen, decided, shares, factor=factor)
        seemed = seems_to_hold(simulator, chosen, decided, shares, factor=factor)
        assert seemed or not whole.holds
        # What these found need not be found again.
        after = certify(simulator, chosen, decided, shares, factor=factor, seemed=seemed)
        assert (after.stability, after.why) == (whole.stability, whole.why)


@pytest.mark.parametrize("edge", [1.0, 1.3, 1.87, 2.4, 3.0])
@pytest.mark.parametrize("guess", [1.0, 2.0, 2.9])
def test_bisection_finds_the_edge_from_below(edge: float, guess: float) -> None:
    found = largest(lambda x: x <= edge, 1.0, 3.0, guess)
    assert edge * 0.97 <= found <= edge


def test_a_trace_played_twice_is_the_trace_and_one_mean_gap_later_again() -> None:
    given = problem(trace=traffic(50, 10.0))
    w, twice = given.workload, problem_repeated(given, 2).workload
    gap_s = float(w.arrival_s[-1]) / 49
    assert np.allclose(twice.arrival_s[50:], w.arrival_s + w.arrival_s[-1] + gap_s)
    assert (twice.output_tokens[:, 50:] == w.output_tokens).all()
    assert at_rate(given, 2.0).workload.rate_rps == pytest.approx(2 * w.rate_rps)


@pytest.mark.long
def test_every_baseline_that_is_shown_holds_and_carries_the_rate_that_is_said_of_it() -> None:
    given = problem((SMALL, LARGE), judge=hosted_judge(), trace=traffic(200, 12.0))
    little = Effort(routings=2, combinations=60, simulated_requests=0, fewest_simulations=8)
    shown = 0
    with open_search(given) as search:
        for name, found in ((name, run()) for name, run in systems(search, little)):
            if found.best is None:
                assert found.why, name
                continue
            shown += 1
            assert found.best.certificate is not None, name
            assert found.best.certificate.holds, name
            assert found.max_rate_rps >= given.workload.rate_rps, name
    assert shown >= 6


def test_the_largest_rate_is_what_the_certificate_says_of_the_best_deployment() -> None:
    given = problem((MEDIUM,), pools=(ONE,), trace=traffic(2000, 10.0), quality_min=0.0)
    with open_search(given) as search:
        most = max_rate_rps(search, np.array([0]))
        [shape] = search.shapes[0]
    _, chosen, decided, shares = alone(traffic(2000, 10.0))
    assert most / 10.0 == pytest.approx(headroom(Simulator.of(given), chosen, decided, shares), rel=0.05)
    assert shape.gpus == 1


def drawn(seed: int) -> Problem:
    """Small problems of all kinds: one to six stages, pools, pipelines, prefixes, long prompts, any load."""
    rng = np.random.default_rng(seed)
    stages = int(rng.integers(1, 4)) if seed % 3 else int(rng.integers(4, 7))
    models = (*FIVE, "Qwen/Qwen2.5-72B-Instruct")[:stages]
    nodes = Pool("h100-sxm", "h100-sxm", int(rng.integers(1, 3)), int(rng.choice([2, 4, 8])), 2.5)
    pools = (nodes, Pool("l40s", "l40s", 1, 4, 1.0)) if rng.random() < 0.3 else (nodes,)
    trace = traffic(int(rng.choice([150, 400, 1200])), float(rng.choice([4.0, 20.0, 60.0, 150.0])), seed)
    if rng.random() < 0.4:
        long = trace.input_tokens * 6
        trace = replace(trace, input_tokens=long, prefix_tokens=long // 2)
    judge = [hosted_judge(), EXTERNAL, ON_ROUTER][int(rng.integers(3))]
    table = rising_table(stages, prompts=150, levels=20, seed=seed)
    bar = float(np.quantile(table.quality.mean(axis=1), rng.uniform(0, 0.8))) - 4
    given = problem(
        models,
        pools=pools,
        judge=judge,
        table=table,
        trace=trace,
        quality_min=bar,
        quantization="fp8" if stages > 3 else None,
        seed=seed,
    )
    hit = float(rng.choice([0.0, 0.9]))
    caching = [replace(s, config=replace(s.config, prefix_cache_hit_rate=hit)) for s in given.stages]
    return replace(given, stages=tuple(caching))


def planned(given: Problem) -> tuple[Plan | None, str]:
    try:
        return briefly(given).plan, ""
    except Infeasible as refused:
        return None, str(refused)


def holds(found: Played, claimed_s: float) -> bool:
    first, last = found.under_way[1], float(np.mean(found.under_way[-2:]))
    return found.again_s <= 1.3 * max(claimed_s, found.once_s) and last <= 1.3 * first + 3 * first**0.5 + 3


SEEDS = range(1, 3)
"""Of the plans that are played again here; tests/e2e/test_plans_at_length.py goes on."""


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_every_plan_holds_when_its_trace_is_played_eight_times(seed: int) -> None:
    given = drawn(seed)
    made, why = planned(given)
    if made is None:
        rate = re.search(r"([\d.]+) requests/s would hold", why)
        if rate is None:
            assert "above what any routing" in why or "no tenth of that rate" in why
            return
        given = at_rate(given, float(rate[1]) / given.workload.rate_rps)
        made = briefly(given).plan
    assert made.stability is not None
    assert made.headroom is not None
    assert made.headroom >= 1.0
    found = played_again(made, given)
    assert holds(found, made.predicted.e2e.p95_s), (found, made.stability)
    loads = [s.load for s in made.predicted.stages if s.reached > 0]
    assert all(load is not None and 0 < load <= 1.02 for load in loads)


def days(count: float) -> Trace:
    """A trace of so many days."""
    of_days = traffic(200)
    return replace(of_days, arrival_s=of_days.arrival_s * count * 86_400 / of_days.arrival_s[-1])


def test_a_trace_of_weeks_is_repeated_as_often_as_simulated_time_allows() -> None:
    """It overflowed, and the times below 0 were told as the trace's own fault."""
    found = certificate(days(40))
    assert found.holds
    assert found.stability.repeats == 2
    assert certificate(days(20)).stability.repeats == 4


def test_what_would_outlast_simulated_time_does_not_hold() -> None:
    given, chosen, decided, shares = alone(days(40))
    simulator = Simulator.of(given)
    assert not seems_to_hold(simulator, chosen, decided, shares, factor=0.1)
    assert headroom(simulator, chosen, decided, {0: 20.0}) == 0.0
    with pytest.raises(PastTheClock, match="exceeds 106 days"):
        certify(simulator, chosen, decided, shares, factor=0.1)
