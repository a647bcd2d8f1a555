"""A plan in Python: made of a spec or read from a folder, looked at as tables, tried on traffic, set beside others."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from functools import partial
from math import inf
from numbers import Integral
from pathlib import Path
from typing import Literal, get_args

import pandas as pd

from cascadia.domain import plan as domain
from cascadia.domain.deadline import TIME_LIMIT_S, Deadline
from cascadia.domain.errors import BadInput
from cascadia.domain.objective import Level
from cascadia.files.plan_file import read_plan as read_plan_file
from cascadia.files.plan_file import write_plan
from cascadia.frames.comparisons import comparison_frame
from cascadia.frames.inputs import is_above_0, is_whole
from cascadia.frames.results import Asked, simulated
from cascadia.planner.baselines.compare import compare
from cascadia.planner.plan import open_search
from cascadia.planner.plan import plan as make_plan
from cascadia.planner.problem.read import read_problem
from cascadia.planner.refinement.refine import effort_for
from cascadia.planner.search.solver import Formulation
from cascadia.planner.spec.overrides import Overrides
from cascadia.planner.thinning import REQUESTS, planned_on_part

Progress = Callable[[str], None]

LEVELS = "write e.g. [{'metric': 'ttft', 'quantile': 0.95, 'max_s': 0.5}]"


def silent(_: str) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan. `plan` has every field of its plan.json, `notes` what there is to tell beside it; `folder` is where
    relative paths in it start. `spec` and `change` are what it was made of; None where it was read from a file."""

    plan: domain.Plan
    notes: tuple[str, ...]
    _: KW_ONLY
    folder: Path
    spec: Path | None = None
    change: Overrides | None = None

    @property
    def thresholds(self) -> dict[str, float]:
        """Score, 0-100, from which each stage's answer is accepted; the last stage's always is, and has none."""
        return dict(zip((stage.name for stage in self.plan.stages[:-1]), self.plan.thresholds, strict=True))

    @property
    def latency_s(self) -> float:
        """Predicted latency end to end at the objective's quantile, in seconds."""
        return self.plan.predicted.objective_s

    @property
    def quality(self) -> float:
        """Mean quality, 0-100, that holds with the plan's confidence."""
        return self.plan.predicted.quality.lower

    @property
    def usd_per_hour(self) -> float:
        """Price of the plan's GPUs in $/h."""
        return self.plan.predicted.usd_per_hour

    @property
    def gpus(self) -> int:
        """GPUs of all stages and the judge."""
        return self.plan.gpus

    def to_frame(self) -> pd.DataFrame:
        """One row a stage, the judge last where it has GPUs: `model`, `engine`, `replicas` (such as 2 × TP8), `gpus`,
        `threshold`, `reached` and `accepted` (shares of all requests), `p50_s`, `p95_s`, `p99_s`, `ttft_p95_s` and
        `load` (share of what its replicas sustain)."""
        predicted = {stage.name: stage for stage in self.plan.predicted.stages}
        rows: list[tuple[str, domain.Deployed, domain.StagePrediction | None]] = [
            (stage.name, stage, predicted.get(stage.name)) for stage in self.plan.stages
        ]
        if self.plan.judge.deployed:
            rows.append(("judge", self.plan.judge, self.plan.predicted.judge))
        columns = [_row(stage, told, self.thresholds.get(name)) for name, stage, told in rows]
        return pd.DataFrame(columns, index=pd.Index([name for name, *_ in rows], name="stage"))

    def simulate(
        self,
        trace: str | Path | pd.DataFrame,
        format: str | None = None,
        *,
        rate_rps: float | None = None,
        quality_table: str | Path | None = None,
        foresight: str | Path | None = None,
        seed: int | None = None,
    ) -> pd.DataFrame:
        """One row a request of `trace`, as `cascadia.simulate` gives it. Raises `BadInput`."""
        asked = Asked(format, rate_rps, quality_table, foresight, seed)
        return simulated(self.plan, self.folder, trace, asked)

    def compare(self, *, progress: Progress = silent) -> pd.DataFrame:
        """One row a system, Cascadia first, each given its best setting on the plan's own spec and simulated on the
        same requests, as `cascadia compare` does: `latency_s`, `slo_scale`, `max_rate_rps`, `usd_per_hour`,
        `usd_per_1k_requests`, `quality_mean`, `quality_lower`, `gpus`, `deployment`, and `why` where a system has no
        answer. Takes minutes. Raises `BadInput` for a plan that was read from a file."""
        if self.spec is None or self.change is None:
            raise BadInput(
                str(self.folder), "a written plan has no spec to compare on", "use cascadia.plan(SPEC)"
            )
        with open_search(read_problem(self.spec, self.change)) as search:
            return comparison_frame(
                compare(search, effort_for(search.problem.cluster), progress=lambda _, name: progress(name))
            )

    def write(self, path: str | Path) -> None:
        """Writes plan.json to `path`, a file or a folder that is there. `cascadia render` makes manifests of it."""
        target = Path(path)
        write_plan(self.plan, target / "plan.json" if target.is_dir() else target)


def plan(
    spec: str | Path,
    *,
    gpus: int | Mapping[str, int] | None = None,
    rate_rps: float | None = None,
    quality_min: float | None = None,
    latency_max_s: float | None = None,
    quantile: float | None = None,
    confidence: float | None = None,
    within: float | None = None,
    gears: int | None = None,
    levels: Iterable[Mapping[str, object]] = (),
    budget_usd_per_hour: float | None = None,
    pools: Literal["any"] | None = None,
    seed: int | None = None,
    formulation: Formulation = "columns",
    time_limit_s: float = TIME_LIMIT_S,
    plan_requests: int = REQUESTS,
    progress: Progress = silent,
) -> Plan:
    """The plan for `spec`, a cascade.yaml, as `cascadia plan` makes it. What is given stands in for the spec's own
    values; `gpus` is of its only pool, or by pool's name; `levels` are written as in a spec. After `time_limit_s` it is
    the best found by then, with a note on what was left out. `progress` hears, in words, what is being done.

    Raises `BadInput` for what cannot be read and `Infeasible` where no plan keeps the objective's bounds.
    """
    if time_limit_s != inf and not is_above_0(time_limit_s):
        raise BadInput("time_limit_s", f"{time_limit_s!r} is no number above 0", "write seconds, e.g. 300")
    deadline = Deadline(time_limit_s)
    if not is_whole(plan_requests, 1000):
        told = f"{plan_requests!r} is no whole number from 1000 on"
        raise BadInput("plan_requests", told, "write e.g. 30000")
    if formulation not in get_args(Formulation):
        known = ", ".join(get_args(Formulation))
        raise BadInput("formulation", f"{formulation!r} is none", f"write one of {known}")
    numbers: Iterable[object] = gpus.values() if isinstance(gpus, Mapping) else (gpus,)
    for given in numbers:
        if isinstance(given, bool) or not (given is None or isinstance(given, Integral)):
            raise BadInput("gpus", f"{given!r} is no whole number", "write e.g. 16, or {'h100': 16}")
    if not isinstance(levels, Iterable):
        raise BadInput("levels", f"{levels!r} is no list", LEVELS)
    sized = gpus.items() if isinstance(gpus, Mapping) else () if gpus is None else ((None, gpus),)
    change = Overrides(
        tuple(sized),
        rate_rps,
        quality_min,
        latency_max_s=latency_max_s,
        quantile=quantile,
        confidence=confidence,
        seed=seed,
        within=within,
        gears=gears,
        levels=tuple(map(_level, levels)),
        budget_usd_per_hour=budget_usd_per_hour,
        pools=pools,
        where="arguments",
    )
    path = Path(spec)
    make = partial(make_plan, formulation=formulation, progress=progress)
    found = planned_on_part(read_problem(path, change), make, plan_requests, deadline)
    return Plan(found.plan, found.notes, folder=path.parent, spec=path, change=change)


def _level(told: object) -> Level:
    """A level as a spec writes it; its values are checked with the spec's own."""
    if not isinstance(told, Mapping) or set(told) != {field.name for field in fields(Level)}:
        raise BadInput("levels", f"{told!r} is no level", LEVELS)
    return Level(**told)


def read_plan(path: str | Path) -> Plan:
    """The plan in the file `path`, or in a folder that `cascadia plan` wrote. Raises `BadInput`."""
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    return Plan(read_plan_file(path), (), folder=folder)


def _row(
    stage: domain.Deployed, told: domain.StagePrediction | None, threshold: float | None
) -> dict[str, object]:
    nan = float("nan")
    return {
        "model": stage.model,
        "engine": stage.engine,
        "replicas": " + ".join(_group(group) for group in stage.replicas),
        "gpus": stage.gpus,
        "threshold": nan if threshold is None else threshold,
        "reached": nan if told is None else told.reached,
        "accepted": nan if told is None else told.accepted,
        "p50_s": nan if told is None else told.latency.p50_s,
        "p95_s": nan if told is None else told.latency.p95_s,
        "p99_s": nan if told is None else told.latency.p99_s,
        "ttft_p95_s": nan if told is None else told.ttft.p95_s,
        "load": nan if told is None or told.load is None else told.load,
    }


def _group(group: domain.ReplicaGroup) -> str:
    return f"{group.count} × TP{group.tp}" + (f"·PP{group.pp}" if group.pp > 1 else "")
