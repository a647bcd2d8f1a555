"""One table or figure of the paper beside ours, and the steps that measure what it shows."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cascadia.files.text import write_whole
from cascadia.report.markdown import markdown

Measured = Mapping[str, Any]
"""What steps found, by name, as JSON has it."""


@dataclass(frozen=True, slots=True)
class Item:
    """`why`: what keeps the paper's figures and ours from being compared as they stand."""

    name: str
    shows: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    why: str


@dataclass(frozen=True, slots=True)
class Step:
    """`name` is of a file that keeps what was found, so that a run which was cut off goes on."""

    name: str
    find: Callable[[], object]


def measure(
    steps: Sequence[Step], folder: Path, progress: Callable[[float, str], None] = lambda _, __: None
) -> Measured:
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    for at, step in enumerate(steps):
        progress(at / len(steps), step.name)
        kept = folder / f"{step.name}.json"
        if not kept.exists():
            write_whole(kept, json.dumps(step.find()))
        found[step.name] = json.loads(kept.read_text())
    return found


def as_markdown(items: Sequence[Item]) -> str:
    parts = []
    for item in items:
        table = markdown(item.columns, item.rows)
        parts.append(f"## {item.name}: {item.shows}\n\n{table}\n\n{item.why}\n")
    return "\n".join(parts)
