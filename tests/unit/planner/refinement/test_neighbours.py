"""Steps from a deployment: to lighter routings first, within a stage's part where parts are equal."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cascadia.domain.problem import Problem
from cascadia.planner.allocation.demand import Replicas
from cascadia.planner.deployment.deployment import Deployment, deployment
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.plan import routings_of
from cascadia.planner.refinement.neighbours import neighbours
from cascadia.planner.refinement.state import EFFORT, Refinement, combine
from cascadia.planner.refinement.whole_nodes import whole_nodes, widest
from cascadia.planner.routing.dominance import lightest
from cascadia.planner.search.composition import Composer
from cascadia.planner.search.context import allowed, start_search
from cascadia.planner.search.reference_tables import References
from tests.unit.planner.instances import shape
from tests.unit.planner.problems import MEDIUM, ON_ROUTER, SMALL, hosted_judge, problem, traffic

pytestmark = pytest.mark.slow


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def refinement(given: Problem, threads: ThreadPoolExecutor, *, equal_parts: bool = False) -> Refinement:
    search = start_search(given, routings_of(given)[0], threads)
    return Refinement(search, Simulator.of(given), References.of(search), equal_parts)


def cascades(state: Refinement) -> list[int]:
    """Routings with every stage, the heaviest first."""
    routings = state.search.routings
    every = np.flatnonzero(routings.deployed.all(axis=1) & allowed(state.search))
    return list(every[np.argsort(-routings.reached[every].sum(axis=1), kind="stable")].tolist())


def best(state: Refinement, routing: int) -> Deployment:
    return combine(state, Composer.on(state.search.problem), routing, EFFORT)[0].deployment


def gpus_by_stage(d: Deployment) -> dict[int, int]:
    return {s: sum(r.shape.gpus * r.count for r in mix) for s, mix in d.mixes}


def test_the_first_steps_lead_to_routings_with_less_load_and_the_same_replicas(
    threads: ThreadPoolExecutor,
) -> None:
    state = refinement(problem((SMALL, MEDIUM), judge=ON_ROUTER, quality_min=52.0), threads)
    reached = state.search.routings.reached
    light = lightest(reached, allowed(state.search)).tolist()
    here = best(state, cascades(state)[0])
    first = neighbours(state, here, [], light)[0]
    assert first.routing in light
    assert first.mixes == here.mixes
    assert (reached[first.routing] <= reached[here.routing]).all()
    assert first.routing != here.routing


def test_no_step_from_equal_parts_gives_a_stage_more_than_its_part(threads: ThreadPoolExecutor) -> None:
    given = problem((SMALL, MEDIUM), judge=hosted_judge(), quality_min=52.0, trace=traffic(200, 40.0))
    state = refinement(given, threads, equal_parts=True)
    here = best(state, cascades(state)[0])
    steps = neighbours(state, here, [], [])
    part = given.cluster.gpus // len(here.mixes)
    assert all(max(gpus_by_stage(d).values()) <= part for d in steps)
    assert any(gpus_by_stage(d) == gpus_by_stage(here) and d.mixes != here.mixes for d in steps)


def test_a_replica_added_to_others_of_its_shape_shares_alike(threads: ThreadPoolExecutor) -> None:
    state = refinement(problem((MEDIUM,), quality_min=40.0), threads)
    demand, _ = state.references.one(0, 0)
    one = demand.shapes[0]
    steps = neighbours(state, deployment(0, {0: (Replicas(one, 2, 2.0),)}), [], [])
    more = [d.mix(0) for d in steps if {r.shape for r in d.mix(0)} == {one}]
    assert {mix[0].count for mix in more} >= {3, 8}
    assert all(len(mix) == 1 for mix in more)


def test_whole_nodes_come_in_every_number_that_keeps_up_and_leaves_room(threads: ThreadPoolExecutor) -> None:
    state = refinement(problem((SMALL, MEDIUM), judge=ON_ROUTER, quality_min=52.0), threads)
    routing = cascades(state)[0]
    menu = whole_nodes(state, routing)
    least = {s: choices[0].gpus for s, choices in menu.items()}
    for s, choices in menu.items():
        demand, _ = state.references.one(s, routing)
        at = widest(demand.shapes, "h100-sxm")
        assert at is not None
        counts = [o.replicas[0].count for o in choices]
        assert counts == list(range(counts[0], counts[-1] + 1))
        assert {o.replicas[0].shape for o in choices} == {demand.shapes[at]}
        others = sum(g for other, g in least.items() if other != s)
        assert choices[-1].gpus <= 8 - others < choices[-1].gpus + demand.shapes[at].gpus


def test_where_a_stage_leaves_no_whole_node_to_another_there_are_none(threads: ThreadPoolExecutor) -> None:
    state = refinement(problem((MEDIUM, MEDIUM), judge=hosted_judge(MEDIUM), quality_min=52.0), threads)
    menu = whole_nodes(state, cascades(state)[0])
    widths = [shapes[widest(shapes, "h100-sxm") or 0].gpus for shapes in state.search.shapes.values()]
    assert (sum(widths) > 8) == (menu == {})


def test_the_widest_shape_has_the_most_tensor_parallelism_and_the_shortest_pipeline() -> None:
    shapes = (shape(1), shape(4, 2), shape(4), shape(2, 4), shape(8, pool="b"))
    assert widest(shapes, "a") == 2
    assert widest(shapes, "b") == 4
    assert widest(shapes, "c") is None
