"""Tables where each model has a column of its scores, such as RouterBench's: a row is read once for each model.

What is a model's own stands in columns that begin with its name: `gpt-4|model_response`, `gpt-4_output_tokens`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from cascadia.domain.errors import BadInput
from cascadia.imports.fields import at
from cascadia.imports.layouts import layout_of

OF_ALL = ("prompt_id", "prompt", "input_tokens", "reference")
OF_ONE = ("input_tokens", "output_tokens", "answer", "quality")
BETWEEN = ("|", ".", "_")

Paths = Mapping[str, tuple[str, ...]]


def paths_by_model(
    rows: Sequence[Mapping[str, Any]], models: Sequence[str], paths: Paths, columns: Sequence[str]
) -> dict[str, Paths]:
    """Where our columns of each model stand. Empty where a column tells the model, as `paths` say, and where none of
    `models` has a column. Raises `BadInput` where some have one and others none."""
    absent = [model for model in models if all(at(row, model) is None for row in rows)]
    if "model" in paths or len(absent) == len(models):
        return {}
    if absent:
        raise BadInput(
            "--stage", f"no column of {', '.join(absent)}", f"its columns are {', '.join(columns)}"
        )
    shared = {ours: theirs for ours, theirs in paths.items() if ours in OF_ALL}
    return {model: {**shared, **_own(model, columns), "score": (model,)} for model in models}


def _own(model: str, columns: Sequence[str]) -> Paths:
    begins = tuple(f"{model}{sign}" for sign in BETWEEN)
    rest = {name[len(model) + 1 :]: name for name in columns if name.startswith(begins)}
    own = layout_of([rest], "table").paths
    return {ours: tuple(rest[name] for name in own[ours]) for ours in OF_ONE if ours in own}
