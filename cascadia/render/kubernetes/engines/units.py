"""Units that run on engines: the stages, and the judge where it is one."""

from collections.abc import Iterator
from typing import Any

from cascadia.render.kubernetes.chart_values import Values, merged

Unit = dict[str, Any]
"""A stage's or the judge's values: a name, a model, an engine and its groups of equal replicas."""

Group = dict[str, Any]

Engines = dict[str, Any]
"""The values `engines`, of one unit."""


def units(values: Values) -> list[Unit]:
    judge = values["judge"]
    judges = [{**judge, "role": "judge"}] if judge["groups"] else []
    return [*({**stage, "role": "stage"} for stage in values["stages"]), *judges]


def engines_of(values: Values, unit: Unit) -> Engines:
    """Engine settings of a unit: what is different is put over what holds for all; lists are appended."""
    engines = values["engines"]
    own = engines["perStage"].get("judge" if unit["role"] == "judge" else unit["servedModelName"], {})
    lists = {key: [*engines[key], *value] for key, value in own.items() if isinstance(value, list)}
    return merged(engines, {**own, **lists})


def slots(unit: Unit) -> Iterator[tuple[str, Group]]:
    """Each group with the name of its place in the unit, which a group of another plan has too, whatever its shape."""
    for i, group in enumerate(unit["groups"]):
        yield f"{unit['name']}-{i}", group
