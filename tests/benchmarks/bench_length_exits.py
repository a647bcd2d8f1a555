"""Tokens that exits save a model which thinks step by step, and what they do to its answers: the demo's larger model.

    python -m tests.benchmarks.bench_length_exits [--folder DIR] [--questions N] [--held-out M]

The boldest bar on a trial's doubt that loses nothing on the first N questions is tried on M others. Live: a trial after
0, 16, 32, 48 and 64 tokens, each paid for where it is not good enough. One trial: at the one of these that saves most
on the first N. Where the question says so: live, and no trial where heads expect too little (`judge train
--foresight`; of each question by folds that did not see it). By the question: budgets of as many tokens by these heads,
and no trial; with `--budgets` these alone are looked at. Readings stay in the folder and are not taken again. The
demo's model only; nothing is asked of a judge.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from cascadia.demo.questions.questions import training_questions
from cascadia.demo.stages import LARGE
from cascadia_judge.encoder.encoder import Encoder
from cascadia_judge.foresight import learn
from cascadia_judge.head.training import Course
from tests.benchmarks.judge_vectors import encoder_folder
from tests.benchmarks.length_exits import BUDGETS, record
from tests.benchmarks.report_table import markdown

KINDS = ("story", "multiplication", "subtraction", "division", "double", "plural", "city")
SAVED, LOST = 0.15, 1.0


class Outcome(NamedTuple):
    """Share of the tokens saved, and points of quality lost; below 0: gained."""

    saved: float
    lost: float


def foreseen(rows: Sequence[dict[str, Any]], budgets: Sequence[int]) -> list[dict[str, Any]]:
    """`rows` whose trials are doubted by what the question alone tells: the quality, 0-1, that thinking on adds."""
    ids = [str(at) for at in range(len(rows))]
    right = [[_within(row, at)["right"] for row in rows] for at in budgets] + [[row["right"] for row in rows]]
    _, found = learn(
        Encoder.read(encoder_folder(None)),
        [row["text"] for row in rows],
        ids,
        stages=[*map(str, budgets), "whole"],
        quality=100.0 * np.array(right),
        course=Course(),
    )
    doubt = np.maximum(0.0, found.values[-1] - found.values[:-1]) / 100.0
    return [
        row | {"trials": [_within(row, b) | {"doubt": doubt[k, at]} for k, b in enumerate(budgets)]}
        for at, row in enumerate(rows)
    ]


def _within(row: dict[str, Any], budget: int) -> dict[str, Any]:
    """The answer within `budget` tokens of thought; the whole one where it takes no more."""
    found = next((trial for trial in row["trials"] if trial["at"] == budget), None)
    whole = {"at": row["tokens"], "tokens": 0, "right": row["right"]}
    return dict(found or whole)


def outcome(
    rows: Sequence[dict[str, Any]], bar: float, budgets: Sequence[int], *, tries: bool = True
) -> Outcome:
    """With exits at the first trial of `budgets` whose doubt is at most `bar`; where it `tries`, those that were not
    good enough are paid for."""
    tokens, right = 0, 0
    for row in rows:
        spent = 0
        for trial in (t for t in row["trials"] if t["at"] in budgets):
            spent = trial["tokens"] + (spent if tries else 0)
            if trial["doubt"] <= bar:
                tokens, right = tokens + trial["at"] + spent, right + trial["right"]
                break
        else:
            tokens, right = tokens + row["tokens"] + (spent if tries else 0), right + row["right"]
    whole = sum(row["tokens"] for row in rows)
    return Outcome(1 - tokens / whole, 100 * (sum(row["right"] for row in rows) - right) / len(rows))


def boldest(rows: Sequence[dict[str, Any]], budgets: Sequence[int], *, tries: bool = True) -> float:
    """Bar that saves most of those that lose nothing on `rows`; below 0, where nothing leaves, if none does."""
    bars = sorted({t["doubt"] for row in rows for t in row["trials"] if t["at"] in budgets})
    told = {bar: outcome(rows, bar, budgets, tries=tries) for bar in bars}
    safe = [bar for bar in bars if told[bar].lost <= 0]
    return max(safe, key=lambda bar: told[bar].saved, default=-1.0)


class Way(NamedTuple):
    """`rows` with the trials that are made, those `budgets` that are looked at, and whether trials are paid for."""

    rows: Sequence[dict[str, Any]]
    budgets: Sequence[int]
    tries: bool = True


def best(ways: Sequence[Way], first: int) -> tuple[Way, float]:
    """The way, with its bar, that saves most on the `first` rows and loses nothing there."""

    def saved(way: Way) -> float:
        bar = boldest(way.rows[:first], way.budgets, tries=way.tries)
        return outcome(way.rows[:first], bar, way.budgets, tries=way.tries).saved

    way = max(ways, key=saved)
    return way, boldest(way.rows[:first], way.budgets, tries=way.tries)


def where_expected(
    rows: Sequence[dict[str, Any]], told: Sequence[dict[str, Any]], most: float
) -> list[dict[str, Any]]:
    """`rows` with the trials of which the question alone, as in `told`, lets no more than so much doubt."""
    found = []
    for row, foretold in zip(rows, told, strict=True):
        likely = {trial["at"] for trial in foretold["trials"] if trial["doubt"] <= most}
        found.append(row | {"trials": [trial for trial in row["trials"] if trial["at"] in likely]})
    return found


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--folder", type=Path)
    options.add_argument("--questions", type=int, default=74)
    options.add_argument("--held-out", type=int, default=80)
    options.add_argument("--budgets", type=int, nargs="*", help="by the question alone, no live exits")
    options.add_argument("--splits", type=int, default=1, help="so many times, questions in other orders")
    args = options.parse_args()
    budgets = args.budgets or BUDGETS
    asked = [q for q in training_questions(800) if q.kind in KINDS][: args.questions + args.held_out]
    with TemporaryDirectory() as folder:
        file = (args.folder or Path(folder)) / "readings.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        asyncio.run(record(asked, LARGE, file, budgets))
        found = {row["text"]: row for row in map(json.loads, file.read_text().splitlines())}
    rows = [found[q.text] for q in asked]
    held_out = rows[args.questions :]
    print(f"{len(held_out)} held out: {100 * np.mean([r['right'] for r in held_out]):.1f} % right, ", end="")
    print(f"{np.mean([r['tokens'] for r in held_out]):.0f} tokens in the mean")
    table, met = [], []
    told = foreseen(rows, budgets)
    ways = {"by the question": [Way(told, budgets, tries=False)]}
    if args.budgets is None:
        doubts = [trial["doubt"] for row in told[: args.questions] for trial in row["trials"]]
        ways |= {
            "live": [Way(rows, BUDGETS)],
            "one trial": [Way(rows, (at,)) for at in BUDGETS],
            "where the question says so": [
                Way(where_expected(rows, told, most), at)
                for most in np.quantile(doubts, (0.1, 0.25, 0.5, 0.75))
                for at in (BUDGETS, *((at,) for at in BUDGETS))
            ],
        }
    orders = [
        np.arange(len(rows)),
        *np.random.default_rng(0).permuted(_tiled(len(rows), args.splits - 1), axis=1),
    ]
    for name, some in ways.items():
        got = [_tried(some, order, args.questions) for order in orders]
        saved, lost = np.mean(got, axis=0)
        met.append(saved >= SAVED and lost <= LOST)
        spread = f" ± {np.std([each.lost for each in got]):.1f}" if len(got) > 1 else ""
        table.append([name, f"{100 * saved:.1f} %", f"{lost:.1f}{spread} points"])
    columns = ["exits", "tokens saved (asked 15 %)", "quality lost (asked <= 1)"]
    print(markdown(columns, table))
    return 0 if any(met) else 1


def _tiled(rows: int, splits: int) -> np.ndarray:
    return np.tile(np.arange(rows), (splits, 1))


def _tried(some: Sequence[Way], order: np.ndarray, first: int) -> Outcome:
    """The best way on the first of the rows in this order, on the others."""
    way, bar = best([way._replace(rows=[way.rows[at] for at in order]) for way in some], first)
    return outcome(way.rows[first:], bar, way.budgets, tries=way.tries)


if __name__ == "__main__":
    sys.exit(main())
