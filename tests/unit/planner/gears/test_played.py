"""Ladders on a trace are played as the router runs them, whatever shares a stage's requests, at home or elsewhere."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia.domain.cluster import Pool
from cascadia.domain.gear import Ladder, Shift
from cascadia.domain.objective import Objective
from cascadia.domain.plan import Balancing
from cascadia.domain.problem import EXTERNAL, Problem, Stage
from cascadia.planner.allocation.demand import Replicas
from cascadia.planner.deployment.deployment import Deployment, deployment
from cascadia.planner.deployment.options import Mix
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.gears.played import Decided, Played, play
from cascadia.planner.plan import open_search
from cascadia.planner.routing.routings import Decisions
from cascadia.planner.tables.loads import keeps_blocks
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.prefix_cache.shared_blocks import of_sessions
from cascadia_traces.trace import Trace
from tests.unit.planner.problems import LARGE, MEDIUM, NODE, ON_ROUTER, problem, rising_table
from tests.unit.planner.test_external_stages import API

pytestmark = pytest.mark.slow

SLOW = Pool("l4", "l4", 1, 8, 0.7)
LADDER = Ladder((50.0, 90.0))
RULES: tuple[Balancing, ...] = ("least-outstanding", "earliest-finish", "matching")


def told_by_questions(requests: int = 2_000, rate_rps: float = 40.0) -> Trace:
    """Long questions get long answers, so that rules which learn go by lengths; in bursts."""
    rng = np.random.default_rng(0)
    gaps = rng.exponential(1 / rate_rps, requests) * np.where(np.arange(requests) % 500 < 350, 1.2, 0.4)
    read = np.clip(rng.lognormal(6.0, 0.9, requests), 8, 3000).astype(np.int64)
    return Trace(np.cumsum(gaps) - gaps[0], read, 4 + read // 4)


def on_unequal(balancing: Balancing) -> Problem:
    given = problem(
        (MEDIUM, LARGE),
        pools=(NODE, SLOW),
        judge=ON_ROUTER,
        objective=Objective("quality", 0.95, latency_max_s=12.0),
        table=rising_table(2),
        trace=told_by_questions(),
    )
    return replace(given, stages=tuple(replace(stage, balancing=balancing) for stage in given.stages))


def scene(given: Problem) -> tuple[Simulator, Deployment, list[Decisions]]:
    """Three gears, the heaviest of which sends most on, on two kinds of replicas of the first stage; the last stage has
    two replicas, or is an API."""
    with open_search(given) as search:
        routings = search.routings
        order = np.argsort(-routings.reached[:, 1], kind="stable")
        chosen = [int(k) for k in order[[0, len(order) // 2, -2]]]
        kinds = {
            pool.name: next(s for s in search.shapes[0] if s.pool == pool.name and s.gpus == 1)
            for pool in (NODE, SLOW)
        }
        first: Mix = (Replicas(kinds["h100-sxm"], 2, 2.4), Replicas(kinds["l4"], 4, 24.0))
        mixes = {0: first}
        if 1 in search.shapes:
            (last,) = (s for s in search.shapes[1] if s.pool == NODE.name and s.tp == 2 and s.pp == 1)
            mixes[1] = (Replicas(last, 2, 2.0),)
        simulator = Simulator.of(given)
        decided = Decided(routings, simulator)
        return simulator, deployment(chosen[0], mixes), [decided(k) for k in chosen]


def played(given: Problem) -> Played:
    return play(*scene(given), LADDER)


def by_the_routers_rule(found: Played) -> list[int]:
    """By when clients have their answers in the very run that a plan predicts from, one request after the other."""
    run, shift = found.run, Shift(LADDER)
    told = []
    for i, now_ps in enumerate(run.arrival_ps.tolist()):
        # What ends at that very instant is still under way: arrivals are taken first.
        under_way = int((run.finish_ps[:i] >= now_ps).sum())
        told.append(shift.arrival(under_way, now_ps * 1e-12))
    return told


@pytest.fixture(scope="module")
def by_load() -> Played:
    return played(on_unequal("least-outstanding"))


def test_by_the_least_outstanding(by_load: Played) -> None:
    assert set(by_load.gear.tolist()) == {0, 1, 2}
    assert by_load.gear.tolist() == by_the_routers_rule(by_load)


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("balancing", RULES[1:])
def test_by_rules_that_learn(balancing: Balancing, by_load: Played) -> None:
    """They were once played by the least outstanding, so that requests had gears which no router would give them."""
    found = played(on_unequal(balancing))
    assert found.gear.tolist() == by_the_routers_rule(found)
    assert found.gear.tolist() != by_load.gear.tolist()


@pytest.mark.parametrize("balancing", RULES[::2])
def test_with_an_api_behind_them(balancing: Balancing) -> None:
    """Who waits for its limit is under way: it fills with those whom the heaviest gear sends there."""
    given = on_unequal(balancing)
    config = EngineConfig()
    api = replace(API, requests_per_minute=400)
    away = Stage(
        given.stages[1].name, "any", None, engine=EXTERNAL, quantization=None, config=config, external=api
    )
    found = played(replace(given, stages=(given.stages[0], away)))
    assert found.gear.tolist() == by_the_routers_rule(found)
    assert set(found.gear.tolist()) == {0, 1, 2}


def test_with_prefix_caches_that_depend_on_who_comes() -> None:
    """One in forty once had another gear than by the answers of the run."""
    given = on_unequal("least-outstanding")
    w, rng = given.workload, np.random.default_rng(0)
    sessions = tuple(f"s{number}" for number in rng.integers(0, 60, len(w)).tolist())
    blocks = of_sessions(sessions, w.input_tokens[0], w.output_tokens[0], None)
    given = replace(given, workload=replace(w, blocks=blocks))
    assert keeps_blocks(given, 0)
    found = played(given)
    assert found.gear.tolist() == by_the_routers_rule(found)
    assert set(found.gear.tolist()) == {0, 1, 2}
