"""Searches for a largest value, backlogs that grow and shares of an API's limit, by hand."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cascadia.domain.external import External
from cascadia.domain.workload import Workload
from cascadia.planner.stability.capacity_shares import Capacities, limit_shares
from cascadia.planner.stability.certificate import _grows, _in_hand
from cascadia.planner.stability.headroom import PRECISION, largest
from cascadia.planner.tables.loads import Load


@pytest.mark.parametrize("guess", [0.5, 1.0, 1.05, 7.0, 92.0, 500.0])
@pytest.mark.parametrize("border", [1.0, 1.02, 3.7, 42.0, 99.9, 100.0])
def test_the_largest_that_holds_is_found_to_its_precision_in_few_steps(border: float, guess: float) -> None:
    asked: list[float] = []

    def holds(value: float) -> bool:
        asked.append(value)
        return value <= border

    found = largest(holds, 1.0, 100.0, guess)
    assert found <= border
    assert found >= (1 - 2 * PRECISION) * min(border, 100.0)
    assert all(1.0 < value < 100.0 for value in asked)
    assert len(asked) < 90
    assert len(set(asked)) == len(asked)


def test_steps_widen_from_what_held_or_failed_by_six_percent() -> None:
    def trail(border: float, least: float) -> list[float]:
        asked: list[float] = []

        def holds(value: float) -> bool:
            asked.append(value)
            return value <= border

        largest(holds, 0.0 if least else 1.0, 1000.0, 10.0, least=least)
        return asked

    assert trail(1e9, 0.0)[:3] == pytest.approx([10.0, 10.6, 11.236])
    assert trail(2.0, 0.0)[:3] == pytest.approx([10.0, 10.0 / 1.06, 10.0 / 1.06**2])
    assert trail(1e9, 0.5)[:4] == pytest.approx([10.0, 10.6, 10.6 * 1.06**2, 10.6 * 1.06**6])
    down = trail(0.0, 0.5)
    assert down[:3] == pytest.approx([10.0, 10.0 / 1.06, 10.0 / 1.06**3])
    assert min(down) >= 0.49


@pytest.mark.parametrize(
    ("backlog", "grows"),
    [
        ([4.0] * 6, False),
        # By a quarter, by two deviations of what chance does, and by one: 5 + 4 + 1.
        ([4.0] * 3 + [10.0] * 3, False),
        ([4.0] * 3 + [10.1] * 3, True),
        ([0.0] * 3 + [3.0] * 3, False),
        ([0.0] * 3 + [3.1] * 3, True),
        ([4.0] * 3 + [99.0] * 9 + [4.0] * 3, False),
        ([1.0, 5.0, 6.0, 50.0, 9.0, 10.0, 11.0], False),
        ([1.0, 5.0, 6.0, 50.0, 9.0, 10.0, 11.5], True),
        ([4.0, 4.0, 10.0, 10.0], False),
        ([4.0, 4.0, 10.0, 10.3], True),
    ],
)
def test_a_backlog_grows_where_its_last_rounds_are_beyond_chance(backlog: list[float], grows: bool) -> None:
    assert _grows(np.array(backlog)) is grows


def test_who_is_in_hand_has_come_and_not_gone() -> None:
    came, went = np.array([0, 10, 20, 30]), np.array([15, 40, 20, 35])
    assert _in_hand(came, went, np.array([0, 10, 15, 20, 30, 40])).tolist() == [1, 2, 1, 1, 2, 0]


def stage(limit: int | None) -> Any:
    api = External(1.0, 1.0, ttft_p50_s=0.1, ttft_p95_s=0.2, tpot_p50_s=0.1, tpot_p95_s=0.2,
                   base_url="https://a.example", api_key_env="K")  # fmt: skip
    return SimpleNamespace(external=replace(api, requests_per_minute=limit))


def test_an_api_is_sent_a_share_of_its_minute() -> None:
    """Of five requests in ten seconds, 30 a minute, each stage is asked by as many as reach it."""
    arrival_s = np.array([0.0, 2.0, 4.0, 6.0, 8.0])
    stages = (SimpleNamespace(external=None), stage(60), stage(None), stage(10))
    ones = np.ones((4, 5), np.int64)
    workload = Workload(arrival_s, ones[0], ones, ones, ones[0])
    problem: Any = SimpleNamespace(stages=stages, workload=workload)
    reached = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]], bool)
    decided: Any = SimpleNamespace(reached=reached)
    found = limit_shares(problem, decided)
    assert set(found) == {1}
    assert found[1] == pytest.approx(2 * 60 / 10 / 60)
    none: Any = SimpleNamespace(stages=stages[:3:2], workload=workload)
    assert limit_shares(none, decided) == {}


class Twice:
    """A replica sustains two requests a second."""

    def rps(self, timing: object, load: object) -> float:
        return 2.0


def test_a_mix_is_sent_a_share_of_what_its_replicas_sustain_while_they_are_there() -> None:
    ones = np.ones(6, np.int64)
    load = Load(np.arange(6), np.arange(6), ones, ones, 0 * ones, 2 * 10**12)
    capacities = Capacities(Twice())  # type: ignore[arg-type]
    mix: Any = [
        SimpleNamespace(count=count, shape=SimpleNamespace(there=there, timing=None))
        for count, there in ((2, 0.5), (1, 1.0))
    ]
    assert capacities.share(mix, load) == pytest.approx(3.0 / 4.0)
    assert capacities.share([], load) == np.inf
    nobody = Load(ones[:0], ones[:0], ones[:0], ones[:0], ones[:0], 10**12)
    assert capacities.share([], nobody) == 0.0
