"""Calibrations that each stage's times rest on, pool by pool, and how far the plan goes beyond what was
measured.
"""

from collections.abc import Iterator
from itertools import accumulate

import numpy as np

from cascadia.domain.plan import PoolCalibration, StageCalibration
from cascadia.domain.problem import Problem
from cascadia.planner.account.verdicts import asked_of, reads_of
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.deployment.options import Mix
from cascadia_sim.cascade.cascade import CascadeRun
from cascadia_sim.cascade.stage import StageRun
from cascadia_sim.engine.results import present
from cascadia_sim.evidence.range import Use, beyond
from cascadia_sim.evidence.standing import Standing, standing_of
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.timing import Ints
from cascadia_sim.models.architecture import Architecture

CONTEXT_SHARE = 0.99
"""Of a stage's requests, whose longest context counts: a lone long request is not what a quantile rests on."""


def standing_on(problem: Problem, stage: int, pool: str) -> Standing:
    """Standing of a stage's times on a pool; `JUDGE` is the judge's."""
    architecture, config = model_of(problem, stage)
    return standing_of(architecture, problem.cluster.pool(pool).hardware, config)


def model_of(problem: Problem, stage: int) -> tuple[Architecture, EngineConfig]:
    """Model that replicas of a stage, or of a judge with GPUs, load and how they are set up."""
    if stage != JUDGE:
        return problem.stages[stage].built, problem.stages[stage].config
    judge = problem.judge
    assert judge.architecture is not None
    assert judge.config is not None
    return judge.architecture, judge.config


def calibrations_of(problem: Problem, deployment: Deployment, run: CascadeRun) -> dict[str, StageCalibration]:
    """Calibrations by stage; a judge with GPUs under `judge`. `run` is the deployment's simulation, which says
    how it is used.
    """
    found = {}
    for stage, mix in sorted(deployment.mixes):
        if mix:
            name = "judge" if stage == JUDGE else problem.stages[stage].name
            found[name] = _stage(problem, stage, mix, run)
    return found


def _stage(problem: Problem, stage: int, mix: Mix, run: CascadeRun) -> StageCalibration:
    shares = {pool: sum(r.count / r.level for r in mix if r.shape.pool == pool) for pool in _pools(mix)}
    busiest = max(shares, key=lambda pool: shares[pool])
    first, *others = (
        _pool(problem, stage, mix, pool, run) for pool in sorted(shares, key=lambda p: p != busiest)
    )
    fields = {name: getattr(first, name) for name in PoolCalibration.__dataclass_fields__}
    return StageCalibration(**fields, others=tuple(others))


def _pool(problem: Problem, stage: int, mix: Mix, pool: str, run: CascadeRun) -> PoolCalibration:
    s = standing_on(problem, stage, pool)
    c = s.calibration
    uses = _uses(problem, stage, mix, pool, run)
    return PoolCalibration(
        pool=pool,
        calibration=c.name,
        gpu=c.gpu,
        engine=c.engine,
        version=c.engine_version,
        precision=c.precision,
        served=s.basis in ("own", "served"),
        basis=s.basis,
        match=s.match,
        error_tpot=round(s.error_tpot, 4),
        error_ttft=round(s.error_ttft, 4),
        held_out=s.held_out,
        beyond=tuple(dict.fromkeys(phrase for use in uses for phrase in beyond(use, c.valid))),
    )


def _uses(problem: Problem, stage: int, mix: Mix, pool: str, run: CascadeRun) -> Iterator[Use]:
    """One for each shape of the stage on `pool`."""
    architecture, _ = model_of(problem, stage)
    visited, prompts, contexts = _lengths(problem, stage, run)
    if visited is None or not len(prompts):
        return
    longest = int(np.quantile(contexts, CONTEXT_SHARE, method="inverted_cdf"))
    peaks = _most_decoding(visited, sum(r.count for r in mix))
    ends = list(accumulate(r.count for r in mix))
    for r, end in zip(mix, ends, strict=True):
        if r.shape.pool == pool:
            timing = r.shape.timing
            batch = min(max(peaks[end - r.count : end], default=0), timing.max_num_seqs)
            tokens = min(timing.max_num_batched_tokens, int(prompts.max()) + batch)
            yield Use(r.shape.tp, architecture.parameters, tokens, batch, longest)


def _lengths(problem: Problem, stage: int, run: CascadeRun) -> tuple[StageRun | None, Ints, Ints]:
    """The stage's own run, its prompts, and its contexts at the last token."""
    w, none = problem.workload, np.zeros(0, np.int64)
    if stage != JUDGE:
        visits = next((v for v in run.stages if v.stage == stage), None)
        if visits is None:
            return None, none, none
        prompts = w.input_tokens[stage][visits.requests]
        return visits.run, prompts, prompts + w.output_tokens[stage][visits.requests]
    verdicts = run.verdicts
    if verdicts is None or verdicts.run is None:
        return None, none, none
    prompts = reads_of(problem, verdicts)
    wrote = asked_of(problem, verdicts) * problem.judge.output_tokens
    return verdicts.run, prompts, prompts + wrote


def _most_decoding(run: StageRun, replicas: int) -> list[int]:
    """Most sequences of each replica that were between first and last token at once."""
    found = []
    for replica in range(replicas):
        mine = run.replica == replica
        began = run.first_token_ps[mine]
        found.append(int(present(began, run.finish_ps[mine], began).max(initial=0)))
    return found


def _pools(mix: Mix) -> list[str]:
    return list(dict.fromkeys(r.shape.pool for r in mix))
