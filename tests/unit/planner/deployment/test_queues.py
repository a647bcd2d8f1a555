"""The queue over time: exact means by window, and the most that wait at once."""

import numpy as np
import pytest

from cascadia.planner.deployment.measures import waiting


def test_a_queue_known_by_hand() -> None:
    # One waits over 0-4 s, another over 1-2 s.
    queue = waiting("small", np.array([0.0, 1.0]), np.array([4.0, 2.0]), 4)
    assert queue.time_s.tolist() == [0.5, 1.5, 2.5, 3.5]
    assert queue.waiting == pytest.approx([1.0, 2.0, 1.0, 1.0])
    assert (queue.peak, queue.peak_s) == (2, 1.0)


def test_means_add_up_to_all_that_was_waited_and_the_peak_is_counted() -> None:
    rng = np.random.default_rng(3)
    begins = np.sort(rng.uniform(0, 100, 500))
    ends = begins + rng.exponential(1.0, 500)
    queue = waiting("small", begins, ends, 80)
    width = queue.time_s[1] - queue.time_s[0]
    assert queue.waiting.sum() * width == pytest.approx((ends - begins).sum())
    counts = [int(((begins <= at) & (ends > at)).sum()) for at in begins]
    assert queue.peak == max(counts)
    assert queue.peak_s == begins[int(np.argmax(counts))]


def test_nobody_waits_where_all_are_served_at_once() -> None:
    at = np.array([1.0, 2.0, 3.0])
    queue = waiting("small", at, at, 4)
    assert queue.waiting == pytest.approx([0.0, 0.0, 0.0, 0.0])
    assert queue.peak == 0
