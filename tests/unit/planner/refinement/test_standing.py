"""Candidates in order as they come: who is promising is told as from all of them at once."""

from collections import Counter
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from cascadia.domain.objective import Objective
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.refinement.standing import FEW, Standing
from cascadia.planner.refinement.state import Candidate, rank, strain, within_limits

LATENCY_S = st.sampled_from([1.0, 2.0, 3.0, 5.0, 8.0])
CANDIDATES = st.lists(
    st.builds(
        Candidate,
        st.builds(Deployment, st.integers(0, 2), st.just(())),
        LATENCY_S,
        st.sampled_from([60.0, 70.0]),
        st.sampled_from([0.5, 1.2]),
        elsewhere_usd=st.sampled_from([0.0, 1.0]),
    ),
    max_size=20,
)
OBJECTIVES = st.builds(
    Objective, st.sampled_from(["latency", "cost", "quality"]), latency_max_s=st.sampled_from([None, 2.5])
)


def told_at_once(problem: SimpleNamespace, seen: list[Candidate], each: int) -> list[Candidate]:
    within = sorted((c for c in seen if within_limits(problem, c)), key=lambda c: rank(problem, c))
    beyond = [c for c in seen if not within_limits(problem, c)]
    if within:
        beyond = [c for c in beyond if rank(problem, c) < rank(problem, within[0])]
    beyond.sort(key=lambda c: (strain(problem, c), c.latency_s))
    return within[:FEW] + beyond[:FEW] + first_of_each(within, each) + first_of_each(beyond, each)


def first_of_each(ordered: list[Candidate], each: int) -> list[Candidate]:
    before = [Counter(c.deployment.routing for c in ordered[:i]) for i in range(len(ordered))]
    return [c for c, taken in zip(ordered, before, strict=True) if taken[c.deployment.routing] < each]


@given(OBJECTIVES, CANDIDATES, st.integers(0, 20), st.integers(0, 3))
def test_the_promising_are_the_same_whenever_they_were_told_of(
    objective: Objective, candidates: list[Candidate], first: int, each: int
) -> None:
    problem = SimpleNamespace(objective=objective, asked=None)
    standing = Standing(problem)
    seen: dict[object, Candidate] = dict(enumerate(candidates[:first]))
    standing.add(seen)
    seen |= dict(enumerate(candidates[first:], first))
    standing.add(seen)
    found = list(standing.promising(each))
    assert [id(c) for c in found] == [id(c) for c in told_at_once(problem, list(seen.values()), each)]
