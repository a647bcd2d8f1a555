"""The spec of one-pass models, its latency table and its traffic, as the problem that is solved."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cascadia.domain.errors import BadInput
from cascadia.domain.names import LayerExit, point_of
from cascadia.domain.workload import Floats
from cascadia.files.homes import named_path
from cascadia.files.text import read_text
from cascadia.planner.policies.residence import Kind
from cascadia.planner.policies.wanted import MOST, Wanted, lasts_s, long_enough
from cascadia.planner.problem.quality_format import read_arrow
from cascadia.planner.problem.trace_file import read_trace_for
from cascadia.planner.spec.file import read_policy_spec
from cascadia.planner.spec.policy import OnePassStage, PolicySpec
from cascadia.policy.problem import ModelProfile
from cascadia_sim.engine.requests import picoseconds

COLUMNS = ("stage", "batch", "latency_s")
FEWEST = 100
FEWEST_SLOS = 10.0
"""The same of traffic so dense that `MOST` requests last no longer."""
UNSEEN = 4
"""Drawn requests by which policies are judged, of those that they are made on."""
MAX_BYTES = 10_000_000


class Asked(NamedTuple):
    """`texts` are those that each model's accuracy was measured on, where that is known; `notes` are what the trace's
    reader had to change."""

    spec: PolicySpec
    kinds: tuple[Kind, ...]
    wanted: Wanted
    texts: dict[str, int]
    notes: tuple[str, ...]

    @property
    def group(self) -> str:
        return self.spec.group


def read_asked(path: Path, change: Callable[[PolicySpec], PolicySpec] = lambda spec: spec) -> Asked:
    """Raises `BadInput`; paths in the spec are relative to its own folder. `change` puts other values into the spec."""
    spec = change(read_policy_spec(path))
    table = named_path(path.parent, spec.latency)
    kinds = read_kinds(spec, table)
    arrival_s, unseen_s, notes = _arrivals(spec, path.parent)
    # Before its half seconds are counted: those of a trace with one wrong year fill the memory.
    picoseconds(arrival_s if unseen_s is None else unseen_s)
    objective = spec.objective
    wanted = Wanted(
        arrival_s,
        slo_s=objective.latency_max_s,
        late_max=objective.late_max,
        accuracy_min=objective.quality_min,
        late=objective.late,
        variable=spec.batching == "variable",
        unseen_s=unseen_s,
    )
    lasts_s = float(wanted.judged_s[-1] - wanted.judged_s[0])
    if lasts_s < FEWEST_SLOS * wanted.slo_s:
        raise BadInput(
            "workload",
            f"has {wanted.rate_rps:g} requests/s, of which the {len(wanted.judged_s):,} that are played last "
            f"{lasts_s:.3g} s: too little to see what is late after {wanted.slo_s:g} s",
            "plan for a part of the traffic, on as small a part of the workers",
        )
    return Asked(spec, kinds, wanted, _texts(spec, table), notes)


def read_kinds(spec: PolicySpec, table: Path) -> tuple[Kind, ...]:
    """Profiles from the table: for each kind of worker and stage the latency of batches of 1, 2, ...

    Batch sizes that were not measured lie on the line between the two beside them.
    """
    names = tuple(worker.kind for worker in spec.workers)
    if table.suffix == ".json":
        measured, accuracy = _by_engine(table, names)
        drawn = _drawn(table)
    else:
        measured, accuracy, drawn = _measured(table, names), {}, {}
    kinds = []
    for worker in spec.workers:
        models, points = [], []
        for stage in spec.stages:
            sizes = measured.get((worker.kind, stage.name)) or measured.get((worker.kind, own_name(stage)))
            if not sizes:
                raise BadInput(
                    str(table),
                    f"has no row of stage {stage.name!r} on worker {worker.kind!r}",
                    "measure it, or leave the stage out",
                )
            found = accuracy.get(stage.name, accuracy.get(own_name(stage)))
            right = found if stage.accuracy is None else stage.accuracy
            if right is None:
                raise BadInput(
                    f"stages: {stage.name!r}", "says no accuracy", "add `accuracy: <0-100>`, or measure it"
                )
            latency_s = _filled(sizes, str(table), stage.name)
            drawn_s = drawn.get(stage.name) or drawn.get(own_name(stage)) or ()
            if (documents := spec.workload.documents) is not None:
                latency_s = _of_a_ranking(latency_s, documents, str(table), stage.name)
                drawn_s = drawn_s[documents : documents + 1]
            models.append(_profile(table, stage.name, right, latency_s, drawn_s))
            for name, at in _exits(stage, [of for kind, of in measured if kind == worker.kind], table):
                if name not in accuracy:
                    raise BadInput(str(table), f"says no accuracy of {name!r}", "measure it as a classifier")
                latency_s = _filled(measured[worker.kind, name], str(table), name)
                points.append(
                    _profile(table, f"{stage.name}{at}", accuracy[name], latency_s, drawn.get(name, ()))
                )
        takes_gib = tuple(stage.memory_gib or 0.0 for stage in spec.stages)
        kinds.append(
            Kind(
                worker.kind, tuple(models), worker.most, worker.usd_per_hour,
                memory_gib=worker.memory_gib, takes_gib=takes_gib if worker.memory_gib is not None else (),
                exits=tuple(points),
            )
        )  # fmt: skip
    return tuple(kinds)


def _exits(stage: OnePassStage, measured: Iterable[str], table: Path) -> list[tuple[str, LayerExit]]:
    """Exits of `stage` among what was measured, with their names there. Raises `BadInput` for a layer without any."""
    points = [(name, *point_of(name)) for name in measured]
    own = [(name, at) for name, of, at in points if at is not None and of in (stage.name, own_name(stage))]
    layers = [each.layer for each in stage.exits]
    for layer in layers:
        if all(at.layer != layer for _, at in own):
            raise BadInput(
                str(table),
                f"has no exit of stage {stage.name!r} behind layer {layer}",
                "measure them, with `cascadia engine measure --exits`",
            )
    return [(name, at) for name, at in own if at.layer in layers]


def own_name(stage: OnePassStage) -> str:
    """The name of the stage's model where it is measured: the name of its folder."""
    return Path(stage.model).name if stage.model is not None else stage.name


def _texts(spec: PolicySpec, table: Path) -> dict[str, int]:
    if table.suffix != ".json":
        return {}
    models = json.loads(read_text(table, MAX_BYTES))["models"]
    try:
        texts = {str(model["name"]): _whole(model.get("texts", 0)) for model in models}
    except (ValueError, TypeError, OverflowError):
        raise BadInput(str(table), "has texts that are no whole number", "measure anew") from None
    if min(texts.values(), default=0) < 0:
        raise BadInput(str(table), "has fewer than no texts", "measure anew")
    every = {stage.name: texts.get(stage.name, texts.get(own_name(stage), 0)) for stage in spec.stages}
    for stage in spec.stages:
        every |= {f"{stage.name}{at}": texts[name] for name, at in _exits(stage, texts, table)}
    return {name: count for name, count in every.items() if count}


def _measured(table: Path, kinds: tuple[str, ...]) -> dict[tuple[str, str], dict[int, float]]:
    rows = read_arrow(table, COLUMNS)
    for name in COLUMNS:
        if name not in rows.column_names:
            raise BadInput(str(table), f"has no column {name!r}", f"write columns {', '.join(COLUMNS)}")
    if "worker" not in rows.column_names and len(kinds) > 1:
        raise BadInput(str(table), "does not say which worker a row is of", "add the column worker")
    found: dict[tuple[str, str], dict[int, float]] = {}
    for at, row in enumerate(rows.to_pylist(), start=1):
        where = f"{table}: row {at}"
        try:
            size, latency_s = _whole(row["batch"]), float(row["latency_s"])
        except (TypeError, ValueError, OverflowError):
            raise BadInput(
                where, "batch must be a whole number, latency_s a number", "write e.g. 8 and 0.012"
            ) from None
        if not 1 <= size <= 4096 or not 0 < latency_s < 3600:
            raise BadInput(
                where, f"a batch of {size} in {latency_s:g} s", "write a batch of 1-4096 and seconds above 0"
            )
        sizes = found.setdefault((str(row.get("worker", kinds[0])), str(row["stage"])), {})
        if size in sizes:
            raise BadInput(
                where, f"a second latency of batch {size} of stage {row['stage']!r}", "keep one of them"
            )
        sizes[size] = latency_s
    return found


def _whole(value: float | str) -> int:
    """Raises `ValueError` for a part of a batch, which would be another batch's time."""
    if float(value) != int(value):
        raise ValueError(value)
    return int(value)


def _by_engine(
    file: Path, kinds: tuple[str, ...]
) -> tuple[dict[tuple[str, str], dict[int, float]], dict[str, float]]:
    """Latencies at their 95th percentile, as RAMSIS section 6 takes them, and accuracies."""
    if len(kinds) > 1:
        raise BadInput(
            str(file), "is of one machine, and workers are of several kinds", "write a table with worker"
        )
    try:
        models = json.loads(read_text(file, MAX_BYTES))["models"]
        names = [str(model["name"]) for model in models]
        sizes = {
            (kinds[0], str(model["name"])): {at: float(s) for at, s in enumerate(model["p95_s"], start=1)}
            for model in models
        }
        accuracy = {
            str(model["name"]): float(model["accuracy"]) for model in models if model["accuracy"] is not None
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadInput(
            str(file), "is not what `cascadia engine measure --out` writes", "measure anew, or name a table"
        ) from None
    if len(sizes) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInput(str(file), f"has {twice!r} twice", "keep one of them")
    if any(not 0 < latency_s < 3600 for row in sizes.values() for latency_s in row.values()):
        raise BadInput(str(file), "has latencies that are not above 0", "measure anew")
    return sizes, accuracy


Times = tuple[tuple[float, ...], ...]


def _drawn(file: Path) -> dict[str, Times]:
    """Times of each batch size, where the file has them: one of an earlier version has not."""
    models = json.loads(read_text(file, MAX_BYTES))["models"]
    try:
        found = {
            str(model["name"]): tuple(tuple(map(float, times_s)) for times_s in model["drawn_s"])
            for model in models
            if model.get("drawn_s")
        }
    except (ValueError, TypeError):
        raise BadInput(str(file), "has drawn_s that are not lists of numbers", "measure anew") from None
    every = [times_s for sizes in found.values() for times_s in sizes]
    if any(not 0 < at_s < 3600 for times_s in every for at_s in times_s):
        raise BadInput(str(file), "has drawn_s that are not above 0", "measure anew")
    # One draw is of all models: the times of a table were measured together.
    if len({len(times_s) for times_s in every}) > 1 or not all(every):
        raise BadInput(str(file), "has not as many drawn_s for all batch sizes and models", "measure anew")
    return found


def _profile(
    table: Path, stage: str, accuracy: float, latency_s: tuple[float, ...], drawn_s: Times
) -> ModelProfile:
    try:
        return ModelProfile(stage, accuracy, latency_s, drawn_s)
    except ValueError as error:
        raise BadInput(str(table), str(error), "measure anew") from None


def _filled(sizes: dict[int, float], where: str, stage: str) -> tuple[float, ...]:
    known = sorted(sizes)
    if known[0] != 1:
        raise BadInput(where, f"has no batch of 1 of stage {stage!r}", "measure single requests too")
    every = np.interp(np.arange(1, known[-1] + 1), known, [sizes[size] for size in known])
    # A larger batch that was measured to be faster was measured on another day.
    return tuple(float(latency_s) for latency_s in np.maximum.accumulate(every))


def _of_a_ranking(latency_s: tuple[float, ...], documents: int, where: str, stage: str) -> tuple[float, ...]:
    """A ranking is served alone: its query and documents are the engine's batch."""
    if documents >= len(latency_s):
        raise BadInput(
            where,
            f"has batches of up to {len(latency_s)} of stage {stage!r}, and a ranking of {documents} documents and "
            f"their query is one of {documents + 1}",
            "measure so many, in a table with stage, batch, latency_s, or lower workload.documents",
        )
    return latency_s[documents : documents + 1]


def _arrivals(spec: PolicySpec, folder: Path) -> tuple[Floats, Floats | None, tuple[str, ...]]:
    """Requests that policies are made on, those that they are judged by (None: the same), and notes."""
    asked = spec.workload
    if asked.trace is None:
        assert asked.rate_rps is not None
        lasting = round(lasts_s(spec.objective.latency_max_s) * asked.rate_rps)
        count = min(max(asked.requests, lasting), MOST)
        made, judged = (
            np.cumsum(rng.gamma(asked.gap_shape, 1 / asked.gap_shape, size)) / asked.rate_rps
            for rng, size in zip(
                np.random.default_rng(spec.seed).spawn(2), (count, min(UNSEEN * count, MOST)), strict=True
            )
        )
        return made, judged, ()
    trace, notes = read_trace_for(named_path(folder, asked.trace), asked.format, asked.rate_rps, spec.seed)
    arrival_s = np.asarray(trace.arrival_s, np.float64)
    if len(arrival_s) < FEWEST or arrival_s[-1] <= arrival_s[0]:
        raise BadInput(
            str(asked.trace), f"has {len(arrival_s)} requests", f"take a trace of at least {FEWEST}"
        )
    once_s = float(arrival_s[-1] - arrival_s[0])
    arrival_s, rounds = long_enough(arrival_s, spec.objective.latency_max_s)
    if rounds == 1:
        return arrival_s, None, notes
    told = f"{asked.trace} lasts {once_s:.3g} s; it was played {rounds:,} times, one after the other"
    return arrival_s, None, (*notes, told)
