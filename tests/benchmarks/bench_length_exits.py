"""Tokens that exits save a model which thinks step by step, and what they do to its answers: the demo's larger model.

    python -m tests.benchmarks.bench_length_exits [--folder DIR] [--questions N] [--held-out M] [--splits K]

Who has a trial and who leaves is decided by what the router runs (`cascadia.exits.length`). The boldest bar on scores
that loses nothing on the first N questions, at the exits that save most there, is tried on M others. Live: a trial
after 0, 16, 32 and 48 tokens, or at one of these, each paid for where it is not good enough. Where the question
promises: only trials of which heads expect that thinking on adds so few points. By the question: budgets of as many
tokens by these heads, and no trial; with `--budgets` these alone are looked at. The heads are those of `judge train
--foresight` on the first N: of each of these by folds that did not see it, and of the M as they would be served. Beside
them stands who never thinks. Readings stay in the folder and are not taken again. The demo's model only; nothing is
asked of a judge: a score is the engine's own certainty (`certainty`, `mean-logprob`).
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from cascadia.demo.questions.questions import training_questions
from cascadia.demo.stages import LARGE
from cascadia.exits.length import BETTER, Fixed, trials
from cascadia_judge.embedding import Case, EmbeddingJudge
from cascadia_judge.encoder.encoder import Encoder
from cascadia_judge.foresight import learn
from cascadia_judge.head.training import Course
from tests.benchmarks.judge_vectors import encoder_folder
from tests.benchmarks.length_exits import BUDGETS, record
from tests.benchmarks.report_table import markdown

KINDS = ("story", "multiplication", "subtraction", "division", "double", "plural", "city")
SAVED, LOST = 0.15, 1.0
PROMISED = 100.0 - BETTER
"""Of who thinks no longer: an answer that is worth the same."""
WHOLE = "whole"
NOBODY = 101.0
"""A bar that no score reaches: exits are closed, and nobody writes a trial."""
Rows = Sequence[dict[str, Any]]


class Outcome(NamedTuple):
    """Share of the tokens saved, and points of quality lost; below 0: gained."""

    saved: float
    lost: float

    @property
    def met(self) -> bool:
        return self.saved >= SAVED and self.lost <= LOST


@dataclass(frozen=True, slots=True)
class Way:
    """Exits after `budgets` tokens. A trial is written where the question promises `foreseen` (None: always), or none
    is, and the question alone `decides`."""

    budgets: tuple[int, ...]
    foreseen: float | None = None
    decides: bool = False


def foreseen(rows: Rows, budgets: Sequence[int], first: int, encoder: Encoder) -> list[dict[str, Any]]:
    """`rows` with the scores of exits (0-100) by their question alone, of heads that the `first` of them taught."""
    asked, stages = [row["text"] for row in rows], [*map(str, budgets), WHOLE]
    right = [[_within(row, at)["right"] for row in rows[:first]] for at in budgets]
    right += [[row["right"] for row in rows[:first]]]
    heads, found = learn(
        encoder,
        asked[:first],
        [str(at) for at in range(first)],
        stages=stages,
        quality=100.0 * np.array(right),
        course=Course(),
    )
    served = EmbeddingJudge(encoder, heads, {})
    others = [
        [each.score for each in served.scores([Case(text, stage=stage) for text in asked[first:]])]
        for stage in stages
    ]
    told = np.concatenate([found.values, np.reshape(others, (len(stages), -1))], axis=1)
    score = 100.0 - np.maximum(0.0, told[-1] - told[:-1])
    return [
        row | {"foreseen": dict(zip(budgets, score[:, at].tolist(), strict=True))}
        for at, row in enumerate(rows)
    ]


def _within(row: dict[str, Any], budget: int) -> dict[str, Any]:
    """The answer within `budget` tokens of thought; the whole one where it takes no more."""
    found = next((trial for trial in row["trials"] if trial["at"] == budget), None)
    whole = {"at": row["tokens"], "tokens": 0, "right": row["right"]}
    return dict(found or whole)


class Visit(NamedTuple):
    """An exit that a row comes to and where something is decided: by which score, and the tokens of its answer."""

    place: int
    score: float
    tokens: int
    at: int
    right: bool


def visits(row: dict[str, Any], way: Way) -> list[Visit]:
    """In order; none where the question promises too little for a trial, or it has thought to the end."""
    told = row.get("foreseen", {})
    known = {place: told[at] for place, at in enumerate(way.budgets) if at in told}
    tried, written = (
        trials([way.foreseen] * len(way.budgets), known),
        {each["at"]: each for each in row["trials"]},
    )
    return [
        Visit(
            place,
            known[place] if way.decides else 100.0 * (1.0 - trial["doubt"]),
            trial["tokens"],
            trial["at"],
            trial["right"],
        )
        for place, at in enumerate(way.budgets)
        if place in tried and (trial := written.get(at)) is not None
    ]


def outcome(rows: Rows, way: Way, bar: float) -> Outcome:
    """With exits at scores of at least `bar`; trials that were not good enough are paid for."""
    return _outcome([(row, visits(row, way)) for row in rows], way, bar)


def _outcome(seen: Sequence[tuple[dict[str, Any], list[Visit]]], way: Way, bar: float) -> Outcome:
    tokens, right, exits = 0, 0, Fixed([bar] * len(way.budgets))
    for row, met in seen:
        spent, left = 0, None
        for visit in met:
            if not exits.open(visit.place):
                continue
            if exits.leaves(visit.place, visit.score):
                left = visit
                break
            spent += 0 if way.decides else visit.tokens
        tokens += spent + (row["tokens"] if left is None else left.at + left.tokens)
        right += row["right"] if left is None else left.right
    whole, of_whole = (sum(row[key] for row, _ in seen) for key in ("tokens", "right"))
    return Outcome(1 - tokens / whole, 100 * (of_whole - right) / len(seen))


def boldest(rows: Rows, way: Way) -> float:
    """Bar that saves most of those that lose nothing on `rows`; above 100, where nothing leaves, if none does."""
    seen = [(row, visits(row, way)) for row in rows]
    told = {bar: _outcome(seen, way, bar) for bar in {visit.score for _, met in seen for visit in met}}
    safe = sorted(bar for bar, found in told.items() if found.lost <= 0)
    return max(safe, key=lambda bar: told[bar].saved, default=NOBODY)


def best(ways: Sequence[Way], rows: Rows) -> tuple[Way, float]:
    """The way, with its bar, that saves most on `rows` and loses nothing there."""
    bars = {way: boldest(rows, way) for way in ways}
    way = max(ways, key=lambda way: outcome(rows, way, bars[way]).saved)
    return way, bars[way]


def of_some(budgets: Sequence[int], **more: Any) -> list[Way]:
    """Exits at all of `budgets`, and at each of them alone."""
    return [Way(tuple(budgets), **more), *(Way((at,), **more) for at in budgets)]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--folder", type=Path)
    options.add_argument("--questions", type=int, default=74)
    options.add_argument("--held-out", type=int, default=66)
    options.add_argument("--budgets", type=int, nargs="*", help="by the question alone, no live exits")
    options.add_argument("--splits", type=int, default=1, help="so many times, questions in other orders")
    args = options.parse_args()
    budgets = tuple(args.budgets or BUDGETS)
    asked = [q for q in training_questions(800) if q.kind in KINDS][: args.questions + args.held_out]
    with TemporaryDirectory() as folder:
        file = (args.folder or Path(folder)) / "readings.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        asyncio.run(record(asked, LARGE, file, budgets))
        found = {row["text"]: row for row in map(json.loads, file.read_text().splitlines())}
    rows = [found[q.text] for q in asked]
    print(f"{len(rows)} questions: {100 * np.mean([row['right'] for row in rows]):.1f} % right, ", end="")
    print(f"{np.mean([row['tokens'] for row in rows]):.0f} tokens in the mean")
    ways = {"by the question": [Way(budgets, decides=True)]}
    if args.budgets is None:
        behind = tuple(at for at in budgets if at)
        ways |= {
            "live": [Way(budgets)],
            "one trial": [Way((at,)) for at in budgets],
            **{
                f"where the question promises {least:g}": of_some(budgets, foreseen=least)
                for least in (90.0, PROMISED, 99.0)
            },
            f"the same at {PROMISED:g}, behind some thought": of_some(behind, foreseen=PROMISED),
        }
    got: dict[str, list[Outcome]] = {name: [] for name in ways}
    never: list[Outcome] = []
    encoder = Encoder.read(encoder_folder(None))
    draw = np.random.default_rng(0)
    for split in range(args.splits):
        order = draw.permutation(len(rows)) if split else np.arange(len(rows))
        told = foreseen([rows[at] for at in order], budgets, args.questions, encoder)
        held_out = told[args.questions :]
        for name, some in ways.items():
            got[name].append(outcome(held_out, *best(some, told[: args.questions])))
        never.append(outcome(held_out, Way(budgets[:1]), 0.0))
    table = [_row(name, outcomes) for name, outcomes in [*got.items(), ("nobody thinks", never)]]
    columns = ["exits", "tokens saved (asked 15 %)", "quality lost (asked <= 1)", "splits that keep both"]
    print(markdown(columns, table))
    return 0 if any(Outcome(*np.mean(outcomes, axis=0)).met for outcomes in got.values()) else 1


def _row(name: str, got: Sequence[Outcome]) -> list[str]:
    saved, lost = np.mean(got, axis=0)
    spread = f" ± {np.std([each.lost for each in got]):.1f}" if len(got) > 1 else ""
    kept = f"{np.mean([each.met for each in got]):.0%}"
    return [name, f"{100 * saved:.1f} %", f"{lost:.1f}{spread} points", kept]


if __name__ == "__main__":
    sys.exit(main())
