"""What is told of an answer's length: cells by what is read, and how well they have told it."""

import numpy as np
import pytest

from cascadia.dispatch.answer_length import ANSWERS_KEPT, AnswerLength
from cascadia.dispatch.output_length import (
    ENOUGH_TOLD,
    FEWEST,
    TOLD_ANEW,
    Expected,
    Largest,
    OutputLength,
    _edges,
    _of,
)


@pytest.mark.parametrize(
    ("reads", "cells", "edges"),
    [
        (range(47), 16, [0, 47]),
        (range(48), 16, [0, 24, 48]),
        (range(96), 16, [0, 24, 48, 72, 96]),
        (range(96), 2, [0, 48, 96]),
        (range(96), 1, [0, 96]),
        ([10] * 30 + [20] * 30, 16, [0, 30, 60]),
        ([10] * 24 + [20] * 24, 16, [0, 24, 48]),
        ([10] * 23 + [20] * 37, 16, [0, 60]),
        ([10] * 37 + [20] * 23, 16, [0, 60]),
        ([10] * 90, 16, [0, 90]),
        ([], 16, [0, 0]),
    ],
)
def test_cells_hold_as_many_prompts_each_and_those_of_one_length_together(
    reads: list[int], cells: int, edges: list[int]
) -> None:
    assert _edges(list(reads), cells) == edges


def test_a_cell_tells_the_mean_and_what_nine_in_ten_do_not_exceed() -> None:
    assert _of(list(range(11, 0, -1))) == Expected(6.0, 10)
    assert _of([7]) == Expected(7.0, 7)


def test_before_anything_is_seen_256_tokens_are_expected_or_as_many_as_there_may_be() -> None:
    length = OutputLength()
    assert length.expected(10) == (256, 256)
    assert length.expected(10, most=300) == (256, 256)
    assert length.expected(10, most=100) == (100, 100)
    assert length.largest == Largest(256, 256)


def in_turn(*asked: tuple[int, int], times: int = FEWEST) -> OutputLength:
    length = OutputLength()
    for _ in range(times):
        for tokens, wrote in asked:
            length.seen(tokens, wrote)
    return length


def test_a_limit_cuts_what_is_long_and_leaves_the_mean_of_what_is_short() -> None:
    """Of one length of prompts nine answers have 10 tokens and three 400."""
    length = in_turn(*[(50, 10)] * 9, *[(50, 400)] * 3, times=8)
    mean, high = length.expected(50)
    assert (mean, high) == (pytest.approx(107.5, rel=0.1), 400)
    assert length.expected(50, most=200) == (mean, 200)
    assert length.expected(50, most=50) == (50, 50)


def test_the_largest_request_is_that_with_the_longest_answers_and_of_equals_reads_most() -> None:
    assert in_turn((10, 300), (20, 90), (30, 80), times=64).largest == Largest(10, 300.0)
    assert in_turn((10, 90), (20, 300), (30, 80), times=64).largest == Largest(20, 300.0)
    # Of the last cell it is known but where the one before it ends.
    assert in_turn((10, 90), (20, 300), (30, 300), times=64).largest == Largest(20, 300.0)


def test_a_quarter_more_answers_make_new_cells_and_256_are_always_enough() -> None:
    length = in_turn((10, 20), (1000, 400), times=1024)
    for _ in range(255 - length._new):
        length.seen(10, 900)
    assert length.expected(10).mean == 20.0
    length.seen(10, 900)
    assert length.expected(10).mean > 20.0


def test_what_was_told_is_judged_once_there_were_128_of_it() -> None:
    """Answers are told once there are 192 of them: twelve cells' worth."""
    length = in_turn((10, 20), (1000, 400), times=(192 + ENOUGH_TOLD) // 2 - TOLD_ANEW // 2)
    assert (length.explained, length.tells) == (0.0, False)
    for _ in range(TOLD_ANEW):
        length.seen(10, 20)
        length.seen(1000, 400)
    assert (length.explained, length.tells) == (1.0, True)


@pytest.mark.parametrize(("off", "tells"), [(24, True), (26, False)])
def test_what_is_told_within_a_quarter_of_the_mean_tells_enough_though_it_explains_nothing(
    off: int, tells: bool
) -> None:
    length = OutputLength()
    length._outcomes.extend((100.0, 100 + (off if k % 2 else -off)) for k in range(ENOUGH_TOLD))
    length._judge()
    assert (length.explained, length.tells) == (0.0, tells)


@pytest.mark.parametrize(("explained", "tells"), [(0.6, True), (0.5, False)])
def test_more_than_half_of_the_variance_is_to_be_explained(explained: float, tells: bool) -> None:
    """Lengths of 10 and 390 differ by more than a quarter of their mean."""
    length = OutputLength()
    missed = 190 * (1 - explained) ** 0.5
    for k in range(ENOUGH_TOLD):
        sign = 1 if k % 2 else -1
        length._outcomes.append((200 + sign * (190 - missed), 200 + sign * 190))
    length._judge()
    assert length.explained == pytest.approx(explained)
    assert length.tells is tells
    fewer = OutputLength()
    fewer._outcomes.extend(list(length._outcomes)[1:])
    fewer._judge()
    assert (fewer.explained, fewer.tells) == (0.0, False)


def test_answers_all_alike_are_explained_where_they_were_told() -> None:
    for told, explained in ((30.0, 1.0), (31.0, 0.0)):
        length = OutputLength()
        length._outcomes.extend([(told, 30)] * ENOUGH_TOLD)
        length._judge()
        assert length.explained == explained


def test_of_a_thousand_answers_half_are_forgotten() -> None:
    length = AnswerLength(tokens=40 * (ANSWERS_KEPT - 1), answers=ANSWERS_KEPT - 1)
    assert (length.expected(), length.answers) == (40, ANSWERS_KEPT - 1)
    length.seen(40)
    assert (length.expected(), length.answers, length.tokens) == (
        40,
        ANSWERS_KEPT // 2,
        40 * ANSWERS_KEPT // 2,
    )
    assert [length.expected(most) for most in (39, 40, 41)] == [39, 40, 40]


def test_answers_that_never_end_hide_nothing_of_what_prompts_tell_while_they_are_few() -> None:
    """One in 400 goes on for 30,000 tokens; of one in 20 nobody knows which."""
    for every, tells in ((400, True), (20, False)):
        length, rng = OutputLength(), np.random.default_rng(0)
        for n in range(1, 4001):
            read = int(rng.integers(1, 80))
            length.seen(read, 30_000 if n % every == 0 else 1 + 3 * read // 4)
        assert length.tells is tells
        if tells:
            assert length.expected(40).mean < 60


def test_answers_that_all_become_long_are_expected_to_be_long() -> None:
    length = OutputLength()
    for _ in range(2048):
        length.seen(40, 30)
    for _ in range(2048):
        length.seen(40, 3000)
    assert length.expected(40).mean == pytest.approx(3000, rel=0.1)
