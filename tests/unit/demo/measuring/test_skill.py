"""A cascade is worth what it does beyond a coin that costs as much, on the way to an oracle that does too."""

import pytest

from cascadia.demo.measuring.measured import Pass
from cascadia.demo.measuring.skill import skill_of
from tests.unit.demo.measuring.test_measured import answers

SMALL = "+" * 40 + "-" * 60
LARGE = "+" * 30 + "-" * 10 + "+" * 50 + "-" * 10


def of(pattern: str, seconds: float) -> Pass:
    return Pass("cascadia", answers(pattern), {"engines": seconds * len(pattern)})


def found(cascade: str, seconds: float) -> tuple[float, float, float, float]:
    skill = skill_of(of(cascade, seconds), of(SMALL, 1.0), of(LARGE, 3.0))
    assert skill is not None
    assert skill.lower <= skill.way <= skill.upper
    return skill.large_share, skill.coin, skill.oracle, skill.way


def test_who_answers_like_the_oracle_goes_the_whole_way_and_like_the_coin_none() -> None:
    # Half of the large model's lead of 40 points for half of the money between; the 50 that only it knows fit in.
    assert found("+" * 90 + "-" * 10, 2.0) == pytest.approx((0.5, 0.6, 0.9, 1.0))
    assert found("+" * 60 + "-" * 40, 2.0)[3] == pytest.approx(0.0)
    assert found("+" * 75 + "-" * 25, 2.0)[3] == pytest.approx(0.5)


def test_an_oracle_without_money_is_the_small_model_and_with_too_much_is_both() -> None:
    assert found(SMALL, 1.0)[:3] == pytest.approx((0.0, 0.4, 0.4))
    assert found(SMALL, 0.5)[:3] == pytest.approx((0.0, 0.4, 0.4))
    assert found(SMALL, 1.4)[2] == pytest.approx(0.6)
    assert found(LARGE, 4.0)[:3] == pytest.approx((1.0, 0.8, 0.9))


def test_more_questions_say_more() -> None:
    few = skill_of(of("+" * 75 + "-" * 25, 2.0), of(SMALL, 1.0), of(LARGE, 3.0))
    many = skill_of(of(("+" * 75 + "-" * 25) * 4, 2.0), of(SMALL * 4, 1.0), of(LARGE * 4, 3.0))
    assert few is not None
    assert many is not None
    assert many.gain_upper - many.gain_lower == pytest.approx((few.gain_upper - few.gain_lower) / 2, rel=0.15)
    assert few.gain_lower < few.cascade - few.coin < few.gain_upper


def test_models_that_cost_the_same_have_no_coin_between_them() -> None:
    assert skill_of(of(SMALL, 1.0), of(SMALL, 2.0), of(LARGE, 2.0)) is None
