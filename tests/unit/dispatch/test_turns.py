"""Whose turn it is: the same for one request and for many, and close to the share over every stretch."""

import numpy as np
import pytest

from cascadia.dispatch.turns import takes_other


@pytest.mark.parametrize("share", [0.0, 0.025, 0.3, 0.5])
def test_every_stretch_of_requests_keeps_to_the_share(share: float) -> None:
    turns = takes_other(np.arange(20_000), share)
    counts = np.concatenate([[0], np.cumsum(turns)])
    for length in (10, 100, 1_000):
        off = counts[length:] - counts[:-length] - share * length
        assert np.abs(off).max() < 3


def test_one_request_is_told_what_many_are() -> None:
    many = takes_other(np.arange(500), 0.37)
    assert [takes_other(n, 0.37) for n in range(500)] == many.tolist()


def test_requests_that_take_turns_themselves_are_mixed_alike() -> None:
    turns = takes_other(np.arange(10_000), 0.4)
    for period in (2, 3, 5, 7, 10):
        for phase in range(period):
            assert turns[phase::period].mean() == pytest.approx(0.4, abs=0.02)


def test_it_is_the_sequence_of_the_golden_ratio() -> None:
    assert [n for n in range(12) if takes_other(n, 0.25)] == [0, 2, 5, 10]
    assert [n for n in range(2**32, 2**32 + 12) if takes_other(n, 0.25)] == [2**32 + n for n in (0, 2, 5, 10)]
