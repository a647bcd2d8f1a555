"""What a plan would give up is told, and gates tell whether questions are as hard as before."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia.controller.detect.stale_scores import alike, given_up
from cascadia.controller.detect.windows import Samples
from cascadia.controller.move.state import Desired, Kind, Observed, Replica, Routing
from tests.unit.controller.traffic import traffic

SMALL, LARGE, WIDE = Kind("small", "gpu", 1), Kind("large", "gpu", 4), Kind("large", "gpu", 8)
OLD_JUDGE, JUDGE = Kind("judge-1a", "gpu", 1), Kind("judge-2b", "gpu", 1)
ROUTING = Routing(("small", "large"), (60.0,))
NOW = Observed(
    tuple(
        Replica(f"{kind.stage}-{i}", kind, "ready") for i, kind in enumerate((SMALL, LARGE, LARGE, OLD_JUDGE))
    ),
    {"gpu": 16},
    ROUTING,
)


@pytest.mark.parametrize(
    ("desired", "told"),
    [
        (Desired({SMALL: 1, LARGE: 2, JUDGE: 1}, ROUTING), ""),
        (Desired({SMALL: 2, WIDE: 1, JUDGE: 1}, replace(ROUTING, thresholds=(70.0,))), ""),
        (Desired({SMALL: 4, LARGE: 1, JUDGE: 1}, ROUTING), "4 GPUs of large"),
        (Desired({LARGE: 3, JUDGE: 1}, Routing(("large",))), "1 GPUs of small"),
        (Desired({SMALL: 2, LARGE: 3, JUDGE: 1}, replace(ROUTING, thresholds=(50.0,))), "scores of small below 60"),
    ],
)  # fmt: skip
def test_what_a_stage_would_have_less_of_is_given_up(desired: Desired, told: str) -> None:
    assert given_up(NOW, desired) == told


def test_the_same_questions_are_alike_and_harder_ones_are_not() -> None:
    before = traffic(1, 20_000.0)
    assert alike(before, traffic(2, 20_000.0, rate_rps=2.0, start_s=20_000.0))
    assert not alike(before, traffic(2, 20_000.0, rate_rps=2.0, score=68.5, start_s=20_000.0))


def test_few_scores_prove_nothing() -> None:
    assert not alike(traffic(1, 20_000.0), traffic(2, 1000.0))


def test_without_a_gate_nothing_is_told() -> None:
    none = replace(traffic(1, 20_000.0), scores={})
    assert not alike(none, none)


def test_the_gate_that_scores_most_is_asked() -> None:
    """Whom a later one scores depends on the thresholds before it."""

    def gated(seed: int, later: float) -> Samples:
        found = traffic(seed, 40_000.0)
        low = found.scores["small"] < 60.0
        return replace(found, scores={**found.scores, "medium": np.where(low, later, np.nan)})

    assert alike(gated(1, 80.0), gated(2, 40.0))


@pytest.mark.parametrize(
    ("apart", "spread", "told"),
    [
        (0.0, 0.0, True),
        (1.0, 0.0, True),
        (1.25, 0.0, False),
        (-1.25, 0.0, False),
        (0.5, 2.0, True),
        (0.5, 4.0, False),
    ],
)
def test_scores_are_alike_where_they_are_surely_within_a_point(
    apart: float, spread: float, told: bool
) -> None:
    """Of 200 scores each, half `spread` above and half below: the difference's standard error is a tenth of that."""

    def gated(mean: float) -> Samples:
        scores = mean + spread * np.where(np.arange(200) % 2, 1.0, -1.0)
        ones = np.ones(200, np.int64)
        return Samples(np.arange(200.0), ones, ones, scores={"small": scores})

    assert alike(gated(60.0), gated(60.0 + apart)) is told
    assert not alike(gated(60.0), gated(60.0).between(0.0, 99.0))
