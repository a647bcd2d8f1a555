"""Ramp of the embedding judge: what its encoder would say of a text, told from the first part of it.

At the first cut vertex of the encoder the mean of a text's tokens is mapped to the vector at its end, and the judge's
own heads score that. Deeper places told no more (docs/models/exits.md), so there is one. `doubt` is the probability
that the verdict is then more than `points` away from the whole judge's. Both are learned from the judge's own verdicts;
nothing is labelled, and the judge is not changed.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cascadia.domain.errors import BadInput
from cascadia.exits.path import Path as Settings
from cascadia.exits.readings import Floats
from cascadia.files.atomic import atomic_write
from cascadia.files.text import read_text
from cascadia_judge.embedding import Case, EmbeddingJudge
from cascadia_judge.encoder.encoder import TOKENS_MAX, Encoded, Encoder
from cascadia_judge.encoder.memory import Encodes
from cascadia_judge.head.arrays import array_written, numbers_in
from cascadia_judge.head.features import JudgeInput, Seen, joined, look

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

AT_ONCE = 32
MAX_BYTES = 32_000_000
POINTS = 10.0
AGAIN = "train it with `cascadia judge train-exits`"


@dataclass(frozen=True, slots=True, eq=False)
class JudgeRamp:
    """`weight` (size, size) and `bias` (size) of the map. `doubts` by head of the judge: weights on its columns, their
    bias last; a head without is never left. `points`: verdicts further apart differ.
    """

    judge_sha256: str
    weight: Floats
    bias: Floats
    doubts: dict[int, Floats]
    points: float
    path: Settings

    @property
    def digest(self) -> str:
        """Digest of what evidence on its verdicts is about."""
        parts = (
            self.weight,
            self.bias,
            self.path.thresholds,
            *(self.doubts[head] for head in sorted(self.doubts)),
        )
        told = b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
        heads = sorted(self.doubts)
        return sha256(f"{self.judge_sha256} {self.points} {heads}".encode() + told).hexdigest()

    def mapped(self, part: Seen) -> Seen:
        """`part` with the vectors that its texts would have at the encoder's end."""
        return replace(part, question=self._turned(part.question), answer=self._turned(part.answer))

    def _turned(self, vectors: Floats) -> Floats:
        made = vectors @ self.weight + self.bias
        length = np.linalg.norm(made, axis=1, keepdims=True)
        made = np.divide(made, length, out=made, where=length > 0)
        # A text without a token has no vector.
        made[np.linalg.norm(vectors, axis=1) == 0] = 0.0
        return np.asarray(made)


def seen_by(encoder: Encodes, judge: EmbeddingJudge, cases: Sequence[Case]) -> Seen:
    """The texts that the judge looks at of each case, by `encoder`."""
    asked = [
        JudgeInput(
            case.question, case.answer if "answer" in judge.head_for(case).groups else None, case.certainty
        )
        for case in cases
    ]
    return joined([look(encoder, asked[at : at + AT_ONCE]) for at in range(0, len(asked), AT_ONCE)])


def columns_of(judge: EmbeddingJudge, head: int, seen: Seen) -> tuple[Floats, Floats]:
    """Scores (n) by a head, and what its doubt is told from (n, columns)."""
    one = judge.heads[head]
    score = one.score(seen).quality
    columns = np.nan_to_num(one.basis.columns(seen))
    return score, np.column_stack([columns, score / 50 - 1, np.abs(score / 50 - 1)])


def doubt_of(weights: Floats, columns: Floats) -> Floats:
    """(n): probabilities that a verdict differs."""
    return np.asarray(1 / (1 + np.exp(-np.clip(columns @ weights[:-1] + weights[-1], -40, 40))))


@dataclass(frozen=True, slots=True, eq=False)
class EarlyEncoder:
    """First part of an encoder, which windows and joins texts as the encoder does."""

    encoder: Encoder
    size: int

    @classmethod
    def read(cls, folder: Path, threads: int = 1) -> "EarlyEncoder":
        """Raises `BadInput` where the encoder has no place for a ramp."""
        from safetensors.numpy import load_file

        from cascadia.ramps.cuts import cuts
        from cascadia.ramps.segments import summed
        from cascadia.ramps.session import open_session
        from cascadia_judge.encoder.graph import SUMS, bert_graph

        whole = Encoder.read(folder, threads)
        config = json.loads((folder / "config.json").read_bytes())
        graph = bert_graph(config, load_file(folder / "model.safetensors"), str(folder))
        places = cuts(graph)
        if not places:
            raise BadInput(str(folder), "has no place for a ramp", "name an encoder of several layers")
        session: InferenceSession = open_session(summed(graph, places[0].tensor, SUMS), threads)
        return cls(replace(whole, session=session), whole.size)

    def encoded(self, texts: Sequence[str], tokens_max: int = TOKENS_MAX) -> Encoded:
        return self.encoder.encoded(texts, tokens_max)


def file_of(judge: Path) -> Path:
    """The file beside a judge's that holds its ramp."""
    return judge.with_name(f"{judge.name}.exits")


def state_of(judge: Path) -> Path:
    """The file beside a judge's that keeps what its exits have been certified for."""
    return judge.with_name(f"{judge.name}.exits-state.json")


def write_ramp(judge: Path, ramp: JudgeRamp) -> None:
    document = {
        "judge_sha256": ramp.judge_sha256,
        "points": ramp.points,
        "weight": array_written(ramp.weight, "f4"),
        "bias": array_written(ramp.bias, "f4"),
        "doubts": {str(head): array_written(values, "f8") for head, values in ramp.doubts.items()},
        "thresholds": array_written(ramp.path.thresholds, "f8"),
    }
    if ramp.path.differed is not None:
        document |= {
            "differed": array_written(ramp.path.differed, "f8"),
            "calibrated_on": ramp.path.inputs,
        }
    with atomic_write(file_of(judge)) as part:
        part.write_text(json.dumps(document) + "\n", encoding="utf-8")


def read_ramp(judge: Path) -> JudgeRamp:
    """Raises `BadInput` where there is none, or it is another judge's."""
    path = file_of(judge)
    if not path.is_file():
        raise BadInput(str(judge), f"has no {path.name} beside it", AGAIN)
    try:
        found: dict[str, Any] = json.loads(read_text(path, MAX_BYTES))
        ramp = JudgeRamp(
            str(found["judge_sha256"]),
            numbers_in(found["weight"]),
            numbers_in(found["bias"]),
            {int(head): numbers_in(values) for head, values in found["doubts"].items()},
            float(found["points"]),
            Settings(
                numbers_in(found["thresholds"]),
                numbers_in(found["differed"]) if "differed" in found else None,
                int(found.get("calibrated_on", 0)),
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(str(path), f"cannot be read ({error})".splitlines()[0][:200], AGAIN) from None
    if ramp.judge_sha256 != digest(judge):
        raise BadInput(str(path), "is for another judge", AGAIN)
    return ramp


def digest(judge: Path) -> str:
    return sha256(judge.read_bytes()).hexdigest()
