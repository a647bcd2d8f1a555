"""How well a probe tells right answers from wrong ones, beside the judges that read texts, on the same rows and folds.

    python -m tests.benchmarks.bench_probe rows FOLDER      # asks the demo's small model: 10 minutes of a core
    python -m tests.benchmarks.bench_probe show FOLDER

AUC with 95 % intervals (Hanley and McNeil 1982): on folds that did not see the question, on the demo's own questions,
on each kind held out, and on kinds that no judge was trained on. Exits with 1 where the probe's AUC is below the
embedding judge's.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from cascadia.clients.hub.catalogue import model_named
from cascadia.clients.hub.fetch import fetch
from cascadia.demo.stages import ENCODER
from cascadia_judge.encoder.encoder import Encoder
from cascadia_judge.head.features import Floats, Group, Seen
from cascadia_judge.head.head import raw_score
from cascadia_judge.head.model_selection import see
from cascadia_judge.head.rows import Row, read_rows
from cascadia_judge.head.training import RIGHT, Course, cross, fit
from cascadia_judge.probe.familiar import fit_axes
from cascadia_judge.probe.probe import raw
from cascadia_judge.probe.reading import Readings, layer_of
from cascadia_judge.probe.training import Place, Probed, train_probe
from cascadia_judge.scores.agreement import agreement
from tests.benchmarks.probe_rows import collect
from tests.benchmarks.report_table import markdown

KEYS = ("prompt_id", "question", "stage", "answer", "quality", "certainty")
EMBEDDING: tuple[tuple[Group, ...], ...] = (
    ("question",),
    ("question", "answer"),
    ("question", "answer", "certainty"),
)
DEPTHS = (0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.97)
OWN = "probe, question and answer"
SERVED = "the same, 0 where unlike, as it is served"


class Data:
    """All rows of FOLDER; `seen` by the encoder."""

    def __init__(self, folder: Path) -> None:
        documents = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
        lines = [json.dumps({key: each[key] for key in KEYS}) for each in documents]
        self.rows: list[Row] = read_rows(lines, "rows")
        self.place = np.array([each["place"] for each in documents])
        self.kind = np.array([each["kind"] for each in documents])
        self.quality = np.array([row.quality for row in self.rows])
        self.readings = np.load(folder / "readings.npy").astype(np.float64)
        self.seen = see(Encoder.read(fetch(model_named(ENCODER))), self.rows, lambda share: None)

    def at(self, where: np.ndarray, depth: float | None = None) -> Readings:
        layers = self.readings.shape[1]
        layer = layer_of(layers) if depth is None else min(layers - 1, round(depth * layers))
        found = self.readings[where, layer]
        return Readings(found[:, 0], found.reshape(len(found), -1))

    def names(self, where: np.ndarray) -> list[str]:
        return [self.rows[at].prompt_id for at in np.flatnonzero(where)]

    def probe(self, where: np.ndarray, depth: float | None = None) -> Probed:
        place = Place(layer_of(self.readings.shape[1]), self.readings.shape[1])
        return train_probe(
            self.at(where, depth), self.quality[where], self.names(where), place, about={}, folds=5, seed=0
        )

    def take(self, where: np.ndarray) -> Seen:
        return self.seen.take(np.flatnonzero(where))


def told(score: Floats, quality: Floats) -> str:
    found = agreement(score, quality >= RIGHT)
    return "–" if found is None else f"{found.auc:.3f} ± {1.96 * found.standard_error:.3f}"


def in_folds(data: Data) -> dict[str, Floats]:
    """By judge, scores of the training rows by folds that did not see them, by the names of the table."""
    where = data.place == "training"
    names, quality = data.names(where), data.quality[where]
    found = {"summed log-probability": data.seen.certainty[where, 0]}
    for groups in EMBEDDING:
        crossed = cross(data.take(where), quality, names, groups, Course())
        found[f"embedding, {' and '.join(groups)}"] = crossed.quality
    own = data.probe(where)
    return found | {"probe, question": own.foreseen, OWN: own.scores, SERVED: own.served}


def of_others(data: Data, inside: np.ndarray, outside: np.ndarray) -> tuple[dict[str, Floats], np.ndarray]:
    """By judge, scores of rows `outside` by what learned from those `inside`; and which the probe finds unlike."""
    found = {"summed log-probability": data.seen.certainty[outside, 0]}
    for groups in EMBEDDING:
        fitted = fit(data.take(inside), data.quality[inside], groups, Course())
        columns = fitted.basis.columns(data.take(outside))
        found[f"embedding, {' and '.join(groups)}"] = raw_score(fitted.line, fitted.trees, columns)
    probe = data.probe(inside).probe
    seen = data.at(outside)
    found["probe, question"] = raw(probe.question.line, seen.question)
    found[OWN] = raw(probe.answer.line, seen.whole)
    unlike = probe.familiar.axes.stray(seen.question) > probe.familiar.cut
    found[SERVED] = np.where(unlike, 0.0, found[OWN])
    return found, unlike


def show(folder: Path) -> int:
    data = Data(folder)
    training, demo, unseen = (data.place == each for each in ("training", "demo", "unseen"))
    folds = in_folds(data)
    at_demo, demo_unlike = of_others(data, training, demo)
    at_unseen, unlike = of_others(data, training, unseen)
    held: dict[str, list[Floats]] = {name: [] for name in folds}
    flags, order = [], []
    for kind in np.unique(data.kind[training]):
        outside = training & (data.kind == kind)
        scores, flagged = of_others(data, training & ~outside, outside)
        for name, score in scores.items():
            held[name].append(score)
        flags.append(flagged)
        order.append(data.quality[outside])
    qualities, flagged = np.concatenate(order), np.concatenate(flags)
    rows = [
        [
            name,
            told(folds[name], data.quality[training]),
            told(at_demo[name], data.quality[demo]),
            told(np.concatenate(held[name]), qualities),
            told(at_unseen[name], data.quality[unseen]),
        ]
        for name in folds
    ]
    counts = [int(each.sum()) for each in (training, demo, training, unseen)]
    titles = ("folds", "the demo's", "kind held out", "kinds unseen")
    print(markdown(["judge", *(f"{t} ({n})" for t, n in zip(titles, counts, strict=True))], rows))
    shares = (np.mean(demo_unlike), np.mean(flagged), np.mean(unlike))
    print("\nunlike, demo, kind held out, unseen:", *(f"{share:.1%}" for share in shares))
    print("kind held out, where like:", told(np.concatenate(held[OWN])[~flagged], qualities[~flagged]))
    print("right among unseen:", f"{np.mean(data.quality[unseen] >= RIGHT):.0%}")
    print("mean score the probe would have given them:", f"{at_unseen[OWN].mean():.0f}")
    half = np.random.default_rng(0).random(int(training.sum())) < 0.5
    question = data.at(training).question
    cut = np.quantile(fit_axes(question[half]).stray(question[half]), 0.99)
    fresh = np.mean(fit_axes(question[half]).stray(question[~half]) > cut)
    print(f"unlike, cut on the questions that axes were fitted to: {fresh:.1%} of the other half")
    layers = []
    for depth in DEPTHS:
        found = data.probe(training, depth)
        quality = data.quality[training]
        layers.append([f"{depth:.0%}", told(found.foreseen, quality), told(found.scores, quality)])
    print("\n" + markdown(["depth", "question", "question and answer"], layers))
    best = agreement(folds["embedding, question and answer and certainty"], data.quality[training] >= RIGHT)
    own = agreement(folds[OWN], data.quality[training] >= RIGHT)
    assert best is not None
    assert own is not None
    return int(own.auc < best.auc)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="a probe beside the judges that read texts")
    parser.add_argument("step", choices=("rows", "show"))
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.step == "rows":
        collect(asked.folder)
    else:
        sys.exit(show(asked.folder))
