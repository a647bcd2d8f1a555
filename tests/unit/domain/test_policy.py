from dataclasses import replace

import pytest

from cascadia.domain.policy import Decision, Policies, Policy, PolicyRow


def row(*steps: tuple[float, str, int]) -> PolicyRow:
    slack_s, model, batch = zip(*steps, strict=True)
    return PolicyRow(slack_s, model, batch)


ONE = row((0.0, "small", 1), (0.05, "large", 1))
TWO = row((0.0, "small", 2), (0.08, "large", 2))
WAITING = row((0.0, "small", 2), (0.03, "small", 0))


def policies(*levels: Policy) -> Policies:
    return Policies(
        "guard", ("small", "large"), slo_s=0.1, workers=2, queue="worker", index="rate", levels=levels
    )


def test_the_row_of_the_queue_and_the_slack_decide() -> None:
    policy = Policy(100.0, (ONE, TWO))
    assert policy.decide(1, 0.1) == Decision("large", 1)
    assert policy.decide(1, 0.05) == Decision("large", 1)
    assert policy.decide(1, 0.0499) == Decision("small", 1)
    assert policy.decide(2, 0.06) == Decision("small", 2)


def test_a_late_request_is_decided_as_one_without_slack() -> None:
    assert Policy(100.0, (ONE,)).decide(1, -3.0) == Decision("small", 1)


def test_a_queue_beyond_the_table_is_decided_by_its_last_row() -> None:
    assert Policy(100.0, (ONE, TWO)).decide(50, 0.1) == Decision("large", 2)
    assert Policy(100.0, (ONE, ONE)).decide(50, 0.1) == Decision("large", 1)


def test_a_batch_that_waits_says_until_when() -> None:
    policy = Policy(100.0, (row((0.0, "small", 1), (0.03, "small", 0)), WAITING))
    assert policy.decide(2, 0.05).batch == 0
    assert policy.wait_s(2, 0.05) == pytest.approx(0.02)
    assert policy.decide(2, 0.02) == Decision("small", 2)


def test_a_row_may_refuse_the_rest() -> None:
    some = replace(TWO, batch=(1, 2), refuses=(True, False))
    policy = Policy(100.0, (ONE, some))
    assert policy.decide(2, 0.01) == Decision("small", 1, refuses=True)
    assert policy.decide(2, 0.09) == Decision("large", 2)
    with pytest.raises(ValueError, match="whether the rest is refused"):
        replace(some, refuses=(True,))


def test_who_cannot_be_in_time_is_lost_only_where_lateness_is_refused() -> None:
    serves = policies(Policy(100.0, (ONE,)))
    drops = replace(serves, late="drop", least_s=0.02)
    assert not serves.lost(-1.0)
    assert [drops.lost(slack_s) for slack_s in (-1.0, 0.0, 0.019, 0.02)] == [True, True, True, False]
    assert [replace(drops, least_s=0.0).lost(slack_s) for slack_s in (0.0, 0.001)] == [True, False]


def test_the_lowest_policy_that_meets_the_load_serves_it() -> None:
    low, high = Policy(100.0, (ONE,)), Policy(200.0, (ONE, TWO))
    both = policies(low, high)
    assert both.at(0.0) is low
    assert both.at(100.0) is low
    assert both.at(100.1) is high
    assert not both.beyond(200.0)


def test_a_load_beyond_the_last_policy_keeps_it_and_tells() -> None:
    both = policies(Policy(100.0, (ONE,)), Policy(200.0, (ONE,)))
    assert both.at(1e6) is both.levels[-1]
    assert both.beyond(200.1)
    three = policies(*(Policy(up_to, (ONE,)) for up_to in (100.0, 200.0, 300.0)))
    assert [three.beyond(load) for load in (250.0, 300.0, 300.1)] == [False, False, True]


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([(0.01, "small", 1)], "rise from 0"),
        ([(0.0, "small", 1), (0.0, "large", 1)], "rise from 0"),
        ([(0.0, "small", 0)], "waits for ever"),
        ([(0.0, "small", 1), (0.1, "small", -1)], "negative"),
    ],
)
def test_a_row_that_cannot_be_followed_is_refused(steps: list[tuple[float, str, int]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        row(*steps)


def test_policies_that_cannot_be_followed_are_refused() -> None:
    level = Policy(100.0, (ONE,))
    with pytest.raises(ValueError, match="served at once"):
        Policy(100.0, (TWO,))
    with pytest.raises(ValueError, match="do not rise"):
        policies(level, level)
    with pytest.raises(ValueError, match="no model 'large'"):
        replace(policies(level), models=("small",))


def test_a_row_has_as_many_models_and_batches_as_slacks() -> None:
    for slack_s, model, batch in (
        ((), (), ()),
        ((0.0,), ("small", "large"), (1,)),
        ((0.0,), ("small",), (1, 1)),
        ((0.0, 0.1), ("small",), (1,)),
    ):
        with pytest.raises(ValueError, match="as many models and batches"):
            PolicyRow(slack_s, model, batch)


def test_no_policy_serves_nothing_and_a_load_is_not_negative() -> None:
    with pytest.raises(ValueError, match="no row"):
        Policy(100.0, ())
    with pytest.raises(ValueError, match="has no policy"):
        policies()
    with pytest.raises(ValueError, match="do not rise"):
        policies(Policy(-1.0, (ONE,)))
    assert policies(Policy(0.0, (ONE,))).at(0.0).up_to == 0.0


def test_a_late_batch_waits_no_longer_and_one_in_time_until_the_next_slack() -> None:
    policy = Policy(100.0, (ONE, TWO))
    assert policy.wait_s(1, -3.0) == 0.0
    assert policy.wait_s(1, 0.02) == 0.02
    assert policy.wait_s(1, 0.25) == pytest.approx(0.2)


def test_the_policy_of_one_load_serves_it_alone() -> None:
    low, high = Policy(100.0, (ONE,)), Policy(200.0, (ONE, TWO))
    assert policies(low, high).only(150.0).levels == (high,)
