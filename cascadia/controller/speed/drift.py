"""Drift: replicas slower than their siblings, and stages slower than their plan, said of none before it is
sure.

Given what was learnt of each replica (`speed.py`), and by how much the plan's calibration may be off. A replica drifts
where the range of its speed over its siblings' lies beyond `SIBLINGS`; a stage on a pool where the range of its own
lies beyond the calibration's error, on either side.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cascadia.controller.move.state import Kind
from cascadia.controller.speed.speed import Speed, others, ratio_range, together

SIBLINGS = 0.1
"""A replica that is slower than the others by less is as they are."""


@dataclass(frozen=True, slots=True)
class Served:
    """A replica: `speed` is over what its plan was made with, which may be off by the share `error`."""

    kind: Kind
    stage: str
    gpu: str
    speed: Speed
    error: float


class Drift(NamedTuple):
    """Drift of a speed. `about`: the replica, or the stage and its GPU."""

    about: str
    what: str
    facts: Mapping[str, Any]


def drifts(replicas: Mapping[str, Served]) -> list[Drift]:
    """Drifts in the order of names."""
    sure = {name: r for name, r in sorted(replicas.items()) if r.speed.sure}
    return [*_beside_siblings(sure), *_beside_the_plan(sure)]


def _beside_siblings(sure: Mapping[str, Served]) -> Iterator[Drift]:
    alike: dict[Kind, list[str]] = {}
    for name, replica in sure.items():
        alike.setdefault(replica.kind, []).append(name)
    siblings: dict[str, Speed] = {}
    for names in alike.values():
        siblings |= dict(zip(names, others([sure[name].speed for name in names]), strict=True))
    for name, replica in sure.items():
        if not siblings[name].weight:
            continue
        ratio, low, high = ratio_range(replica.speed, siblings[name])
        if low > 1.0 + SIBLINGS:
            what = f"{name} takes {ratio:.2f} times as long as its siblings ({low:.2f} to {high:.2f})"
            yield Drift(name, what, {"replica": name, "stage": replica.stage, "factor": ratio})


def _beside_the_plan(sure: Mapping[str, Served]) -> Iterator[Drift]:
    for (stage, gpu), speeds in by_stage(sure).items():
        speed, error = (
            together(speeds),
            max(r.error for r in sure.values() if (r.stage, r.gpu) == (stage, gpu)),
        )
        low, high = speed.range
        if low > 1.0 + error or high < 1.0 / (1.0 + error):
            what = (
                f"{stage} on {gpu} takes {speed.factor:.2f} times as long as planned ({low:.2f} to {high:.2f});"
                f" its calibration was taken to be within {100 * error:.0f} %"
            )
            yield Drift(f"{stage} on {gpu}", what, {"stage": stage, "gpu": gpu, "factor": speed.factor})


def by_stage(replicas: Mapping[str, Served]) -> dict[tuple[str, str], Sequence[Speed]]:
    """Speeds that were learnt for sure, by stage and GPU."""
    found: dict[tuple[str, str], list[Speed]] = {}
    for r in replicas.values():
        if r.speed.sure:
            found.setdefault((r.stage, r.gpu), []).append(r.speed)
    return dict(found)
