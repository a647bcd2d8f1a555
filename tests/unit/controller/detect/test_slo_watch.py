"""The SLO is violated where more are late than chance and a little slack explain."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia.controller.detect.slo_watch import violation
from cascadia.controller.detect.windows import Samples
from cascadia.domain.objective import Level, Metric, Objective
from tests.unit.controller.traffic import traffic

OBJECTIVE = Objective("cost", 0.95, None, 10.0)


def samples(late: float, unanswered: int = 0) -> Samples:
    found = traffic(1, 600.0, rate_rps=2.0)
    e2e_s = np.where(np.arange(len(found)) < late * len(found), 11.0, 9.0)
    came_s = np.sort(np.append(found.arrival_s, np.linspace(1.0, 599.0, unanswered)))
    return replace(found, e2e_s=e2e_s, came_s=came_s)


@pytest.mark.parametrize(("late", "told"), [(0.0, False), (0.05, False), (0.07, False), (0.12, True)])
def test_a_few_more_that_are_late_are_chance(late: float, told: bool) -> None:
    assert bool(violation(samples(late), OBJECTIVE)) is told


def test_who_has_no_answer_is_late() -> None:
    assert "10 s, of the 95 % promised" in violation(samples(0.0, unanswered=300), OBJECTIVE)


def test_without_a_latency_bound_nothing_was_promised() -> None:
    assert violation(samples(1.0), replace(OBJECTIVE, latency_max_s=None)) == ""


@pytest.mark.parametrize(
    ("metric", "told"), [("ttft", "had a first token in 1 s"), ("tpot", "had each further token in 0.1 s")]
)
def test_a_level_of_another_metric_is_held_to_it_too(metric: Metric, told: str) -> None:
    level = Level(metric, 0.95, 1.0 if metric == "ttft" else 0.1)
    objective = replace(OBJECTIVE, levels=(level,))
    found = samples(0.0)
    n = len(found)
    # Of ten tokens, from the first at 0.5 s on; of every fourth the first comes at 5 s, or the last at 9 s.
    slow = np.arange(n) % 4 == 0
    ttft_s = np.where(slow & (metric == "ttft"), 5.0, 0.5)
    e2e_s = ttft_s + np.where(slow & (metric == "tpot"), 8.5, 0.4)
    found = replace(found, output_tokens=np.full(n, 10), ttft_s=ttft_s, e2e_s=e2e_s)
    assert f"75 % of {n:,} requests {told}" in violation(found, objective)
    assert violation(found, OBJECTIVE) == ""


@pytest.mark.parametrize(("tokens", "told"), [(1, False), (2, True)])
def test_after_the_first_token_an_answer_of_one_keeps_nobody_waiting(tokens: int, told: bool) -> None:
    objective = replace(OBJECTIVE, latency_max_s=None, levels=(Level("tpot", 0.95, 0.1),))
    found = samples(0.0)
    n = len(found)
    found = replace(
        found, output_tokens=np.full(n, tokens), ttft_s=np.full(n, 0.5), e2e_s=np.full(n, 3.0), came_s=None
    )
    assert bool(violation(found, objective)) is told
