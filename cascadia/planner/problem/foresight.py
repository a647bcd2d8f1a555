"""Forecasts that a file of `cascadia judge train --foresight` makes of the table's prompts."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from cascadia.domain.errors import BadInput
from cascadia.domain.problem import Foresight
from cascadia.domain.quality import QualityTable
from cascadia.files.text import read_text
from cascadia_judge.errors import BadVerdict
from cascadia_judge.foresight import read
from cascadia_judge.head.file import BYTES_MAX


def with_foresight(table: QualityTable, path: Path) -> tuple[QualityTable, Foresight]:
    """`table` with what folds that did not see a prompt foresaw of it. Raises `BadInput` where one lacks."""
    text = read_text(path, BYTES_MAX)
    try:
        found = read(text, str(path))
    except BadVerdict as error:
        raise BadInput(error.where, error.what, error.instead) from None
    again = "train it on this table: cascadia judge train TABLE --prompts PROMPTS --foresight --out FILE"
    for stage in table.stages:
        if stage not in found.stages:
            raise BadInput(str(path), f"foresees nothing of stage {stage!r}", again)
    at = {prompt: i for i, prompt in enumerate(found.prompt_ids)}
    missing = [prompt for prompt in table.prompt_ids if prompt not in at]
    if missing:
        said = (
            f"does not know {len(missing):,} of the table's {len(table):,} prompts (e.g. {missing[0][:40]!r})"
        )
        raise BadInput(str(path), said, again)
    rows = np.array([at[prompt] for prompt in table.prompt_ids], dtype=np.int64)
    values = found.values[[found.stages.index(stage) for stage in table.stages]][:, rows]
    return replace(table, foreseen=values), Foresight(hashlib.sha256(text.encode()).hexdigest())
