"""Samples of lm-eval-harness (`--log_samples`) as answers: `samples_TASK_TIME.jsonl`, in a folder by each model's name.

A sample's score is the first of its task's metrics, unless the user maps another; its text is there where the task has
the model write one.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cascadia.imports.fields import at

NAME = "lm-eval"
_FILE = re.compile(r"samples_(?P<task>.+?)(_\d{4}-\d\d-\d\dT[\d:.-]+)?\.jsonl(\.gz)?")
_PROMPT = ("arguments.gen_args_0.arg_0", "arguments.0.0")
_NO_METRIC = ("doc_id",)


def sample_files(folder: Path) -> list[Path]:
    """Files of samples in `folder` and below, each folder's newest first: the first answer to a question counts."""
    return sorted((file for file in folder.rglob("samples_*") if _FILE.fullmatch(file.name)), reverse=True)


def are_samples(path: Path, rows: Sequence[Mapping[str, Any]]) -> bool:
    return _FILE.fullmatch(path.name) is not None and {"doc_id", "arguments", "resps"} <= rows[0].keys()


def answers(path: Path, rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The samples of one file, with our columns beside their own."""
    known = _FILE.fullmatch(path.name)
    task = known["task"] if known else path.stem
    model = path.absolute().parent.name.replace("__", "/")
    return [{**row, **_ours(row), "model": model, "prompt_id": f"{task}:{at(row, 'doc_id')}"} for row in rows]


def _ours(row: Mapping[str, Any]) -> dict[str, Any]:
    written = at(row, "resps.0.0")
    named = at(row, "metrics.0") or next((name for name in row if _is_metric(row, name)), "")
    return {
        "prompt": next((found for path in _PROMPT if (found := at(row, path)) is not None), None),
        "answer": written if isinstance(written, str) else None,
        "reference": at(row, "target"),
        "score": at(row, named),
    }


def _is_metric(row: Mapping[str, Any], name: str) -> bool:
    return name not in _NO_METRIC and isinstance(row[name], bool | int | float)
