"""Certainty is arithmetic on log-probabilities, and what is no certainty is refused."""

import math

import pytest

from cascadia_judge.errors import BadVerdict
from cascadia_judge.scores.certainty import FLOOR, Certainty

GOOD = {"sum_logprob": -3.0, "mean_logprob": -1.5, "min_logprob": -2.0, "mean_margin": 0.5, "tokens": 2}


def test_two_tokens_are_summed_averaged_and_the_least_is_kept() -> None:
    found = Certainty.of([-1.0, -2.0], [0.25, 0.75])
    assert found == Certainty(-3.0, -1.5, -2.0, 0.5, 2)
    assert Certainty.read(found.document(), "here") == found
    assert found.document() == GOOD


def test_what_engines_cut_off_or_round_up_is_bounded() -> None:
    found = Certainty.of([-math.inf, 1e-9], [0.0, 1.0])
    assert (found.sum_logprob, found.min_logprob) == (FLOOR, FLOOR)


def test_no_tokens_are_no_certainty() -> None:
    with pytest.raises(BadVerdict, match="no tokens"):
        Certainty.of([], [])


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        GOOD | {"more": 1},
        GOOD | {"tokens": 0},
        GOOD | {"sum_logprob": 1.0},
        GOOD | {"min_logprob": math.nan},
        GOOD | {"mean_margin": 1.5},
        GOOD | {"mean_margin": "high"},
        GOOD | {"tokens": True},
    ],
)
def test_what_is_no_certainty_is_refused_where_it_stands(document: object) -> None:
    with pytest.raises(BadVerdict, match="row 3"):
        Certainty.read(document, "row 3")


def test_what_is_sure_and_what_is_a_toss_are_certainties_at_the_ends() -> None:
    sure = Certainty(0.0, 0.0, 0.0, 1.0, 1)
    assert Certainty.read(sure.document(), "here") == sure
    assert Certainty(-1.0, -1.0, -1.0, 0.0, 1).mean_margin == 0.0


@pytest.mark.parametrize("margins", [[0.5], [0.5, 0.5, 0.5]])
def test_each_token_has_its_margin(margins: list[float]) -> None:
    with pytest.raises(BadVerdict, match="no tokens"):
        Certainty.of([-1.0, -2.0], margins)
