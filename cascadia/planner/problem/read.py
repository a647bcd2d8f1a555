"""Reading of a spec file into the planner's input: everything it names is looked up, read and joined."""

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cascadia.domain.errors import BadInput
from cascadia.domain.objective import WITHIN, Objective, UnderLoad
from cascadia.domain.plan import ExitPromise, WorkloadRules
from cascadia.domain.problem import Foresight, Judge, Problem, Stage
from cascadia.files.homes import named_path
from cascadia.planner.problem.calibration import calibration_path, check_on_cluster
from cascadia.planner.problem.cluster import build_cluster, with_names
from cascadia.planner.problem.join import Context, at_rate, join
from cascadia.planner.problem.judge import build_judge, check_probe
from cascadia.planner.problem.models import build_stages, config_path
from cascadia.planner.problem.points import Named, read_points
from cascadia.planner.problem.scores import judge_notes
from cascadia.planner.problem.trace_file import file_digest
from cascadia.planner.spec.file import read_spec
from cascadia.planner.spec.model import PoolSpec, Spec, WorkloadSpec
from cascadia.planner.spec.models import StageSpec
from cascadia.planner.spec.objective import ObjectiveSpec
from cascadia_traces import errors as trace_errors
from cascadia_traces.formats.reading import read_trace
from cascadia_traces.trace import Trace

_LATER = ("levels", "preset")
"""Keys of the objective that do not count in the digest where they say nothing: older specs keep theirs."""


def read_problem(path: str | Path, change: Callable[[Spec], Spec] = lambda spec: spec) -> Problem:
    """The problem in the spec file `path`, after `change` (e.g. by flags of a command)."""
    read, folder, file = read_spec(path), Path(path).parent, Path(path).name
    named = with_names(read.cluster, folder)
    spec = change(read.model_copy(update={"cluster": named}))
    unsaid = {pool.name for pool in named.pools} - {pool.name for pool in read.cluster.pools}
    try:
        return build_problem(spec, folder, file, unsaid)
    except OSError as error:
        what = f"names a file that cannot be read ({error.strerror or type(error).__name__})"
        raise BadInput(file, what, "give paths of files that are there") from error


def build_problem(spec: Spec, folder: Path, file: str, unsaid: Collection[str | None] = ()) -> Problem:
    """`spec` as a problem: its relative paths start at `folder`, errors name `file`. Names of pools that are `unsaid`
    there do not count in its digest."""
    stages = build_stages(spec.stages, folder, file)
    cluster, gpu_files, unmeasured = build_cluster(spec.cluster, folder, file)
    judge, notes = build_judge(spec.judge, folder, file)
    check_probe(judge, stages, file)
    for index, stage in enumerate(stages):
        check_on_cluster(stage.config, cluster, f"{file}: stages[{index}]")
    check_on_cluster(judge.config, cluster, f"{file}: judge")
    table_path = named_path(folder, spec.quality.table)
    trace_path = named_path(folder, spec.workload.trace)
    asides: list[str] = []
    named_points = [Named(stage.name, stage.exits, stage.budget_field is not None) for stage in stages]
    heads = None if spec.quality.foresight is None else named_path(folder, spec.quality.foresight)
    table, points = read_points(table_path, named_points, spec.quality.scale, asides.append, heads)
    asides += judge_notes(table, judge, table_path.name)
    promise = None if points is None or spec.exits is None else spec.exits
    asides += () if promise is None else promise.notes
    unused: tuple[str, ...] = ()
    foresight: Foresight | None = None
    foreseen_by = [] if heads is None else [heads]
    for foresight_path in foreseen_by:
        from cascadia.planner.problem.foresight import with_foresight

        table, foresight = with_foresight(table, foresight_path)
    if foresight is None and judge.kind != "embedding":
        _check_foreseen(named_points, judge, file)
    if foresight is None and table.foreseen is not None and judge.kind != "embedding":
        table = replace(table, foreseen=None)
        unused = (
            f"column foreseen of {table_path.name} is not used: a judge of kind {judge.kind} foresees nothing",
        )
    trace, oddities = _read_trace(trace_path, spec.workload, spec.seed, file)
    workload, cuts = join(
        trace,
        table,
        seed=spec.seed,
        lengths=spec.workload.lengths,
        contexts=tuple(_context(stage) for stage in stages),
        max_input_tokens=spec.workload.max_input_tokens,
        overlong=spec.workload.overlong,
        where=str(trace_path),
    )
    hosted = judge.model if judge.placement == "self-hosted" else None
    models = [*(stage.model for stage in stages if stage.architecture), *([hosted] if hosted else [])]
    named = [config_path(model, folder) for model in models]
    named += [calibration_path(part.calibration, folder) for part in (*spec.stages, spec.judge)]
    others = [path for path in named if path is not None]
    allowed = spec.under_load
    return Problem(
        stages=stages,
        cluster=cluster,
        judge=judge,
        workload=workload,
        quality=table,
        objective=_objective(spec.objective),
        confidence=spec.quality.confidence,
        seed=spec.seed,
        digest=_digest(_said(spec, unsaid), [trace_path, table_path, *foreseen_by, *others, *gpu_files]),
        notes=notes + unmeasured + tuple(asides) + unused + oddities + cuts,
        foresight=foresight,
        gears=spec.gear_count,
        gear_rule=spec.gear_rule,
        under_load=UnderLoad(allowed.quality_floor, allowed.then) if allowed else None,
        points=points,
        exits=None if promise is None else ExitPromise(promise.risk, promise.confidence, promise.shadow),
        rules=_rules(trace_path, spec.workload),
    )


def _check_foreseen(stages: Sequence[Named], judge: Judge, file: str) -> None:
    """Raises `BadInput` where a question decides about exits, and nobody will look at it while serving."""
    at = next((index for index, stage in enumerate(stages) if stage.asks), None)
    if at is not None:
        raise BadInput(
            f"{file}: stages[{at}].exits",
            f"are chosen by the question, and a judge of kind {judge.kind} foresees nothing of it",
            "add quality.foresight, a file of `cascadia judge train --foresight`, or use a judge of kind embedding",
        )


def _rules(trace: Path, wanted: WorkloadSpec) -> WorkloadRules:
    return WorkloadRules(
        file_digest(trace),
        wanted.rate_rps,
        wanted.lengths,
        wanted.max_requests,
        wanted.max_input_tokens,
        wanted.overlong,
    )


def _context(stage: Stage) -> Context:
    return Context(stage.name, stage.max_model_len)


def _objective(spec: ObjectiveSpec) -> Objective:
    quality_min = 0.0 if spec.goal == "latency" and spec.quality_min is None else spec.quality_min
    within = WITHIN if spec.within is None else spec.within
    return Objective(spec.goal, spec.quantile, quality_min, spec.latency_max_s, within, spec.kept)


def _read_trace(path: Path, wanted: WorkloadSpec, seed: int, file: str) -> tuple[Trace, tuple[str, ...]]:
    """The trace as wanted, and what its reader had to change."""
    notes: list[str] = []
    try:
        trace = read_trace(path, wanted.format, seed=seed, note=notes.append)
        if wanted.max_requests is not None:
            trace = trace.rows(0, min(wanted.max_requests, len(trace)))
        trace = at_rate(trace, wanted.rate_rps, str(path))
    except trace_errors.BadInput as error:
        where = f"{file}: workload.{error.where}" if error.where in WorkloadSpec.model_fields else error.where
        raise BadInput(where, error.what, error.instead) from None
    return trace, tuple(notes)


def _said(spec: Spec, unsaid: Collection[str | None]) -> Spec:
    pools = (p.model_copy(update={"name": None}) if p.name in unsaid else p for p in spec.cluster.pools)
    return spec.model_copy(update={"cluster": spec.cluster.model_copy(update={"pools": tuple(pools)})})


def _unsaid_of_pool(pool: PoolSpec) -> set[str]:
    return {key for key, usual in (("spot", None), ("rent", "node")) if getattr(pool, key) == usual}


def _unsaid_of_exits(stage: StageSpec) -> dict[str, Any]:
    by_answer = {"exits_by": True} if stage.exits_by == "answer" else {}
    if not stage.exits and by_answer:
        return by_answer | {"exits": True}
    return by_answer | {
        "exits": {at: {"foreseen"} for at, each in enumerate(stage.exits) if each.foreseen is None}
    }


def _digest(spec: Spec, inputs: list[Path]) -> str:
    """SHA-256 of the spec in canonical form and of every input's content, wherever the files lie."""
    # What is said of gears counts only where there are any: a plan without is the same as ever.
    unsaid: dict[str, Any] = {"objective": {key for key in _LATER if getattr(spec.objective, key) is None}}
    unsaid["cluster"] = {"pools": dict(enumerate(map(_unsaid_of_pool, spec.cluster.pools)))}
    if spec.gear_count == 1:
        unsaid |= {"gears": True} | ({"under_load": True} if spec.under_load is None else {})
    if spec.exits is None:
        unsaid["exits"] = True
    unsaid["stages"] = {at: _unsaid_of_exits(stage) for at, stage in enumerate(spec.stages)}
    digest = hashlib.sha256(spec.model_dump_json(exclude=unsaid).encode())
    for path in inputs:
        digest.update(bytes.fromhex(file_digest(path)))
    return digest.hexdigest()
