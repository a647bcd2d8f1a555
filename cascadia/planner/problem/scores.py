"""Checks of a table's scores: whether the judge that made them is the spec's, and whether its scores tell right
from wrong at all.
"""

from collections.abc import Iterator

from cascadia.domain.errors import BadInput
from cascadia.domain.problem import Judge
from cascadia.domain.quality import QualityTable
from cascadia.planner.problem.gate_skill import weak_gates


def judge_notes(table: QualityTable, judge: Judge, file: str) -> list[str]:
    """Notes for the user on `table`'s scores. Raises `BadInput` where another kind of judge made them."""
    return [*_of_another(table, judge, file), *weak_gates(table)]


def _of_another(table: QualityTable, judge: Judge, file: str) -> Iterator[str]:
    said = table.scored_by
    if said is None or said.kind is None:
        return
    if said.kind == "check":
        yield (
            f"the scores of {file} are checks against references, which no judge knows while serving: this plan is for "
            "a gate without error"
        )
    elif said.kind != judge.kind:
        raise BadInput(
            file,
            f"its scores are of a judge of kind {said.kind}, and the spec's is of kind {judge.kind}",
            "thresholds on one mean nothing to the other: name the judge that made them, or measure the table anew",
        )
    elif judge.kind == "llm" and said.model and judge.model and not _alike(said.model, judge.model):
        yield f"the scores of {file} are by {said.model}, and the spec's judge is {judge.model}"


def _alike(served: str, named: str) -> bool:
    """Engines serve models under names of their own, often a part of the hub's."""
    a, b = (name.rsplit("/", 1)[-1].lower() for name in (served, named))
    return a in b or b in a or a == "judge"
