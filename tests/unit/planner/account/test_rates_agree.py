"""A plan's figures of one stage agree with each other: requests, tokens and dollars are of the same seconds."""

import pytest

from cascadia.planner.replay.iterations import decoding_batch
from tests.unit.planner.problems import FIVE, briefly, problem, traffic


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("requests", [20, 60])
def test_tokens_a_second_are_those_of_the_requests_a_second(requests: int) -> None:
    """However short the trace: after its last arrival there is time in which nobody comes."""
    given = problem(FIVE[1:3], trace=traffic(requests, 5.0), quality_min=50.0)
    plan = briefly(given).plan
    workload = given.workload
    for at, (stage, seen) in enumerate(zip(plan.stages, plan.predicted.stages, strict=True)):
        if seen.reached < 1.0:
            continue
        tokens = float((workload.input_tokens[at] + workload.output_tokens[at]).mean())
        assert seen.tokens_per_s == pytest.approx(seen.rate_rps * tokens)
        batch = decoding_batch(seen, stage.replicas[0], stage.config)
        assert batch.context_tokens == pytest.approx(tokens, abs=0.51)
    assert any(seen.reached == 1.0 for seen in plan.predicted.stages)
