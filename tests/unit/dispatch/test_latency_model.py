"""What a latency model learns of each answer, against the least squares that it follows, solved at once."""

import numpy as np
import pytest

from cascadia.dispatch import latency_model, seed
from cascadia.dispatch.latency_model import (
    ANEW,
    DOUBT,
    DOUBT_OF_PLANS,
    FIRST,
    FOLLOWED,
    FORGETS,
    LEAST,
    MOST_ERROR,
    SCALE,
    Coefficients,
    LatencyModel,
    Seen,
    load_of,
)

LINE = Coefficients(1.0, 0.01, 0.1, 0.001)


def test_a_request_takes_its_base_its_reading_and_a_step_for_each_token_that_slows_with_the_load() -> None:
    assert LatencyModel(LINE).seconds(Seen(200, 5.0), 10) == pytest.approx(1 + 2 + 10 * (0.1 + 0.005))


def test_4096_tokens_in_hand_weigh_as_much_as_a_request() -> None:
    assert load_of(3, 2048) == 3.5


@pytest.mark.parametrize(("output_tokens", "seconds"), [(0, 1.0), (-1, 1.0), (10, 0.0), (10, -1.0)])
def test_nothing_is_learnt_from_an_answer_without_tokens_or_of_no_time(
    output_tokens: int, seconds: float
) -> None:
    model = LatencyModel(LINE)
    model.took(Seen(10, 0.0), output_tokens, seconds)
    assert (model.answers, model.coefficients) == (0, LINE)
    model.took(Seen(10, 0.0), 1, 0.5)
    assert model.answers == 1
    assert model.coefficients != LINE


def test_the_first_answers_errors_count_alike_and_later_ones_for_a_fiftieth() -> None:
    model, errors, smoothed = LatencyModel(LINE, seeded=True), [], 0.0
    rng = np.random.default_rng(3)
    for k in range(1, 101):
        seen, took_s = Seen(100, 2.0), float(rng.uniform(1.0, 9.0))
        errors.append(abs(took_s - model.seconds(seen, 20)) / took_s)
        model.took(seen, 20, took_s)
        smoothed += max(0.02, 1 / k) * (errors[-1] - smoothed)
        if k <= 50:
            assert model.error == pytest.approx(np.mean(errors))
    assert model.error == pytest.approx(smoothed)


def test_one_answer_errs_by_ten_times_at_most() -> None:
    model = LatencyModel(LINE)
    model.took(Seen(100, 0.0), 10, 1e-3)
    assert model.error == MOST_ERROR


@pytest.mark.parametrize(
    ("seeded", "answers", "forgets"), [(True, 300, FORGETS), (False, 3, 1.0)], ids=["a plan's", "anew"]
)
def test_coefficients_are_those_of_least_squares_that_forget(
    seeded: bool, answers: int, forgets: float
) -> None:
    """Of relative errors, near the first values by how far these are doubted; nothing is forgotten while much is."""
    rng, scale = np.random.default_rng(5), np.array(SCALE)
    model = LatencyModel(LINE, seeded=seeded)
    first = np.array(LINE) / scale
    squares = np.eye(4) / (DOUBT_OF_PLANS if seeded else DOUBT)
    sums = squares @ first
    for _ in range(answers):
        seen, wrote = Seen(int(rng.integers(10, 900)), float(rng.integers(0, 40))), int(rng.integers(5, 90))
        took_s = LatencyModel(LINE).seconds(seen, wrote) * float(rng.uniform(0.9, 1.3))
        model.took(seen, wrote, took_s)
        x = np.array([1.0, seen.tokens, wrote, wrote * seen.load]) * scale / took_s
        squares = forgets * squares + np.outer(x, x)
        sums = forgets * sums + x
    known = np.linalg.solve(squares, sums) * scale
    assert (known > 0).all()
    assert tuple(model.coefficients) == pytest.approx(known.tolist(), rel=1e-6)


def test_after_the_first_few_hundred_each_fourth_answer_is_learnt_from() -> None:
    model, changed = LatencyModel(LINE, seeded=True), []
    for k in range(1, FIRST + 3 * FOLLOWED + 1):
        before = model.coefficients
        model.took(Seen(100 + k % 7, float(k % 5)), 10 + k % 3, 4.0)
        if model.coefficients != before:
            changed.append(k)
    assert changed == [*range(1, FIRST + 1), FIRST + 4, FIRST + 8, FIRST + 12]


def test_later_an_answer_counts_as_half_off_at_most() -> None:
    """The first few hundred count for all that they are off by."""
    seen, steps = Seen(100, 2.0), []
    for answers in (FIRST - 1, FIRST + FOLLOWED - 1):
        for took_s in (9.0, 90.0):
            model = LatencyModel(LINE, seeded=True)
            for _ in range(answers):
                model.took(seen, 10, LatencyModel(LINE).seconds(seen, 10))
            before = model._found[0]
            model.took(seen, 10, took_s)
            # What an answer moves goes by its miss and by 1 / seconds, since errors are relative.
            steps.append((model._found[0] - before) * took_s)
    missed = [1 - LatencyModel(LINE).seconds(seen, 10) / took_s for took_s in (9.0, 90.0)]
    assert steps[1] / steps[0] == pytest.approx(missed[1] / missed[0], rel=0.05)
    assert steps[3] / steps[2] == pytest.approx(1.0, rel=0.05)


def test_a_model_that_was_mistaken_so_many_times_in_a_row_is_begun_anew() -> None:
    seen, model = Seen(100, 0.0), LatencyModel(LINE, seeded=True)
    took_s = [40.0 if k % 2 else 0.4 for k in range(ANEW - 1)]
    for each in took_s:
        model.took(seen, 10, each)
    assert model.error > 0.5
    assert max(model._doubt[i][i] for i in range(4)) < 2 * DOUBT_OF_PLANS
    model.took(seen, 10, 40.0)
    assert max(model._doubt[i][i] for i in range(4)) == pytest.approx(DOUBT, rel=0.1)


def test_one_answer_told_well_enough_ends_the_row_of_those_that_were_not() -> None:
    seen, model = Seen(100, 0.0), LatencyModel(LINE)
    model.took(seen, 10, 40.0)
    assert model._mistaken == 1
    model.error = 0.0
    model.took(seen, 10, model.seconds(seen, 10))
    assert model._mistaken == 0


def test_a_coefficient_below_nothing_is_set_there_and_what_is_known_of_it_with_others_stays() -> None:
    apart = [[float(i == j) for j in range(4)] for i in range(4)]
    assert latency_model._none_below([-1.0, 2.0, 3.0, 4.0], apart) == [LEAST, 2.0, 3.0, 4.0]
    assert latency_model._none_below([-1.0, -2.0, 3.0, 4.0], apart) == [LEAST, LEAST, 3.0, 4.0]
    # Of the first two nothing but their sum is known.
    together = [[1.0, -1.0, 0.0, 0.0], [-1.0, 1.0, 0.0, 0.0], *apart[2:]]
    assert latency_model._none_below([-1.0, 3.0, 1.0, 1.0], together) == pytest.approx(
        [0.0, 2.0, 1.0, 1.0], abs=1e-5
    )
    # The second goes below where the first is set, and is set in its turn: the third has what is left.
    three = [[2.0, -1.0, -1.0, 0.0], [-1.0, 1.0, 0.0, 0.0], [-1.0, 0.0, 1.0, 0.0], apart[3]]
    assert latency_model._none_below([-2.0, 0.5, 3.0, 1.0], three) == pytest.approx(
        [0.0, 0.0, 1.5, 1.0], abs=1e-5
    )


def rows(n: int = 60) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Requests as the line sees them: 1, what they read, what they write, and that times the load."""
    rng = np.random.default_rng(1)
    read, wrote, load = rng.integers(10, 900, n), rng.integers(5, 90, n), rng.integers(0, 40, n)
    return np.stack([np.ones(n), read, wrote, wrote * load], axis=1)


def test_a_line_through_simulated_times_finds_what_they_were_made_of() -> None:
    assert seed._line(rows(), rows() @ np.array(LINE)) == pytest.approx(LINE)


def test_a_line_has_no_coefficient_below_nothing_and_the_others_fit_without_it() -> None:
    x, scale = rows(), np.array(SCALE)
    seconds = x @ np.array([1.0, -1e-4, 0.1, 0.001])
    found = np.array(seed._line(x, seconds))
    assert found[1] == LEAST * SCALE[1]
    kept = [0, 2, 3]
    relative = x[:, kept] * scale[kept] / seconds[:, None]
    best = np.linalg.lstsq(relative, np.ones(len(x)), rcond=None)[0] * scale[kept]
    assert found[kept] == pytest.approx(best)


@pytest.mark.parametrize(
    ("with_the_first", "told"),
    [
        ((0.0, 0.0, 0.0), (LEAST, 0.5, 0.3, 0.4)),
        # What the first is raised by, the second loses half of, and the third gains a quarter of.
        ((-0.5, 0.25, 0.0), (LEAST, 0.5 - 0.05, 0.3 + 0.025, 0.4)),
        # The second falls below the least by that, is set there too, and the fourth goes along with it.
        ((-6.0, 0.0, 0.0), (LEAST, LEAST, 0.3, 0.4)),
    ],
)
def test_a_coefficient_below_the_least_is_set_there_and_the_others_go_along(
    with_the_first: tuple[float, float, float], told: tuple[float, ...]
) -> None:
    doubt = np.eye(4) * 100.0
    doubt[0, 0], doubt[0, 1:], doubt[1:, 0] = 1.0, with_the_first, with_the_first
    found = latency_model._none_below([-0.1, 0.5, 0.3, 0.4], doubt.tolist())
    assert found == pytest.approx(told, abs=2e-6)
    assert min(found) == LEAST
