"""A setting too risky is certified with probability at most delta, at any time."""

from itertools import product

import numpy as np
import pytest

from cascadia.exits.certify import Certificate, Promise, evidence, fewest_inputs, weighted
from cascadia.exits.copies import Recent

RISK = 0.01


def test_wealth_does_not_grow_in_the_mean_at_the_constraint() -> None:
    """Summed over all sequences of twelve inputs, each with its probability."""
    for risk in (RISK, 0.2):
        mean = sum(
            risk ** sum(bits)
            * (1 - risk) ** (12 - sum(bits))
            * float(np.exp(evidence(np.array([sum(bits)]), 12, risk)[0]))
            for bits in product((0, 1), repeat=12)
        )
        assert mean == pytest.approx(1.0, abs=1e-9)


def ever_certified(true_risk: float, inputs: int, delta: float, weights: np.ndarray | None = None) -> float:
    """The exact chance that a setting of `true_risk` has passed by then: wealth depends on two counts alone. `weights`
    (1, bets) of its bets; even where there are none.
    """
    differed = np.arange(80, dtype=np.float64)
    alive = np.zeros(80)
    alive[0], passed = 1.0, 0.0
    for n in range(1, inputs + 1):
        alive[1:] = alive[1:] * (1 - true_risk) + alive[:-1] * true_risk
        alive[0] *= 1 - true_risk
        over = evidence(differed, n, RISK, weights) >= -np.log(delta)
        passed += alive[over].sum()
        alive[over] = 0.0
    return passed


def test_a_setting_at_the_constraint_passes_with_probability_at_most_delta() -> None:
    passed = ever_certified(RISK, 3000, 0.1)
    assert 0.04 < passed < 0.1
    assert ever_certified(0.02, 1500, 0.1) < 0.01


def test_a_setting_well_inside_it_passes_soon() -> None:
    assert ever_certified(0.0, 500, 0.1) == pytest.approx(1.0)
    assert ever_certified(0.003, 2000, 0.1) > 0.9


def test_settings_are_tested_in_a_fixed_sequence() -> None:
    """The first differs at every hundredth input: what comes behind it waits, however safe."""
    certificate = Certificate(Promise(RISK, 0.9), 3)
    for i in range(3000):
        assert certificate.feed(np.array([i % 100 == 0, False, False])) == -1
    assert certificate.estimate(0) == pytest.approx(0.01)


def test_what_has_passed_stays_certified() -> None:
    certificate = Certificate(Promise(RISK, 0.9), 2)
    for _ in range(600):
        certificate.feed(np.array([False, False]))
    assert certificate.certified == 1
    for _ in range(200):
        certificate.feed(np.array([True, True]))
    assert certificate.certified == 1


@pytest.mark.parametrize(("risk", "confidence"), [(0.0, 0.9), (1.0, 0.9), (0.01, 1.0), (0.01, 0.0)])
def test_a_promise_lies_between_none_and_all(risk: float, confidence: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        Promise(risk, confidence)


@pytest.mark.parametrize(
    ("risk", "confidence", "least"), [(0.01, 0.9, 361), (0.5, 0.5, 2), (0.05, 0.99, 127)]
)
def test_the_fewest_inputs_are_what_a_setting_that_never_differs_takes(
    risk: float, confidence: float, least: int
) -> None:
    promise = Promise(risk, confidence)
    found, fed = Certificate(promise, 1), 0
    while found.certified < 0:
        found.feed(np.zeros(1, dtype=np.bool_))
        fed += 1
    assert fewest_inputs(promise) == fed == least


def test_a_run_of_copies_wins_no_more_than_one_input() -> None:
    """Inputs that come in runs of ten, at a risk of ten times the constraint: a certificate that took them for others
    would pass half of the time."""
    rng, broken = np.random.default_rng(3), 0
    for _ in range(50):
        certificate = Certificate(Promise(0.1, 0.9), 1)
        for wrong in rng.random(40) < 0.11:
            for at in range(10):
                certificate.feed(np.array([wrong]), copy=at > 0)
        broken += certificate.certified >= 0
    assert broken <= 5


def test_copies_count_against_those_that_differ_on_them() -> None:
    certificate = Certificate(Promise(0.1, 0.9), 2)
    certificate.feed(np.array([False, True]))
    for _ in range(4):
        certificate.feed(np.array([False, True]), copy=True)
    told = [evidence(np.array([d]), n, 0.1)[0] for d, n in ((0.0, 1), (5.0, 5))]
    assert evidence(certificate.differed, 5 - certificate.excused, 0.1) == pytest.approx(told)


def test_a_copy_is_known_for_a_while() -> None:
    recent = Recent(2)
    assert [recent.has(key) for key in (b"a", b"a", b"b", b"c", b"a")] == [False, True, False, False, False]


@pytest.mark.parametrize("differed", [0.0, 5.0, 12.0, 60.0])
def test_whatever_the_calibration_data_say_a_setting_at_the_constraint_seldom_passes(differed: float) -> None:
    weights = weighted(np.array([differed]), 2000, RISK)
    assert np.exp(weights).sum() == pytest.approx(1.0)
    assert ever_certified(RISK, 3000, 0.1, weights) < 0.1


def test_what_was_seen_before_makes_a_setting_pass_sooner_and_the_contrary_does_not_stop_it() -> None:
    """361 inputs that agree are needed without, by bets that are even."""

    def first(differed: float) -> int:
        weights = weighted(np.array([differed]), 2000, RISK)
        return next(n for n in range(2000) if evidence(np.zeros(1), n, RISK, weights)[0] >= np.log(10))

    assert first(0.0) < 260
    assert first(60.0) < 640
    with_it = ever_certified(0.005, 1500, 0.1, weighted(np.array([10.0]), 2000, RISK))
    assert with_it > ever_certified(0.005, 1500, 0.1) + 0.05
