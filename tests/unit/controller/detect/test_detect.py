"""Changes are found soon, and stationary traffic, however bursty, raises no more alarms than promised."""

import random

import numpy as np
import pytest

from cascadia.controller.detect.detect import Alarm, Detection, Detector
from cascadia.controller.detect.e_detector import BETS, Evidence
from cascadia.controller.detect.windows import INPUT, OUTPUT, RATE, Samples, score_of, spread_of, windows
from tests.unit.controller.traffic import joined, traffic

pytestmark = pytest.mark.slow

WINDOW_S = 60.0
HOUR_S = 3600.0


def alarms(samples: Samples, duration_s: float, detection: Detection | None = None) -> list[Alarm]:
    detector = Detector(detection or Detection(WINDOW_S), seed=1)
    found = (detector.feed(window) for window in windows(samples, 0.0, duration_s, WINDOW_S))
    return [alarm for alarm in found if alarm is not None]


def test_bets_are_fair() -> None:
    """The mean of eps p^(eps-1) over p is 1: integrated over p = exp(-x), where it is smooth."""
    x = np.linspace(0.0, 200.0, 400_001)
    for eps in BETS:
        assert np.trapezoid(eps * np.exp(-eps * x), x) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("values", ["pareto", "tied"])
def test_while_nothing_changes_evidence_grows_by_one_a_window_in_the_mean(values: str) -> None:
    """Stopped when it first exceeds 50, at 400 windows at the latest: its mean then is the mean time (optional
    stopping), so it exceeds 50 seldom before. Infinite variance, or values of three levels only, change nothing."""
    rng = np.random.default_rng(3)
    stopped_at, evidence_then = [], []
    for seed in range(600):
        drawn = rng.pareto(1.2, 400) if values == "pareto" else rng.integers(0, 3, 400).astype(float)
        evidence = Evidence(random.Random(seed).random, most=400)
        for value in drawn.tolist():
            found = evidence.feed(value)
            if found >= 50:
                break
        stopped_at.append(evidence.windows)
        evidence_then.append(found)
    assert np.mean(stopped_at) >= 50
    error = np.std(evidence_then) / np.sqrt(len(evidence_then))
    assert np.mean(evidence_then) == pytest.approx(np.mean(stopped_at), abs=5 * error)


@pytest.mark.long
@pytest.mark.parametrize("burstiness", [1.0, 4.0])
def test_two_weeks_of_stationary_traffic_raise_no_more_alarms_than_promised(burstiness: float) -> None:
    duration_s = 14 * 24 * HOUR_S
    found = alarms(traffic(5, duration_s, rate_rps=0.25, burstiness=burstiness), duration_s)
    assert len(found) <= 2


CHANGES = {
    RATE: {"rate_rps": 1.0},
    INPUT: {"input_tokens": 400.0},
    OUTPUT: {"output_tokens": 300.0},
    score_of("small"): {"score": 50.0},
}


@pytest.mark.parametrize("watched", list(CHANGES))
def test_after_six_hours_a_change_is_found_within_ten_minutes_and_dated(watched: str) -> None:
    at_s = 6 * HOUR_S
    samples = joined(traffic(7, at_s), traffic(8, HOUR_S, start_s=at_s, **CHANGES[watched]))
    found = alarms(samples, at_s + HOUR_S)
    assert len(found) == 1
    assert found[0].watched == watched
    assert at_s < found[0].at_s <= at_s + 10 * WINDOW_S
    assert abs(found[0].since_s - at_s) <= 3 * WINDOW_S
    assert (found[0].since > found[0].before) == (watched != score_of("small"))


def test_scores_that_spread_are_a_change_though_their_mean_stays() -> None:
    at_s = 12 * HOUR_S
    rng = np.random.default_rng(2)
    before, after = traffic(7, at_s), traffic(8, HOUR_S, start_s=at_s)
    wide = np.where(rng.random(len(after)) < 0.5, 40.0, 100.0)
    after = Samples(after.arrival_s, after.input_tokens, after.output_tokens, scores={"small": wide})
    found = alarms(joined(before, after), at_s + HOUR_S)
    assert [alarm.watched for alarm in found] == [spread_of("small")]


def test_after_an_alarm_the_new_traffic_is_the_usual() -> None:
    at_s = 6 * HOUR_S
    samples = joined(traffic(7, at_s), traffic(8, 24 * HOUR_S, start_s=at_s, rate_rps=1.5))
    assert len(alarms(samples, 30 * HOUR_S)) == 1


def test_silence_after_traffic_is_a_change_of_rate_alone() -> None:
    at_s = 6 * HOUR_S
    found = alarms(traffic(7, at_s), at_s + HOUR_S)
    assert [alarm.watched for alarm in found] == [RATE]
    assert "0 req/s instead of" in str(found[0])


def test_more_streams_are_each_allowed_less() -> None:
    assert Detection(streams=18).limit == 2 * Detection(streams=9).limit
    assert Detection(false_alarms_per_week=0.5).limit == 2 * Detection().limit
    assert Detection(window_s=60.0, streams=9).limit == 9 * 10_080


def test_windows_count_sampled_requests_at_their_share() -> None:
    ones = np.ones(3, np.int64)
    scores = {"small": np.array([40.0, np.nan, 60.0])}
    samples = Samples(np.array([1.0, 2.0, 70.0]), ones, ones, scores=scores, ratio=0.5)
    first, second = windows(samples, 0.0, 130.0, WINDOW_S)
    assert first.values == {RATE: 2 / 60 / 0.5, INPUT: 0.0, OUTPUT: 0.0}
    assert second.values[RATE] == 1 / 60 / 0.5
    assert len(samples.between(1.5, 70.0)) == 1


def test_an_alarm_says_what_went_from_what_to_what_and_since_when() -> None:
    assert str(Alarm("rate", 1.0, 3.0, since_s=600.0, at_s=900.0)).endswith(", since 5 min")
