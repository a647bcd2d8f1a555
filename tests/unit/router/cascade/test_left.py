"""The exit at which an answer left, as it is counted: one place for each exit, and one for the end."""

from types import SimpleNamespace
from typing import Any

import pytest

from cascadia.router.cascade.thinking import left_at


@pytest.mark.parametrize(
    ("good", "tokens", "places"),
    [
        (True, 100, [1, 0, 0]),
        (True, 200, [0, 1, 0]),
        (False, 100, [0, 0, 1]),
        (False, None, [0, 0, 1]),
        (True, None, [0, 0, 1]),
    ],
)
def test_an_answer_that_was_good_left_at_its_exit_and_any_other_at_the_end(
    good: bool, tokens: int | None, places: list[int]
) -> None:
    exits = tuple(SimpleNamespace(thinking_tokens=each) for each in (100, 200))
    stage: Any = SimpleNamespace(
        settings=SimpleNamespace(exits=exits), exits=SimpleNamespace(state=(2, 5, 7))
    )
    found: Any = SimpleNamespace(good=good, exit_tokens=tokens)
    assert left_at(stage, found) == (places, 2, 5, 7)
