"""The page's savings against the largest stage alone: by hand, and over draws as often within their margin as said."""

import random
from dataclasses import replace

import pytest

from cascadia.router.settings.model import StageSettings, token_costs
from cascadia.router.ui.evaluations import Seen, against_largest

ALIKE = [(1.0, 1.0), (10.0, 10.0)]
"""What is read costs as much as what is written."""


def test_two_requests_by_hand() -> None:
    # Kept by the small stage for 10 tokens at 1; passed on for 10 at 1, and 15 at 4 with 5 at 28.
    seen = [[(80, 6, 4), (90, 15, 5)], [(30, 6, 4), (70, 15, 5)]]
    found = against_largest(seen, [50.0, None], [(1.0, 1.0), (4.0, 28.0)])
    assert found is not None
    assert (found["number"], found["points"]) == (2, -5.0)
    assert found["saved"] == pytest.approx(1 - 220 / 400)
    assert found["points_margin"] == pytest.approx(1.96 * 5.0)
    assert found["saved_margin"] == pytest.approx(1.96 * 100 / 200)


def test_without_costs_the_score_is_told_and_of_one_request_nothing() -> None:
    one = [(80.0, 5, 5), (90.0, 10, 10)]
    assert against_largest([one], [50.0, None], ALIKE) is None
    found = against_largest([one, one], [50.0, None], [None, ALIKE[1]])
    assert found == {"number": 2, "points": -10.0, "points_margin": 0.0, "saved": None, "saved_margin": None}


def test_prices_count_where_all_stages_have_them_and_else_costs() -> None:
    own = StageSettings("small", "m", (), cost=1.0, price=(0.5, 0.5))
    api = StageSettings("large", "m", (), price=(1.0, 4.0))
    assert token_costs([own, api]) == [(0.5, 0.5), (1.0, 4.0)]
    assert token_costs([own, replace(api, price=None)]) == [(1.0, 1.0), None]


def test_margins_hold_as_often_as_said() -> None:
    draw = random.Random(3)

    def evaluation() -> list[Seen]:
        return [
            (draw.uniform(0, 100), 0, draw.randint(10, 90)),
            (draw.uniform(40, 100), 0, draw.randint(50, 150)),
        ]

    # At 50 half is kept: half of 10 x 100 tokens is saved, less 50 at 1 each time; 70 points for 75 or 70.
    within = 0
    for _ in range(300):
        found = against_largest([evaluation() for _ in range(100)], [50.0, None], ALIKE)
        assert found is not None
        saved, points = abs(found["saved"] - 0.45), abs(found["points"] - 2.5)
        within += (saved <= found["saved_margin"]) + (points <= found["points_margin"])
    assert 0.93 <= within / 600 <= 0.97
