"""Judge that made a table's scores, and on which scale: what a Parquet file says of itself, or else the spec
says of it.

Scores are 0-100 inside. A table on another scale that says so is converted; one that looks like another scale and says
nothing is refused: a score of 7 of 10 taken for 7 of 100 makes every threshold and every bound meaningless, and what is
served with such thresholds lets everything pass.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cascadia.domain.errors import BadInput
from cascadia.domain.quality import ScoredBy

KEY = b"cascadia.judge"
"""Of the Parquet file's own metadata; its value is the JSON of `ScoredBy`."""
USUAL_SCALES = (1.0, 5.0, 10.0)
"""What judges are commonly asked to score up to, where it is not 100."""


def metadata_of(judge: ScoredBy | None) -> dict[bytes, bytes]:
    """Metadata that a written table has: whoever wrote it by this program wrote 0-100."""
    said = judge or ScoredBy()
    fields = {"kind": said.kind, "model": said.model, "prompt_version": said.prompt_version, "scale": 100.0}
    return {KEY: json.dumps({name: value for name, value in fields.items() if value is not None}).encode()}


def said_by(metadata: Mapping[bytes, bytes] | None, where: str) -> ScoredBy | None:
    """Judge that a file says made its scores; None where it says nothing. Raises `BadInput`."""
    if not metadata or KEY not in metadata:
        return None
    try:
        said = json.loads(metadata[KEY])
        texts = {name: said.get(name) for name in ("kind", "model", "prompt_version")}
        scale = said.get("scale", 100.0)
        whole = all(value is None or isinstance(value, str) for value in texts.values())
        sound = whole and type(scale) in (int, float) and math.isfinite(scale) and scale > 0
    except (ValueError, AttributeError):
        sound = False
    if not sound:
        raise BadInput(where, f"its metadata {KEY.decode()} is not a judge's", "write the table anew")
    return ScoredBy(**texts, scale=float(scale))


def settled_scale(path: Path, said: ScoredBy | None, told: float | None) -> float | None:
    """The scale that the file or the spec (`told`) names, None where neither does."""
    if said is not None and told is not None and said.scale != told:
        raise BadInput(
            str(path), f"says that its scores go up to {said.scale:g}, not {told:g}", "remove quality.scale"
        )
    return told if said is None else said.scale


def refuse_unlikely(path: Path, column: str, values: Any) -> None:
    """Refuses a column (n numbers, 0-100) that never leaves a scale that judges commonly use, where none was
    named.
    """
    likely = likely_scale(values)
    if likely is not None:
        instead = (
            f"write quality: {{table: {path.name}, scale: {likely:g}}}, or scale: 100 if they are of 100"
        )
        raise BadInput(
            str(path), f"column {column!r} never exceeds {likely:g}, and no scale is named", instead
        )


def scale_of_quality(where: str, values: Any, scale: float | None) -> float:
    """Scale of a column `quality` (n numbers) beside scores that go up to `scale`, below 100 (None: nobody said).

    It need not be theirs: 0 and 1 alone are wrong and right, and what exceeds `scale` is of 100, as checks give it.
    Raises `BadInput` where it can be neither.
    """
    likely = likely_scale(values)
    greatest = float(values.max())
    if set(values) <= {0.0, 1.0}:
        return 1.0
    if scale is None:
        return 100.0
    if (likely == 1.0 and scale > 1.0) or (likely is not None and greatest > scale):
        said = f"column 'quality' never exceeds {likely:g}, and scores go up to {scale:g}"
        raise BadInput(where, said, "write quality from 0 to 100, or as 0 and 1 for wrong and right")
    return 100.0 if greatest > scale else scale


def likely_scale(values: Any) -> float | None:
    """The scale that scores (n) seem to go up to, where it is one that judges commonly use; None for one of 100."""
    greatest = float(values.max())
    return next((scale for scale in USUAL_SCALES if 0 < greatest <= scale), None)
