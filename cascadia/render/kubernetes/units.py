"""What runs on engines: the stages, and the judge where it is one."""

from collections.abc import Iterator
from typing import Any

from cascadia.render.kubernetes.chart_values import Values

Unit = dict[str, Any]
"""A stage's or the judge's values: a name, a model, an engine and its groups of equal replicas."""

Group = dict[str, Any]


def units(values: Values) -> list[Unit]:
    judge = values["judge"]
    judges = [{**judge, "role": "judge"}] if judge["groups"] else []
    return [*({**stage, "role": "stage"} for stage in values["stages"]), *judges]


def slots(unit: Unit) -> Iterator[tuple[str, Group]]:
    """Each group with the name of its place in the unit, which a group of another plan has too, whatever its shape."""
    for i, group in enumerate(unit["groups"]):
        yield f"{unit['name']}-{i}", group
