"""How much of a cascade's possible gain each judge recovers, on public answers and on rows of one's own.

    python -m tests.benchmarks.bench_judge [--encoder FOLDER] [--vectors FILE] [--rows ROWS.jsonl] [--plots]

Every score of an answer comes from folds that did not see its question. A judge escalates the answers it
likes least; the curve is the cascade's mean quality over the share that it escalates. `gain` is the area
between that curve and chance, as a share of the area between the oracle, who knows both answers' qualities,
and chance. Exits with 1 where the embedding judge does not recover more than length alone on a public set.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from cascadia.clients.hub.catalogue import models_folder
from cascadia_judge.encoder.encoder import Encoder
from cascadia_judge.head.features import Floats, Group
from cascadia_judge.head.learners import Growth, boost
from cascadia_judge.head.rows import read_rows
from cascadia_judge.head.training import RIGHT, Course, cross, folds_of
from cascadia_judge.scores.agreement import agreement
from cascadia_judge.scores.calibration import calibration_error, reliability, smoothed
from tests.benchmarks.judge_sets import Graded, graded, gsm8k, wildbench
from tests.benchmarks.judge_vectors import encoder_folder, vectors
from tests.benchmarks.report_table import markdown
from tests.data import ROOT, data_dir

SHARES = np.linspace(0, 1, 21)
COURSE = Course()
CASCADES = (
    ("gemma-2b-it", "Qwen1.5-72B-Chat-greedy"),
    ("gemma-7b-it", "Qwen1.5-72B-Chat-greedy"),
    ("Phi-3-mini-128k-instruct", "Qwen1.5-72B-Chat-greedy"),
)
IMAGES = ROOT / "docs" / "images"


def curve(score: Floats, small: Floats, large: Floats) -> Floats:
    """Mean quality where the `SHARES` of answers with the lowest score are escalated; ties in a fixed
    random order."""
    order = np.lexsort((np.random.default_rng(0).permutation(len(score)), score))
    gain = np.concatenate([[0.0], np.cumsum((large - small)[order])]) / len(score)
    return np.asarray(small.mean() + np.interp(SHARES * len(score), np.arange(len(score) + 1), gain))


def recovered(found: Floats, small: Floats, large: Floats) -> float:
    chance = small.mean() + SHARES * (large.mean() - small.mean())
    oracle = curve(small - large, small, large)
    return float(np.trapezoid(found - chance) / np.trapezoid(oracle - chance))


def scores(rows: Graded) -> dict[str, tuple[Floats, Floats | None]]:
    """By judge: its raw score, and its calibrated one where it claims to be a quality. Higher is better."""
    found: dict[str, tuple[Floats, Floats | None]] = {
        "length only": _columns(rows, rows.seen.answer_shape[:, :1])
    }
    if rows.certain:
        names = ("sum logprob", "mean logprob", "least logprob", "mean margin")
        for at, name in enumerate(names):
            found[name] = (rows.seen.certainty[:, at], None)
    looks: list[tuple[Group, ...]] = [("question",)] if rows.asked else []
    before: tuple[Group, ...] = ("question",) if rows.asked else ()
    looks.append((*before, "answer"))
    if rows.certain:
        looks += [(*before, "certainty"), (*before, "answer", "certainty")]
    for groups in looks:
        crossed = cross(rows.seen, rows.quality, rows.questions, groups, COURSE)
        found[f"embedding: {', '.join(groups)}"] = (crossed.raw, crossed.quality)
    return found


def for_gain(rows: Graded, large: Floats) -> dict[str, tuple[Floats, Floats | None]]:
    """A judge that is trained on what escalation gains, not on what the answer is worth."""
    groups: list[Group] = ["question"] if rows.asked else []
    groups.append("certainty" if rows.certain else "answer")
    worth = 50 + (rows.quality - large) / 2
    crossed = cross(rows.seen, worth, rows.questions, groups, COURSE)
    return {f"trained on the gain: {', '.join(groups)}": (crossed.raw, None)}


def _columns(rows: Graded, x: Floats) -> tuple[Floats, Floats | None]:
    """Trees on a few columns, cross-validated as the judge is."""
    fold = folds_of(rows.questions, COURSE.folds, COURSE.seed)
    raw, calibrated = np.zeros(len(x)), np.zeros(len(x))
    for k in range(COURSE.folds):
        inside = fold != k
        trees = boost(x[inside], rows.quality[inside] / 100, np.ones(inside.sum()), Growth(), 0)
        raw[~inside] = 100 / (1 + np.exp(-trees(x[~inside])))
    for k in range(COURSE.folds):
        calibrated[fold == k] = smoothed(raw[fold != k], rows.quality[fold != k])(raw[fold == k])
    return raw, calibrated


def report(
    title: str, found: Mapping[str, tuple[Floats, Floats | None]], small: Floats, large: Floats
) -> dict[str, float]:
    """Prints a table; returns the gain of each judge. `found` and `small` are of the same rows."""
    at = [int(np.argmin(np.abs(SHARES - share))) for share in (0.25, 0.5)]
    chance = small.mean() + SHARES * (large.mean() - small.mean())
    oracle = curve(small - large, small, large)
    lines, gains = [], {}
    lines.append(
        ("none: always accept, or always escalate", "", "", f"{small.mean():.1f}", f"{large.mean():.1f}", "")
    )
    lines.append(("random", "0.500", "", *(f"{chance[i]:.1f}" for i in at), "0"))
    for name, (raw, calibrated) in found.items():
        told = agreement(raw, small >= RIGHT)
        path = curve(raw, small, large)
        gains[name] = recovered(path, small, large)
        auc = "–" if told is None else f"{told.auc:.3f} ± {1.96 * told.standard_error:.3f}"
        ece = "" if calibrated is None else f"{calibration_error(reliability(calibrated, small)):.1f}"
        lines.append((name, auc, ece, *(f"{path[i]:.1f}" for i in at), f"{100 * gains[name]:.0f} %"))
    lines.append(("oracle", "", "", *(f"{oracle[i]:.1f}" for i in at), "100 %"))
    print(f"\n### {title} ({len(small):,} questions)\n")
    print(markdown(("judge", "AUC", "ECE", "quality at 25 % escalated", "at 50 %", "gain"), lines))
    sys.stdout.flush()
    return gains


def picture(
    file: str, title: str, found: Mapping[str, tuple[Floats, Floats | None]], small: Floats, large: Floats
) -> None:
    from cascadia.report.charts.line import line_chart
    from cascadia.report.charts.series import Series
    from cascadia.report.charts.style import CHART_CSS

    chance = small.mean() + SHARES * (large.mean() - small.mean())
    lines = [Series("oracle", SHARES, curve(small - large, small, large), dashed=True)]
    lines += [Series(name, SHARES, curve(raw, small, large)) for name, (raw, _) in found.items()]
    lines.append(Series("random", SHARES, chance, dashed=True))
    svg = line_chart(lines, title=title, x_label="share escalated", y_label="quality", legend=True)
    alone = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    styled = alone.replace(">", f"><style>{CHART_CSS}</style>", 1)
    (IMAGES / file).write_text(styled, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", type=Path, help="its folder; the catalogue's where absent")
    parser.add_argument(
        "--vectors",
        type=Path,
        help="npz file that keeps vectors between runs; in the models' cache where absent",
    )
    parser.add_argument("--rows", type=Path, help="graded answers of two stages, with log-probabilities")
    parser.add_argument("--plots", action="store_true", help="draw docs/images/judge-*.svg")
    given = parser.parse_args()
    encoder = Encoder.read(encoder_folder(given.encoder))
    kept_file = given.vectors or models_folder() / "judge-vectors.npz"
    kept_file.parent.mkdir(parents=True, exist_ok=True)

    def kept(texts: list[str], tokens_max: int) -> np.ndarray:
        return vectors(encoder, texts, tokens_max, kept_file)

    good = True
    if given.rows:
        rows = read_rows(given.rows.read_text().splitlines(), str(given.rows))
        small, large = dict.fromkeys(row.stage for row in rows)
        better = {row.prompt_id: row.quality for row in rows if row.stage == large}
        part = graded([row for row in rows if row.stage == small and row.prompt_id in better], kept)
        other = np.array([better[question] for question in part.questions])
        found = scores(part) | for_gain(part, other)
        report(f"own rows, {small} → {large}", found, part.quality, other)
        if given.plots:
            picture("judge-own.svg", f"{small} → {large}", _few(found), part.quality, other)
    if data_dir().exists():
        wild = wildbench(data_dir(), kept)
        found = scores(wild)
        for small, large in CASCADES:
            good &= _cascade(f"WildBench, {small} → {large}", wild, found, small, large, given.plots)
        mixtral, gpt4 = gsm8k(data_dir(), kept)
        found = scores(mixtral) | for_gain(mixtral, gpt4)
        gains = report("GSM8K, Mixtral-8x7B → GPT-4", found, mixtral.quality, gpt4)
        good &= _better(gains)
        if given.plots:
            picture("judge-gsm8k.svg", "GSM8K, Mixtral → GPT-4", found, mixtral.quality, gpt4)
    sys.exit(0 if good else 1)


def _cascade(
    title: str,
    rows: Graded,
    found: Mapping[str, tuple[Floats, Floats | None]],
    small: str,
    large: str,
    plots: bool,
) -> bool:
    at = {rows.questions[i]: i for i in rows.of(large)}
    mine = np.array([i for i in rows.of(small) if rows.questions[i] in at])
    other = rows.quality[[at[rows.questions[i]] for i in mine]]
    part = {name: (raw[mine], None if c is None else c[mine]) for name, (raw, c) in found.items()}
    own = Graded(
        rows.seen.take(mine), rows.quality[mine], [rows.questions[i] for i in mine], [small] * len(mine)
    )
    part |= for_gain(own, other)
    gains = report(title, part, rows.quality[mine], other)
    if plots:
        name = f"judge-wildbench-{small.split('-')[0].lower()}-{small.split('-')[1]}.svg"
        picture(name, title, part, rows.quality[mine], other)
    return _better(gains)


def _better(gains: Mapping[str, float]) -> bool:
    """Whether an embedding judge, trained on quality or on the gain, recovers more than length alone."""
    return max(gain for name, gain in gains.items() if name != "length only") > gains["length only"]


def _few(found: Mapping[str, tuple[Floats, Floats | None]]) -> dict[str, tuple[Floats, Floats | None]]:
    """What a picture can show."""
    wanted = ("length only", "sum logprob", "embedding: question", "embedding: question, certainty")
    return {name: found[name] for name in wanted if name in found}


if __name__ == "__main__":
    main()
