"""Check that a spec and a plan are of the same fleet: made when a controller starts, not when it first plans
anew.

From the spec comes each next plan, from the plan what runs. A plan may take fewer GPUs than the spec has; it was made
for fewer, or while some were away.
"""

from collections.abc import Iterator
from pathlib import Path

from cascadia.domain.errors import BadInput
from cascadia.domain.plan import Plan
from cascadia.files.plan_file import read_plan
from cascadia.planner.problem.cluster import build_cluster
from cascadia.planner.spec.file import answers_in_one_pass, read_policy_spec, read_spec
from cascadia.planner.spec.model import Spec
from cascadia.planner.spec.policy import PolicySpec

INSTEAD = "give the spec that this plan was made from, or plan anew from this one"


def check_agreement(spec: Path, plan: Path) -> None:
    """Raises `BadInput` where they are not of the same stages, models, judge, pools and GPUs."""
    found = read_plan(plan)
    if answers_in_one_pass(spec):
        differences = _in_one_pass(read_policy_spec(spec), found, spec.parent)
    else:
        differences = _differences(read_spec(spec), found, spec.parent, spec.name)
    for what in differences:
        raise BadInput(f"{spec.name} and the plan {plan}", what, INSTEAD)


def _in_one_pass(spec: PolicySpec, plan: Plan, folder: Path) -> Iterator[str]:
    """The same of models that answer in one pass: a plan has them by accuracy, and their paths whole."""
    theirs, ours = ({stage.name: stage for stage in stages} for stages in (spec.stages, plan.stages))
    if set(theirs) != set(ours):
        yield f"have other stages ({', '.join(theirs)}; {', '.join(ours)})"
        return
    for name, stage in theirs.items():
        if str((folder / (stage.model or "")).resolve()) != ours[name].model:
            yield f"have other models for {name} ({stage.model}; {ours[name].model})"
        if stage.task != ours[name].task:
            yield f"have other tasks for {name} ({stage.task}; {ours[name].task})"
    workers = {worker.kind: worker for worker in spec.workers}
    for name, count in sorted(plan.gpus_by_pool().items()):
        if count and name not in workers:
            yield f"have other workers ({', '.join(sorted(workers))}; {name})"
        elif count and count > workers[name].most:
            yield f"do not fit: there are {workers[name].most} workers {name}, the plan takes {count}"


def _differences(spec: Spec, plan: Plan, folder: Path, file: str) -> Iterator[str]:
    """Differences in words, the gravest first."""
    theirs, ours = [stage.name for stage in spec.stages], [stage.name for stage in plan.stages]
    if theirs != ours:
        yield f"have other stages ({', '.join(theirs)}; {', '.join(ours)})"
        return
    for one, other in zip(spec.stages, plan.stages, strict=True):
        if one.model != other.model:
            yield f"have other models for {one.name} ({one.model}; {other.model})"
    judge = "llm" if spec.judge.kind == "external" else spec.judge.kind
    if judge != plan.judge.kind:
        yield f"have other judges ({judge}; {plan.judge.kind})"
    elif plan.judge.replicas and spec.judge.model != plan.judge.model:
        yield f"have other models for the judge ({spec.judge.model}; {plan.judge.model})"
    pools = {pool.name: pool for pool in build_cluster(spec.cluster, folder, file).cluster.pools}
    for name, gpus in sorted(plan.gpus_by_pool().items()):
        if not gpus:
            continue
        planned = plan.cluster.pool(name)
        if name not in pools:
            yield f"have other pools ({', '.join(sorted(pools))}; {name})"
        elif pools[name].gpu != planned.gpu:
            yield f"have other GPUs in pool {name} ({pools[name].gpu}; {planned.gpu})"
        elif gpus > pools[name].gpus:
            yield f"do not fit: pool {name} has {pools[name].gpus} GPUs, the plan takes {gpus}"
