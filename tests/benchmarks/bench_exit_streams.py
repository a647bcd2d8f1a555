"""Certificates on streams that nobody would choose: few settings, ties, all agree, all differ, risks just above the
constraint, losses that come at the worst time, one ramp that knows nothing; and how soon changes are noticed.

python -m tests.benchmarks.bench_exit_streams [--streams 200]
"""

import argparse
from collections.abc import Callable, Iterator

import numpy as np

from cascadia.exits.certify import Promise
from cascadia.exits.controller import Controller
from cascadia.exits.path import Path
from cascadia.exits.readings import Bools, Floats

RISK, CONFIDENCE, INPUTS, RUN = 0.05, 0.9, 1500, 10

Stream = tuple[Path, Floats, Bools, Floats]
"""The path, doubts and losses (inputs, ramps), and the true risk of each setting."""


def _steps(settings: int, ramps: int = 1) -> Path:
    return Path(np.repeat(np.linspace(0.1, 1.01, settings)[:, None], ramps, axis=1))


def just_above(rng: np.random.Generator) -> Stream:
    """One setting, whose risk is the constraint and a thousandth."""
    doubts = rng.random((INPUTS, 1)) * 0.5
    return _steps(1), doubts * 0.1, rng.random((INPUTS, 1)) < RISK * 1.001, np.array([RISK * 1.001])


def two_settings(rng: np.random.Generator) -> Stream:
    """The first one good, the second one just above."""
    doubts = rng.choice([0.05, 0.5], (INPUTS, 1))
    wrong = rng.random((INPUTS, 1)) < np.where(doubts < 0.1, 0.02, 0.09)
    return _steps(2), doubts, wrong, np.array([0.01, 0.055])


def ties(rng: np.random.Generator) -> Stream:
    """Doubts of three values, thresholds among them."""
    doubts = rng.choice([0.1, 0.2, 0.3], (INPUTS, 1))
    wrong = rng.random((INPUTS, 1)) < doubts / 2
    path = Path(np.array([[0.1], [0.1], [0.2], [0.2], [0.3], [0.3], [0.31]]))
    return path, doubts, wrong, np.array([0, 0, 0.05 / 3, 0.05 / 3, 0.05, 0.05, 0.1])


def all_agree(rng: np.random.Generator) -> Stream:
    return _steps(40, 3), rng.random((INPUTS, 3)), np.zeros((INPUTS, 3), dtype=np.bool_), np.zeros(40)


def all_differ(rng: np.random.Generator) -> Stream:
    doubts = rng.random((INPUTS, 3))
    limits = _steps(40, 3).thresholds[:, 0]
    return _steps(40, 3), doubts, np.ones((INPUTS, 3), dtype=np.bool_), 1 - (1 - np.minimum(limits, 1)) ** 3


def knows_nothing(rng: np.random.Generator) -> Stream:
    """One ramp, whose doubt says nothing; it differs on three in ten."""
    limits = np.minimum(_steps(40).thresholds[:, 0], 1)
    return _steps(40), rng.random((INPUTS, 1)), rng.random((INPUTS, 1)) < 0.3, 0.3 * limits


def certain_and_wrong(rng: np.random.Generator) -> Stream:
    """The less the ramp doubts, the more often it is wrong."""
    doubts = rng.random((INPUTS, 1))
    limits = np.minimum(_steps(40).thresholds[:, 0], 1)
    return _steps(40), doubts, rng.random((INPUTS, 1)) < 0.2 * (1 - doubts), 0.2 * (limits - limits**2 / 2)


def in_runs(rng: np.random.Generator) -> Stream:
    """Each input `RUN` times in a row; one setting, whose risk is just above."""
    path, doubts, wrong, risks = just_above(rng)
    some = slice(INPUTS // 5)
    return path, np.repeat(doubts[some], RUN, axis=0), np.repeat(wrong[some], RUN, axis=0), risks


KINDS: tuple[Callable[[np.random.Generator], Stream], ...] = (
    just_above,
    two_settings,
    ties,
    all_agree,
    all_differ,
    knows_nothing,
    certain_and_wrong,
    in_runs,
)


def broken(stream: Stream, run: int = 1) -> tuple[bool, int, int]:
    """Tells whether a setting above the constraint was ever in force; inputs before any was, and withdrawals. The same
    input comes `run` times.
    """
    path, doubts, wrong, risks = stream
    controller, above, first = Controller(Promise(RISK, CONFIDENCE), path, renewed=lambda *_: path), False, 0
    for at, (doubt, lost) in enumerate(zip(doubts, wrong, strict=True)):
        controller.feed(lost.astype(np.int64), doubt, 0, copy=at % run > 0)
        if controller.certified >= 0:
            above |= bool(risks[controller.certified] > RISK + 1e-12)
            first = first or at + 1
    return above, first, controller.withdrawn


def delays(streams: int) -> Iterator[tuple[str, list[int], int]]:
    """Inputs fed back until a change is noticed: to each risk, at once or after a hundred good ones; and by losses that
    come only where the setting lets out."""
    for name, after, good in (("5x", 5, 0), ("3x", 3, 0), ("2x", 2, 0), ("5x, after 100", 5, 100)):
        took, missed = [], 0
        for seed in range(streams):
            rng = np.random.default_rng(seed)
            controller = Controller(Promise(RISK, CONFIDENCE), _steps(4))
            while controller.certified < 3:
                controller.feed(np.zeros(1, dtype=np.int64), np.zeros(1), 0)
            for _ in range(good):
                controller.feed(np.zeros(1, dtype=np.int64), np.zeros(1), 0)
            fed = 0
            while not controller.withdrawn and fed < 3000:
                lost = int(rng.random() < after * RISK)
                controller.feed(np.array([lost]), np.zeros(1), 0)
                fed += 1
            took.append(fed)
            missed += not controller.withdrawn
        yield name, took, missed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=200)
    streams = parser.parse_args().streams
    for number, kind in enumerate(KINDS):
        run = RUN if kind is in_runs else 1
        seen = [broken(kind(np.random.default_rng([number, seed])), run) for seed in range(streams)]
        above, first = sum(one[0] for one in seen), [one[1] for one in seen if one[1]]
        came = f"first after {np.median(first):.0f}" if first else "none ever in force"
        print(f"{kind.__name__:20} above {RISK:.0%}: {above} of {streams}; {came}; "
              f"withdrawn {sum(one[2] for one in seen)}", flush=True)  # fmt: skip
    for name, took, missed in delays(streams // 4):
        print(f"risk {name:16} noticed after {np.mean(took):.0f}, nine in ten {np.quantile(took, 0.9):.0f}; "
              f"missed {missed}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
