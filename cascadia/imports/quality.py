"""A quality table from records: each stage's answer to each prompt with its score.

Truths (`correct`: true or false) are 100 and 0. Scores are of the scale that is told; those that never leave a scale
that judges commonly use, with none told, are refused as everywhere. A prompt that not every stage answered is left out
and counted.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np

from cascadia.domain.errors import BadInput
from cascadia.domain.quality import Floats, QualityTable, ScoredBy
from cascadia.imports.fields import number, truth
from cascadia.imports.lengths import has_lengths, lengths, needed, without_failed
from cascadia.imports.prompts import prompt_name
from cascadia.imports.records import Record, Records
from cascadia.imports.tokens import Counter
from cascadia.planner.problem.quality_judge import likely_scale, scale_of_quality

_OTHERWISE = {
    "model": "--stage NAME=COLUMN for each model's column of scores",
    "score": "--map score=COLUMN with the truth itself, which plans for a judge that never errs",
    "output_tokens": "--answer-tokens N for answers of one length",
}


def quality_of(
    found: Records,
    counter: Counter,
    *,
    stages: Mapping[str, str] | None = None,
    scale: float | None = None,
    answer_tokens: int | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> QualityTable:
    """The table of `stages` (our name to the file's name of the model; None: every model by its own name). Raises
    `BadInput` with all columns that are missing."""
    found.refuse_missing(
        [("prompt_id", "prompt"), ("model",), ("score",), *needed(answer_tokens)], _OTHERWISE
    )
    without_failed(found, note)
    named = _stages(found, stages)
    cells = _cells(found, named, note)
    order = list(dict.fromkeys(name for name, _ in cells))
    prompts = [name for name in order if all((name, stage) in cells for stage in named)]
    if not prompts:
        raise BadInput(found.source, "no prompt has an answer of every stage", f"stages: {', '.join(named)}")
    if len(prompts) < len(order):
        note(
            f"left out {len(order) - len(prompts):,} of {len(order):,} prompts: not every stage answered them"
        )
    known = [
        name for name in prompts if all(has_lengths(cells[name, stage], answer_tokens) for stage in named)
    ]
    if 0 < len(known) < len(prompts):
        note(
            f"left out {len(prompts) - len(known):,} of {len(prompts):,} prompts: no tokens counted in or out"
        )
        prompts = known
    rows = [cells[name, stage] for stage in named for name in prompts]
    shape = (len(named), len(prompts))
    score = _scores(found, rows, "score", scale).reshape(shape)
    quality = _scores(found, rows, "quality", scale).reshape(shape) if found.have("quality") else score
    return QualityTable(
        prompt_ids=tuple(prompts),
        stages=tuple(named),
        score=score,
        quality=quality,
        input_tokens=np.maximum(lengths(rows, "input_tokens", counter, note), 1).astype(float).reshape(shape),
        output_tokens=np.maximum(lengths(rows, "output_tokens", counter, note, answer_tokens), 1)
        .astype(float)
        .reshape(shape),
        foreseen=None,
        scored_by=ScoredBy(),
    )


def _stages(found: Records, asked: Mapping[str, str] | None) -> dict[str, str]:
    models = list(dict.fromkeys(str(record.get("model")) for record in found.records if "model" in record))
    if not asked:
        return {model: model for model in models}
    unknown = [model for model in asked.values() if model not in models]
    if unknown:
        raise BadInput("--stage", f"no row of {', '.join(unknown)}", f"its models are {', '.join(models)}")
    return dict(asked)


def _cells(
    found: Records, stages: Mapping[str, str], note: Callable[[str], None]
) -> dict[tuple[str, str], Record]:
    """The first record of each (prompt, stage)."""
    ours = {model: stage for stage, model in stages.items()}
    cells: dict[tuple[str, str], Record] = {}
    again = 0
    for record in found.records:
        name, stage = prompt_name(record), ours.get(str(record.get("model")))
        if name is None or "model" not in record:
            raise BadInput(record.where, "has no prompt or no model", "give every row both")
        if stage is None:
            continue
        again += (name, stage) in cells
        cells.setdefault((name, stage), record)
    if again:
        note(f"left out {again:,} further answers of a stage to a prompt that it answered before")
    return cells


def _scores(found: Records, rows: list[Record], column: str, scale: float | None) -> Floats:
    """Scores (n) on 0-100. A column of truths needs no scale."""
    values = [record.get(column) for record in rows]
    truths = [truth(value) for value in values]
    numbers = np.array([number(value) for value in values])
    numbers[[one is True for one in truths]] = 1.0
    numbers[[one is False for one in truths]] = 0.0
    if any(one is not None for one in truths) and set(numbers) <= {0.0, 1.0}:
        return numbers * 100.0
    numbers[[one is not None for one in truths]] = math.nan
    _refuse_mixed(rows, column, truths)
    if column == "quality":
        known = numbers[np.isfinite(numbers)]
        highest = scale_of_quality(found.source, known, scale) if len(known) else 100.0
    else:
        highest = scale or 100.0
    _refuse_bad(rows, column, numbers, highest)
    if scale is None and highest == 100.0 and (likely := likely_scale(numbers)) is not None:
        said = f"{column} never exceeds {likely:g}, and no scale is named"
        raise BadInput(found.source, said, f"write --scale {likely:g}, or --scale 100 if they are of 100")
    return numbers * (100.0 / highest)


def _refuse_mixed(rows: list[Record], column: str, truths: list[bool | None]) -> None:
    """Refuses the first value that is no truth, in a column that begins with truths; 0 and 1 may stand for them."""
    others = [
        row
        for row, one in zip(rows, truths, strict=True)
        if one is None and number(row.get(column)) not in (0, 1)
    ]
    if truths[0] is not None and others:
        said = others[0].get(column)
        what = f"{column} is missing" if said is None else f"{column} is {said!r}"
        raise BadInput(
            others[0].where,
            f"{what}, and {rows[0].get(column)!r} in {rows[0].where}",
            "write all as true and false, or all as numbers",
        )


def _refuse_bad(rows: list[Record], column: str, numbers: Floats, highest: float) -> None:
    """Refuses the first of `numbers` (n) that is none, or not from 0 to `highest`."""
    bad = ~((numbers >= 0) & (numbers <= highest))
    if bad.any():
        row = rows[int(bad.argmax())]
        said = row.get(column)
        what = f"{column} is missing" if said is None else f"{column} is {said!r}"
        unread = math.isnan(numbers[int(bad.argmax())]) or highest == 100.0
        instead = f"write a number from 0 to {highest:g}" + (" or true and false" if unread else "")
        raise BadInput(row.where, what, instead)
