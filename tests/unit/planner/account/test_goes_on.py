"""A bound that one round of the trace keeps and eight do not is told of: `p95 13.97 s` of 14 became 14.04."""

from dataclasses import replace

import pytest

from cascadia.domain.objective import Level, Objective
from cascadia.planner.account.goes_on import goes_on_notes
from cascadia.planner.plan import PlanResult
from cascadia.planner.stability.certificate import Certificate
from tests.unit.planner.problems import briefly, problem, traffic

FIRST = Level("ttft", 0.9, 0.5)


@pytest.fixture(scope="module")
def result() -> PlanResult:
    asked = Objective("latency", 0.95, 50.0, 1e6, levels=(replace(FIRST, max_s=1e6),))
    return briefly(problem(trace=traffic(60, 5.0), objective=asked))


@pytest.fixture(scope="module")
def found(result: PlanResult) -> Certificate:
    assert result.chosen.certificate is not None
    return result.chosen.certificate


def test_a_certificate_has_all_that_a_bound_is_on(result: PlanResult, found: Certificate) -> None:
    assert len(found.levels_repeated_s) == 1
    assert 0 < found.levels_repeated_s[0] < found.stability.objective_repeated_s
    assert not [note for note in result.notes if "goes on" in note]


@pytest.mark.parametrize(
    ("took_s", "first_s", "told"),
    [
        (14.04, 0.5, "end to end p95 is 14.04 s, beyond the 14 s asked for;"),
        (14.0, 0.51, "TTFT p90 is 0.51 s, beyond the 0.5 s asked for;"),
        (15.0, 0.6, "end to end p95 is 15 s, beyond the 14 s asked for, TTFT p90 is 0.6 s, beyond"),
        (14.0, 0.5, ""),
    ],
)
def test_what_goes_beyond_its_bound_when_traffic_goes_on_is_told_of(
    found: Certificate, took_s: float, first_s: float, told: str
) -> None:
    objective = Objective("cost", 0.95, 50.0, 14.0, levels=(FIRST,))
    stability = replace(found.stability, objective_repeated_s=took_s)
    notes = list(goes_on_notes(replace(found, stability=stability, levels_repeated_s=(first_s,)), objective))
    assert len(notes) == bool(told)
    assert all(f"8 times as long, {told}" in note for note in notes)


def test_without_bounds_nothing_is_told(found: Certificate) -> None:
    assert not list(goes_on_notes(replace(found, levels_repeated_s=()), Objective("latency", 0.95, 50.0)))
