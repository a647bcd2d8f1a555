"""A plan is called optimal only where the solver proved it: a time limit proves nothing."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pulp
import pytest

from cascadia.domain.deadline import Deadline
from cascadia.domain.plan import Plan
from cascadia.domain.problem import Problem
from cascadia.files.plan_file import parse_plan, plan_json
from cascadia.planner import plan
from cascadia.planner.allocation import columns, highs, paper
from cascadia.planner.allocation.columns import allocate
from cascadia.planner.allocation.demand import Allocation
from cascadia.planner.allocation.highs import Solved
from cascadia.planner.allocation.paper import allocate_paper
from cascadia.planner.plan import Formulation, PlanResult
from cascadia.planner.tables.packing import packs_perfectly
from tests.unit.planner.enumeration import best_by_enumeration
from tests.unit.planner.instances import random_instance
from tests.unit.planner.problems import LEAST, briefly, hosted_judge, problem

pytestmark = pytest.mark.slow

AT_ONCE_S = 1e-9


@pytest.fixture
def gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver that finds what HiGHS finds and never has the time to prove it."""

    def unproven(program: pulp.LpProblem, deadline: Deadline) -> Solved:
        return Solved(highs.solve_by(program, deadline).found, proven=False, bound=float("-inf"))

    for program in (columns, paper):
        monkeypatch.setattr(program, "solve_by", unproven)


def unsearched(given: Problem, **asked: Any) -> PlanResult:
    """The plan after hardly any search: what its proof says is of one program."""
    return briefly(given, effort=LEAST, **asked)


@cache
def two_models() -> PlanResult:
    return unsearched(problem())


def is_an_incumbent(found: Plan) -> bool:
    proof = found.proof
    return proof.status == "incumbent" and 0 <= proof.bound_s < proof.objective_s and 0 < proof.gap <= 1


@pytest.mark.long
@pytest.mark.parametrize("solve", [allocate, allocate_paper])
@pytest.mark.usefixtures("gives_up")
def test_what_was_not_proven_has_a_bound_below_its_value(solve: Callable[..., Allocation | None]) -> None:
    unproven = 0
    for seed in range(30):
        demands, cluster, verdict_s = random_instance(seed)
        found = solve(demands, cluster, verdict_s=verdict_s)
        if found is None:
            continue
        best = best_by_enumeration(demands, cluster, verdict_s)
        assert best is not None
        assert 0 <= found.bound_s <= best.latency_s
        if not found.proven:
            assert found.bound_s < found.latency_s
            assert 0 < found.gap <= 1
            unproven += 1
    assert unproven > 10


def test_past_the_deadline_what_is_known_is_kept_and_no_further_program_solved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many numbers a self-hosted judge and its stages may have: one program each until there is an answer."""
    solved: list[bool] = []

    def counted(program: pulp.LpProblem, deadline: Deadline) -> Solved:
        found = highs.solve_by(program, deadline)
        solved.append(found.found)
        return found

    monkeypatch.setattr(columns, "solve_by", counted)
    many = 0
    for seed in range(40):
        demands, cluster, verdict_s = random_instance(seed, pools=2)
        in_time = allocate(demands, cluster, verdict_s=verdict_s)
        many = max(many, len(solved))
        solved.clear()
        late = allocate(demands, cluster, verdict_s=verdict_s, deadline=Deadline(0.0))
        assert (late is None) == (in_time is None)
        assert sum(solved) == (late is not None), "it ends with the first that has a solution"
        solved.clear()
        if in_time is not None and late is not None:
            assert late.bound_s <= in_time.latency_s <= late.latency_s
    assert many >= 20


def test_no_time_is_no_proof_unless_the_answer_is_the_optimum() -> None:
    for seed in range(30):
        demands, cluster, verdict_s = random_instance(seed)
        found = allocate(demands, cluster, verdict_s=verdict_s, deadline=Deadline(AT_ONCE_S))
        if found is None:
            continue
        best = best_by_enumeration(demands, cluster, verdict_s)
        assert best is not None
        assert found.bound_s <= best.latency_s <= found.latency_s
        assert found.proven == (found.bound_s == found.latency_s)


@pytest.mark.long
def test_what_need_not_be_proven_claims_nothing() -> None:
    for seed in range(20):
        for pools in (1, 2):
            demands, cluster, verdict_s = random_instance(seed, pools=pools)
            quick = allocate(demands, cluster, verdict_s=verdict_s, prove=False)
            proven = allocate(demands, cluster, verdict_s=verdict_s)
            assert (quick is None) == (proven is None)
            if quick is not None and proven is not None:
                assert not quick.proven
                assert quick.latency_s >= proven.latency_s


def test_on_one_pool_of_perfect_nodes_the_unproven_answer_is_the_proven_one() -> None:
    for seed in range(20):
        demands, cluster, verdict_s = random_instance(seed)
        if not packs_perfectly(cluster.pools[0]):
            continue
        quick = allocate(demands, cluster, verdict_s=verdict_s, prove=False)
        proven = allocate(demands, cluster, verdict_s=verdict_s)
        assert (quick and quick.latency_s) == (proven and proven.latency_s)


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("formulation", ["columns", "paper"])
def test_a_plan_whose_allocation_was_proven_is_optimal(formulation: Formulation) -> None:
    found = unsearched(problem(judge=hosted_judge()), formulation=formulation).plan
    assert found.proof.status == "optimal"
    assert found.proof.formulation == formulation
    assert found.proof.bound_s == found.proof.objective_s
    assert found.proof.gap == 0


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("formulation", ["columns", "paper"])
@pytest.mark.usefixtures("gives_up")
def test_a_plan_whose_solver_gave_up_is_an_incumbent_with_a_gap(formulation: Formulation) -> None:
    found = unsearched(problem(judge=hosted_judge()), formulation=formulation).plan
    assert is_an_incumbent(found)
    assert parse_plan(plan_json(found), "plan") == found


@pytest.mark.parametrize("formulation", ["columns", "paper"])
def test_a_plan_made_in_no_time_at_all_can_still_be_written_and_read(formulation: Formulation) -> None:
    found = plan.plan(problem(judge=hosted_judge()), formulation=formulation, deadline=Deadline(0.0)).plan
    assert found.proof.status == "optimal" or is_an_incumbent(found)
    assert parse_plan(plan_json(found), "plan") == found


def test_a_winner_that_no_table_promises_is_an_incumbent(monkeypatch: pytest.MonkeyPatch) -> None:
    solver = plan.solver

    def without_proof(*args: object, prove: bool = False) -> object:
        return (lambda demands: None) if prove else solver(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(plan, "solver", without_proof)
    found = unsearched(problem()).plan
    assert is_an_incumbent(found)
    assert found.proof.objective_s == max(stage.latency.p95_s for stage in found.predicted.stages)


@pytest.mark.long
def test_a_plan_says_of_how_many_deployments_it_is_the_best() -> None:
    result = two_models()
    assert result.plan.proof.tried == len(result.candidates) > 1


def test_a_plan_of_an_older_version_does_not_say_how_many_were_tried() -> None:
    text = plan_json(two_models().plan)
    tried = next(line for line in text.splitlines() if '"tried"' in line)
    older = text.replace(f"{tried}\n", "")
    assert older != text
    assert parse_plan(older, "plan").proof.tried == 0
