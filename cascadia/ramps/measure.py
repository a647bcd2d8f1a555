"""Time of a model's segments and ramps, measured once by batch size (Apparate section 3.3), in CPU seconds of one
thread.

Each segment and each ramp runs on its own, so a ramp is charged what it takes to stop there; wall time would
measure what else the machine does.
"""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cascadia.exits.timing import Timing
from cascadia.ramps.ramp import Ramp
from cascadia.ramps.segments import CHANCES, DOUBT, LABEL, alone, segments
from cascadia.ramps.session import open_session

if TYPE_CHECKING:
    from onnx import ModelProto

ROUNDS = 30
BATCHES = (1, 2, 4, 8, 16)
"""Sizes that are measured."""


def measured(
    model: "ModelProto", ramps: Sequence[Ramp], batches: Sequence[Mapping[str, Any]]
) -> tuple[Timing, ...]:
    """One timing for each of `batches`, the model's inputs."""
    parts = [open_session(part) for part in segments(model, ramps)]
    apart = [open_session(alone(model, ramp)) for ramp in ramps]
    return tuple(_timing(parts, apart, ramps, model.graph.output[0].name, batch) for batch in batches)


def _timing(
    parts: Sequence[Any], apart: Sequence[Any], ramps: Sequence[Ramp], output: str, batch: Mapping[str, Any]
) -> Timing:
    given = dict(batch)
    whole, extra = [], []
    for at, session in enumerate(parts):
        end = ramps[at].tensor if at < len(ramps) else output
        whole.append(_seconds(session, [end], given))
        if at < len(ramps):
            given[end] = session.run([end], _taken(session, given))[0]
            extra.append(_seconds(apart[at], [CHANCES, LABEL, DOUBT], given))
    return Timing(len(next(iter(batch.values()))), tuple(whole), tuple(extra))


def _seconds(session: Any, names: list[str], given: Mapping[str, Any]) -> float:
    """The median of the CPU time of `ROUNDS` runs, after two that do not count."""
    feeds, found = _taken(session, given), []
    for _ in range(ROUNDS + 2):
        start = time.thread_time()
        session.run(names, feeds)
        found.append(time.thread_time() - start)
    return float(np.median(found[2:]))


def _taken(session: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    wanted = {value.name for value in session.get_inputs()}
    return {name: part for name, part in given.items() if name in wanted}
