"""How well the judge tells right answers from wrong ones with exits, beside the whole judge, on the same answers.

    python -m tests.benchmarks.bench_judge_exits_auc ROWS [--judge HEAD] [--risk R] [--points P]

ROWS is a file of graded answers as `judge train` reads it, `gsm8k`, or the name of a model in WildBench's public data.
Without `--judge` a judge is trained on half of the questions. Of the other answers, or of all, in turn one part
teaches the ramp, one certifies (all are fed back), and the third is judged with the exits then in force.
Errors are 95 % intervals: Hanley and McNeil's of an AUC, a paired bootstrap's of the difference.
"""

import argparse
import csv
import gzip
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from cascadia.domain.plan import ExitPromise
from cascadia.judge_service.exits import JudgeExits
from cascadia.judge_service.ramp import EarlyEncoder, digest
from cascadia.judge_service.train_ramp import fit_ramp
from cascadia_judge.embedding import Case, EmbeddingJudge
from cascadia_judge.encoder.encoder import Encoder
from cascadia_judge.encoder.memory import Remembering
from cascadia_judge.head.features import Floats
from cascadia_judge.head.rows import KNOWN, Row, read_rows
from cascadia_judge.head.training import RIGHT
from cascadia_judge.scores.agreement import agreement
from tests.benchmarks.judge_sets import MIXTRAL
from tests.benchmarks.judge_vectors import encoder_folder
from tests.data import data_dir

AT_ONCE, TURNS, DRAWS = 8, 3, 1000
KEPT = 20_000
"""Texts whose vectors are remembered: all."""


class Judged(NamedTuple):
    """(n): scores of the whole judge, those with exits, and whether each came early."""

    whole: Floats
    served: Floats
    early: float


def public_rows(name: str) -> list[dict[str, object]]:
    folder = data_dir()
    if name == "gsm8k":
        with gzip.open(folder / "quality/routellm_gsm8k_responses.csv.gz", "rt") as file:
            return [
                _row(str(at), e["prompt"], e[f"{MIXTRAL}_response"], 100.0 * (e[MIXTRAL] == "True"))
                for at, e in enumerate(csv.DictReader(file))
            ]
    with gzip.open(folder / f"judging/wildbench_gpt4o_{name}.json.gz", "rt") as file:
        return [
            _row(e["session_id"], "", e["model_output"], (float(e["score"]) - 1) / 9 * 100)
            for e in json.load(file)
        ]


def _row(at: str, question: str, answer: str, quality: float) -> dict[str, object]:
    return {"prompt_id": at, "question": question, "stage": "some", "answer": answer, "quality": quality}


def judged(
    judge: EmbeddingJudge, early: EarlyEncoder, file: Path, rows: Sequence[Row], risk: float, points: float
) -> Judged:
    cases = [Case(row.question, row.answer or None, row.certainty, row.stage) for row in rows]
    part = np.random.default_rng(0).permutation(len(rows)) % TURNS
    served, taken = np.zeros(len(rows)), 0
    for turn in range(TURNS):
        taught, certifies, rest = (np.flatnonzero(part == (turn + at) % TURNS) for at in range(TURNS))
        ramp, _ = fit_ramp(judge, early, [cases[at] for at in taught], digest(file), points, risk)
        with TemporaryDirectory() as folder:
            state = Path(folder) / "state.json"
            first = JudgeExits(early, ramp, ExitPromise(risk, 0.9, 1.0), Random(0), state)
            for at in range(0, len(certifies), AT_ONCE):
                first.scores(judge, [cases[i] for i in certifies[at : at + AT_ONCE]])
            first.close()
            exits = JudgeExits(early, ramp, ExitPromise(risk, 0.9, 0.0), Random(0), state)
            for at in range(0, len(rest), AT_ONCE):
                some = rest[at : at + AT_ONCE]
                served[some] = [one.score for one in exits.scores(judge, [cases[i] for i in some])]
            taken += exits.counts["taken"]
            print(f"turn {turn}: {exits.state}")
            exits.close()
    whole = np.concatenate(
        [
            [one.score for one in judge.scores(cases[at : at + AT_ONCE])]
            for at in range(0, len(cases), AT_ONCE)
        ]
    )
    return Judged(whole, served, taken / len(rows))


def difference(found: Judged, right: np.ndarray) -> tuple[float, float]:
    """Of the AUCs, with half of its 95 % interval."""
    rng, drawn = np.random.default_rng(1), []
    for _ in range(DRAWS):
        at = rng.integers(0, len(right), len(right))
        both = [agreement(scores[at], right[at]) for scores in (found.served, found.whole)]
        if both[0] is not None and both[1] is not None:
            drawn.append(both[0].auc - both[1].auc)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return float(np.mean(drawn)), float(high - low) / 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows")
    parser.add_argument("--judge", type=Path)
    parser.add_argument("--risk", type=float, default=0.05, help="share of verdicts that may differ")
    parser.add_argument("--points", type=float, default=10.0, help="further apart they differ")
    options = parser.parse_args()
    threadpool_limits(1, user_api="blas")
    named = Path(options.rows)
    lines_of = map(json.loads, named.read_text().splitlines()) if named.exists() else public_rows(str(named))
    # `bench_probe rows` says more of each.
    rows = read_rows([json.dumps({k: one[k] for k in KNOWN & one.keys()}) for one in lines_of], str(named))
    folder = encoder_folder(None)
    early = EarlyEncoder.read(folder)
    with TemporaryDirectory() as made:
        file = options.judge or Path(made) / "judge.json"
        if options.judge is None:
            order = Random(0).sample(
                sorted({row.prompt_id for row in rows}), k=len({r.prompt_id for r in rows})
            )
            learned = set(order[: len(order) // 2])
            _trained([row for row in rows if row.prompt_id in learned], file)
            rows = [row for row in rows if row.prompt_id not in learned]
        judge = EmbeddingJudge.read(file, Remembering(Encoder.read(folder), KEPT))
        found = judged(judge, early, file, rows, options.risk, options.points)
    right = np.array([row.quality for row in rows]) >= RIGHT
    for name, scores in (("whole", found.whole), ("with exits", found.served)):
        told = agreement(scores, right)
        assert told is not None
        print(f"{name}: AUC {told.auc:.3f} ± {1.96 * told.standard_error:.3f}")
    apart = np.abs(found.whole - found.served)
    mean, half = difference(found, right)
    print(
        f"{len(rows)} answers, {found.early:.1%} early, {(apart > options.points).mean():.2%} off by more than "
        f"{options.points:g} points; difference {mean:+.4f} ± {half:.4f}"
    )
    error = agreement(found.whole, right)
    assert error is not None
    return 0 if abs(mean) <= 1.96 * error.standard_error else 1


def _trained(rows: Sequence[Row], file: Path) -> None:
    """By the command, as a user does."""
    table = file.with_suffix(".jsonl")
    table.write_text(
        "".join(json.dumps(_row(r.prompt_id, r.question, r.answer, r.quality)) + "\n" for r in rows)
    )
    command = [sys.executable, "-m", "cascadia", "judge", "train", str(table), "--out", str(file), "--quiet"]
    subprocess.run([*command, "--encoder", str(encoder_folder(None))], check=True, timeout=600.0)


if __name__ == "__main__":
    sys.exit(main())
