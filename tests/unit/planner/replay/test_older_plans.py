"""Plans of earlier versions are replayed by what is known now; where that differs from then, a note says so."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from cascadia.planner.problem.trace_file import read_trace_for
from tests.unit.report.sample import sample_plan


def test_a_plan_that_does_not_name_its_trace_says_which_rate_it_was_planned_for(tmp_path: Path) -> None:
    plan, path = replace(sample_plan(), workload=None), tmp_path / "trace.csv"
    times = np.arange(11) / (3.0 * plan.predicted.rate_rps)
    rows = "".join(f"{at_s},10,10\n" for at_s in times)
    path.write_text("arrival_s,input_tokens,output_tokens\n" + rows)
    _, notes = read_trace_for(path, None, None, 0, plan)
    assert any(f"planned for {plan.predicted.rate_rps:g} requests/s" in note for note in notes)
    _, notes = read_trace_for(path, None, plan.predicted.rate_rps, 0, plan)
    assert not any("older version" in note for note in notes)
