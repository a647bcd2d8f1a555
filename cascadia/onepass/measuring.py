"""Measurement of one-pass models on this machine: seconds of a batch of each size, and accuracy on texts with labels.

The measured texts are drawn from those that it will read, since a pass is as long as its longest. Sizes between those
measured are on straight lines between them.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cascadia.domain.names import LayerExit
from cascadia.onepass.layers import behind, layers_of
from cascadia.onepass.questions import Question
from cascadia.onepass.runner import Runner

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
WARM_UP = 3
DRAWS = 20
SHARES = (0.25, 0.5, 0.75)
"""Inputs that an exit lets out, of those it is measured on."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A model on this machine. `mean_s`, `p50_s` and `p95_s` are of batches of 1, 2, ...; of each, `drawn_s` are
    `DRAWS` times that are as likely. `accuracy` is 0-100 over `texts` texts, None of a model that is no classifier."""

    name: str
    accuracy: float | None
    texts: int
    mean_s: tuple[float, ...]
    p50_s: tuple[float, ...]
    p95_s: tuple[float, ...]
    drawn_s: tuple[tuple[float, ...], ...]


def measured(
    runner: Runner,
    asked: Sequence[Question],
    *,
    passes: int,
    rng: np.random.Generator,
    clock: Callable[[], float] = time.perf_counter,
) -> Measured:
    """`passes` of each size. `clock` may count the processor's time, which others on the machine do not lengthen."""
    ids = runner.ids([one.text for one in asked], truncate=runner.model.tokens_max)
    seconds = np.zeros((len(SIZES), passes))
    for _ in range(WARM_UP):
        runner.forward(ids[: SIZES[-1]])
    # Sizes in turn: what slows the machine for a moment is spread over all of them.
    for turn in range(passes):
        for row, size in enumerate(SIZES):
            batch = [ids[at] for at in rng.integers(len(ids), size=size)]
            started_s = clock()
            runner.forward(batch)
            seconds[row, turn] = clock() - started_s
    every = np.arange(1, SIZES[-1] + 1)

    def line(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, ...]:
        return tuple(np.interp(every, SIZES, values).round(7).tolist())

    return Measured(
        runner.model.name,
        accuracy(runner, asked),
        len(asked),
        mean_s=line(seconds.mean(axis=1)),
        p50_s=line(np.median(seconds, axis=1)),
        p95_s=line(np.quantile(seconds, 0.95, axis=1)),
        drawn_s=tuple(
            # Middles of equal parts, whose mean is about that of all times; the ends are chance.
            zip(*map(line, np.quantile(seconds, (np.arange(DRAWS) + 0.5) / DRAWS, axis=1)), strict=True)
        ),
    )


def exits_to_measure(
    runner: Runner, folder: Path, asked: Sequence[Question], threads: int = 1
) -> list[LayerExit]:
    """Exits behind each layer with a ramp, of the model of `runner` in `folder`: for all, and for the surest `SHARES`
    of `asked`. Raises `BadInput` where there is no ramp.
    """
    found = []
    for layer in layers_of(folder, runner.model.layers):
        passes = behind(runner, folder, layer, threads)
        sure = probabilities(replace(runner, exits=passes), asked).max(axis=1)
        levels = np.unique(np.quantile(sure, [1 - share for share in SHARES]).round(4))
        found += [LayerExit(layer, float(level)) for level in levels if 0 < level < 1]
        found.append(LayerExit(layer))
    return found


def accuracy(runner: Runner, asked: Sequence[Question]) -> float | None:
    """Share of `asked`, 0-100, whose label the model finds likeliest; None of a model that is no classifier."""
    if runner.model.task != "classify":
        return None
    found = probabilities(runner, asked).argmax(axis=1)
    right = sum(runner.model.labels[at] == one.label for at, one in zip(found.tolist(), asked, strict=True))
    return round(100.0 * float(right) / len(asked), 3)


def probabilities(
    runner: Runner, asked: Sequence[Question]
) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """(questions, classes), texts of like length together."""
    ids = runner.ids([one.text for one in asked], truncate=runner.model.tokens_max)
    order = np.argsort([len(each) for each in ids], kind="stable")
    found = np.zeros((len(asked), len(runner.model.labels)), dtype=np.float32)
    for start in range(0, len(order), SIZES[-1]):
        rows = order[start : start + SIZES[-1]]
        found[rows] = runner.forward([ids[at] for at in rows]).values
    return found
