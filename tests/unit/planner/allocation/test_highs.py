"""Programs stated with PuLP and solved by HiGHS: known answers, and what is proven of them."""

import pulp

from cascadia.planner.allocation.highs import Solved, solve, whole

AT_ONCE_S = 1e-9


def knapsack(count: int) -> tuple[pulp.LpProblem, list[pulp.LpVariable]]:
    """The most worth within a weight; worth and weight are nearly alike, so that it takes a while to prove."""
    weights = [1000 + 37 * j % 101 for j in range(count)]
    program = pulp.LpProblem("knapsack", pulp.LpMinimize)
    taken = [program.add_variable(f"taken{j:03}", cat=pulp.LpBinary) for j in range(count)]
    program += pulp.lpDot([-w - 1 for w in weights], taken)
    program += pulp.lpDot(weights, taken) <= sum(weights) // 2
    return program, taken


def test_whole_replicas_cover_a_demand_on_the_fewest_gpus() -> None:
    program = pulp.LpProblem("textbook", pulp.LpMinimize)
    one, four = (
        program.add_variable(name, 0, most, pulp.LpInteger) for name, most in (("one", 8), ("four", 2))
    )
    program += one + 4 * four
    program += 0.25 * one + 1.5 * four >= 2
    solved = solve(program, 10.0)
    assert solved == Solved(found=True, proven=True, bound=6.0)  # 2 of one GPU and 1 of four
    assert (whole(one), whole(four)) == (2, 1)


def test_a_program_without_a_solution_is_proven_to_have_none() -> None:
    program = pulp.LpProblem("none", pulp.LpMinimize)
    x = program.add_variable("x", 0, 3, pulp.LpInteger)
    program += x
    program += 2 * x >= 7
    assert solve(program, 10.0) == Solved(found=False, proven=True)


def test_no_time_is_no_proof_of_anything() -> None:
    program, _ = knapsack(60)
    solved = solve(program, AT_ONCE_S)
    assert not solved.proven


def test_the_bound_of_what_was_proven_is_its_objective() -> None:
    program, taken = knapsack(8)
    solved = solve(program, 10.0)
    assert solved.proven
    assert solved.bound == pulp.value(program.objective)
    assert set(map(whole, taken)) == {0, 1}
