"""A request's own limits, from its body or from headers: what they mean, and which are refused."""

from types import SimpleNamespace
from typing import Any

import pytest

from cascadia.router.cascade.request_limits import Urgency, _bounds, _score_min, urgency_of
from cascadia.router.openai.errors import ApiError
from cascadia.router.openai.requests import Fields


def exchange(least: int | None = None, **headers: str) -> Any:
    given = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    reservation = None if least is None else SimpleNamespace(priority=least)
    return SimpleNamespace(
        head=SimpleNamespace(given=given), reservation=reservation, started_s=100.0, more=b""
    )


@pytest.mark.parametrize(
    ("fields", "headers", "expected"),
    [
        ({}, {}, (160.0, 0)),
        ({"deadline_ms": 500}, {}, (100.5, 0)),
        ({"deadline_ms": 90_000}, {}, (160.0, 0)),
        ({"deadline_ms": 500}, {"deadline_ms": "250"}, (100.25, 0)),
        ({"priority": 3}, {}, (160.0, 3)),
        ({"priority": -3}, {}, (160.0, -3)),
        ({}, {"priority": "7"}, (160.0, 7)),
        ({"priority": 2**53}, {}, (160.0, 2**53)),
    ],
)
def test_the_sooner_deadline_counts_and_the_headers_limit_before_the_bodys(
    fields: dict[str, Any], headers: dict[str, str], expected: tuple[float, int]
) -> None:
    assert urgency_of(exchange(**headers), Fields("m", **fields), 60.0) == Urgency(*expected)


@pytest.mark.parametrize(
    ("least", "wanted", "expected"),
    [(5, None, 5), (-5, None, 0), (5, 3, 5), (5, 8, 8), (-5, -9, -5), (-5, -2, -2)],
)
def test_nobody_is_more_urgent_than_the_key_allows(least: int, wanted: int | None, expected: int) -> None:
    fields = Fields("m") if wanted is None else Fields("m", priority=wanted)
    assert urgency_of(exchange(least), fields, 60.0).priority == expected
    if wanted is not None:
        assert urgency_of(exchange(least, priority=str(wanted)), Fields("m"), 60.0).priority == expected


@pytest.mark.parametrize(
    ("headers", "param"),
    [
        ({"deadline_ms": "0"}, "deadline_ms"),
        ({"deadline_ms": "-1"}, "deadline_ms"),
        ({"deadline_ms": "inf"}, "deadline_ms"),
        ({"deadline_ms": "soon"}, "deadline-ms"),
        ({"priority": "1.5"}, "priority"),
        ({"priority": str(2**53 + 2)}, "priority"),
        ({"priority": str(-(2**53) - 2)}, "priority"),
        ({"priority": "nan"}, "priority"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused_by_name(headers: dict[str, str], param: str) -> None:
    with pytest.raises(ApiError) as refused:
        urgency_of(exchange(**headers), Fields("m"), 60.0)
    assert (refused.value.status, refused.value.param) == (400, param)


@pytest.mark.parametrize(("score", "expected"), [(None, 0.0), (0, 0.0), (2, 2.0), (57.5, 57.5), (100, 100.0)])
def test_a_least_score_is_of_a_hundred(score: float | None, expected: float) -> None:
    asked = exchange()
    assert _score_min(asked, Fields("m") if score is None else Fields("m", score_min=score)) == expected
    assert asked.more == b""


@pytest.mark.parametrize("score", [-1, 100.5, 0.5, 1])
def test_a_least_score_that_is_none_or_a_fraction_is_refused(score: float) -> None:
    for name in ("score_min", "quality_min"):
        with pytest.raises(ApiError) as refused:
            _score_min(exchange(), Fields("m", **{name: score}))
        assert refused.value.param == name


def test_its_former_name_still_works_and_is_told_to_be_former() -> None:
    asked = exchange(quality_min="60")
    assert _score_min(asked, Fields("m")) == 60.0
    assert b"use=score_min" in asked.more
    with pytest.raises(ApiError, match="two names"):
        _score_min(exchange(quality_min="60"), Fields("m", score_min=50))


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [
        (None, None, (0, 2)),
        ("b", None, (1, 2)),
        (None, "b", (0, 0)),
        (None, "c", (0, 1)),
        ("a", "d", (0, 2)),
        ("c", "c", (1, 1)),
    ],
)
def test_bounds_are_among_the_deployed_stages_by_the_order_of_all(
    least: str | None, most: str | None, expected: tuple[int, int]
) -> None:
    deployed = tuple(SimpleNamespace(name=name) for name in "acd")
    settings: Any = SimpleNamespace(stages=deployed, names=tuple("abcd"))
    assert _bounds(settings, least, most) == expected


@pytest.mark.parametrize(
    ("least", "most", "param"),
    [("b", "b", "max_stage"), ("d", "a", "max_stage"), ("x", None, "min_stage"), (None, "x", "max_stage")],
)
def test_bounds_that_leave_no_stage_are_refused(least: str | None, most: str | None, param: str) -> None:
    deployed = tuple(SimpleNamespace(name=name) for name in "acd")
    settings: Any = SimpleNamespace(stages=deployed, names=tuple("abcd"))
    with pytest.raises(ApiError) as refused:
        _bounds(settings, least, most)
    assert refused.value.param == param
