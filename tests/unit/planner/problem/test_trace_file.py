"""The trace that a plan was made for is read as the plan had it, and another as it is."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cascadia.domain.objective import Goal, Objective
from cascadia.domain.plan import WorkloadRules
from cascadia.planner.problem.trace_file import file_digest, read_trace_for
from cascadia.testing.plans import three_stages


@pytest.mark.parametrize(
    ("goal", "asked_rps", "rate_rps"),
    [("cost", None, 4.0), ("rate", None, 6.0), ("cost", 8.0, 8.0), ("rate", 8.0, 8.0)],
)
def test_a_trace_is_played_as_fast_as_was_asked_or_as_its_plan_found_it_can_be(
    tmp_path: Path, goal: Goal, asked_rps: float | None, rate_rps: float
) -> None:
    """The spec stretched it to 4 requests/s; where the rate was to be large, 6 were found."""
    path = tmp_path / "trace.csv"
    rows = "".join(f"{at},100,20\n" for at in range(9))
    path.write_text(f"arrival_s,input_tokens,output_tokens\n{rows}")
    made = replace(
        three_stages(),
        objective=Objective(goal),
        workload=WorkloadRules(file_digest(path), 4.0, max_requests=6),
    )
    trace, _ = read_trace_for(path, None, asked_rps, 0, made)
    assert len(trace) == 6
    assert np.diff(trace.arrival_s).mean() == pytest.approx(np.diff(trace.arrival_s)[0])
    assert len(trace) / float(trace.arrival_s[-1]) == pytest.approx(rate_rps)
    path.write_text(f"{path.read_text()}9,100,20\n")
    other, _ = read_trace_for(path, None, None, 0, made)
    assert (len(other), float(other.arrival_s[-1])) == (10, 9.0)
