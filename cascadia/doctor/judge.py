"""The judge behind a quality table: on which scale it scores, and whether its scores tell right from wrong."""

from collections.abc import Iterator
from pathlib import Path

from cascadia.doctor.finding import Finding
from cascadia.planner.problem.gate_skill import skill, weak
from cascadia.planner.problem.quality_file import read_quality


def judge(table: Path, scale: float | None) -> Iterator[Finding]:
    """Findings about each gated stage of `table`. Raises `BadInput` for what is no table."""
    found = read_quality(table, None, scale=scale)
    told = found.scored_by
    highest = 100.0 if told is None else told.scale
    who = (
        "a judge that the table does not name"
        if told is None or told.kind is None
        else f"{told.kind} {told.model or ''}"
    )
    yield Finding("judge's scale", "good", f"0 to {highest:g}, by {who.strip()}; {len(found):,} prompts")
    for row, stage in enumerate(found.stages[:-1]):
        agreed = skill(found.score[row], found.quality[row])
        what = f"judge of {stage}"
        if agreed is None:
            said = "its scores are the quality itself, or there is nothing to tell apart"
            yield Finding(
                what,
                "note",
                said,
                "add a column `quality` by checks or people, to see what the judge is worth",
            )
            continue
        said = f"AUC {agreed.auc:.2f} ± {1.96 * agreed.standard_error:.2f}"
        poor = weak(agreed)
        do = "take another judge or more prompts: a cascade gains nothing by these scores" if poor else ""
        yield Finding(what, "bad" if poor else "good", said, do)
