"""A bound that one round of the trace keeps and eight do not is told of: `p95 13.97 s` of 14 became 14.04."""

from dataclasses import replace

from cascadia.domain.plan import Plan
from cascadia.planner.account.goes_on import goes_on_notes
from tests.unit.planner.problems import briefly, problem, traffic


def bounded(plan: Plan, most_s: float | None, repeated_s: float) -> Plan:
    assert plan.stability is not None
    return replace(
        plan,
        gears=(),
        objective=replace(plan.objective, latency_max_s=most_s),
        stability=replace(plan.stability, objective_repeated_s=repeated_s),
    )


def test_what_goes_beyond_its_bound_when_traffic_goes_on_is_told_of() -> None:
    plan = briefly(problem(trace=traffic(60, 5.0), quality_min=50.0)).plan
    (note,) = goes_on_notes(bounded(plan, 14.0, 14.04))
    assert "8 times as long, p95 is 14.04 s, beyond the 14 s asked for" in note
    for most_s, repeated_s in ((14.0, 14.0), (None, 14.04)):
        assert not list(goes_on_notes(bounded(plan, most_s, repeated_s)))
