"""Tests that are asked ahead: the answer is the search's own, in fewer steps where guesses are right."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from functools import partial
from typing import Any

import pytest

from cascadia.planner.stability.ahead import Test, asked_ahead
from cascadia.planner.stability.headroom import largest


class Counting(Executor):
    """Runs what it is given at once, and counts how often it is given something."""

    def __init__(self) -> None:
        self.steps = 0

    def map(self, fn: Callable[..., Any], *each: Iterable[Any], **_: Any) -> Iterator[Any]:
        self.steps += 1
        return map(fn, *each)


def search(test: Test) -> float:
    return largest(test, 1.0, 3.0, 2.0)


def holds(edge: float, asked: list[float], factor: float) -> bool:
    asked.append(factor)
    return factor <= edge


@pytest.mark.parametrize("edge", [1.0, 1.3, 1.87, 2.0, 2.4, 3.0])
@pytest.mark.parametrize("guess", [True, False])
def test_what_is_asked_ahead_is_what_the_search_finds_by_itself(edge: float, guess: bool) -> None:
    asked: list[float] = []
    test = partial(holds, edge, asked)
    assert asked_ahead(search, test, lambda _: guess, Counting()) == search(lambda x: x <= edge)
    assert len(asked) == len(set(asked))


@pytest.mark.parametrize("edge", [1.3, 2.4, 3.0])
def test_right_guesses_halve_the_steps_and_ask_nothing_in_vain(edge: float) -> None:
    alone: list[float] = []
    search(partial(holds, edge, alone))
    asked: list[float] = []
    threads = Counting()
    asked_ahead(search, partial(holds, edge, asked), lambda x: x <= edge, threads)
    assert asked == alone
    assert threads.steps == -(-len(alone) // 2)
