"""Tokens that an engine takes in one iteration (`max_num_batched_tokens`), searched stage by stage.

With few of them long prompts are read in small pieces, and decoding waits less for each; with many they are read with
fewer iterations. (Sarathi-Serve section 4.2; Cascadia appendix F tunes it for each case.)
"""

from collections.abc import Iterator
from dataclasses import replace

from cascadia.domain.errors import BadInput, Infeasible
from cascadia.domain.problem import Judge, Problem, Stage
from cascadia.planner.allocation.demand import JUDGE, Replicas
from cascadia.planner.deployment.deployment import Deployment, deployment
from cascadia.planner.deployment.options import Mix
from cascadia.planner.search.context import Search, configured, longest_request
from cascadia.planner.tables.shapes import Shape
from cascadia_sim.iteration.build import DoesNotFit, InvalidShape, replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.speculation import Speculation

LADDER = (512, 1024, 2048, 4096, 8192, 16384)
FIRST = (-2, +1)
"""Steps on the ladder that are tried before it is known that any helps."""

GAIN = 0.02
"""A step has to make latency so much shorter; less is within what one trace's chances do."""


def other_budgets(search: Search, here: Deployment, *, few: bool) -> Iterator[Deployment]:
    """`here` with the engines of one stage, or of the judge, taking other numbers of tokens an iteration: all those of
    the ladder, or a `few`. Only of engines for which the spec names no number.
    """
    mixes = dict(here.mixes)
    for stage, mix in here.mixes:
        served = _served(search, stage)
        if not served.searches_batch_tokens or not mix:
            continue
        assert served.config is not None
        for tokens in _others(tokens_of(mix, served), served.config.max_num_seqs, few=few):
            if (changed := _with_budget(search, stage, mix, tokens)) is not None:
                yield deployment(here.routing, mixes | {stage: changed})


def engine_config(served: Stage | Judge, mix: Mix) -> EngineConfig:
    """Configuration of the engines of `mix`: as the spec says, with as many tokens an iteration, and drafts, as were
    chosen.
    """
    config = served.config or EngineConfig()
    if not mix:
        return config
    return replace(
        config, max_num_batched_tokens=tokens_of(mix, served), speculation=speculation_of(mix, served, config)
    )


def speculation_of(mix: Mix, served: Stage | Judge, config: EngineConfig) -> Speculation | None:
    """Speculation of the engines of `mix`: None where none of them drafts.

    A search may go on from engines that draft nothing, and choose some that do: what these draft is the spec's.
    """
    most = max(r.shape.timing.most_drafts for r in mix)
    if most == 0:
        return None
    allowed = (served.may_draft if isinstance(served, Stage) else None) or config.speculation
    assert allowed is not None
    return allowed if config.drafts_by_batch else replace(allowed, tokens=most)


def tokens_of(mix: Mix, served: Stage | Judge) -> int:
    """`max_num_batched_tokens` of the engines of `mix`, which have it in common; a rank's, as engines are told it."""
    assert served.config is not None
    return mix[0].shape.timing.max_num_batched_tokens // served.config.attention_dp


def rebudgeted(search: Search, chosen: Deployment) -> Search | None:
    """The search with the numbers of tokens that `chosen`'s engines take as those of its own; None where they are."""
    if takes_as(search, chosen):
        return None
    return configured(search, _as_chosen(search.problem, chosen))


def takes_as(search: Search, chosen: Deployment) -> bool:
    """Tells whether the engines of the search take as many tokens an iteration as `chosen`'s, and draft as many."""
    problem, changed = search.problem, _as_chosen(search.problem, chosen)
    return changed.stages == problem.stages and changed.judge == problem.judge


def _as_chosen(problem: Problem, chosen: Deployment) -> Problem:
    stages = tuple(
        replace(stage, config=engine_config(stage, chosen.mix(s))) for s, stage in enumerate(problem.stages)
    )
    judge = problem.judge
    if judge.config is not None:
        judge = replace(judge, config=engine_config(judge, chosen.judge))
    return replace(problem, stages=stages, judge=judge)


def with_fewest(search: Search) -> Search | None:
    """The search with the fewest tokens an iteration that its engines start with, where the spec leaves them open;
    None where that is its own.

    Pipelines are best with few, and no step to few from a deployment without them tells.
    """
    problem = search.problem
    stages = tuple(
        replace(s, config=_fewest(s.config)) if s.searches_batch_tokens else s for s in problem.stages
    )
    judge = problem.judge
    if judge.searches_batch_tokens and judge.config is not None:
        judge = replace(judge, config=_fewest(judge.config))
    if stages == problem.stages and judge == problem.judge:
        return None
    try:
        return configured(search, replace(problem, stages=stages, judge=judge))
    except (BadInput, Infeasible):
        return None


def _fewest(config: EngineConfig) -> EngineConfig:
    enough = [tokens for tokens in LADDER if tokens >= config.max_num_seqs]
    return replace(config, max_num_batched_tokens=min(config.max_num_batched_tokens, *enough))


def _served(search: Search, stage: int) -> Stage | Judge:
    return search.problem.judge if stage == JUDGE else search.problem.stages[stage]


def _others(tokens: int, least: int, *, few: bool) -> list[int]:
    """Others than `tokens`, of those with which an engine that runs `least` sequences starts."""
    at = min(range(len(LADDER)), key=lambda i: abs(LADDER[i] - tokens))
    places = [i for i in range(len(LADDER)) if LADDER[i] >= least and (not few or i - at in FIRST)]
    return [LADDER[i] for i in places if LADDER[i] != tokens]


def _with_budget(search: Search, stage: int, mix: Mix, tokens: int) -> Mix | None:
    """The mix with `tokens` an iteration; None where a replica would have no room, or its engine would not
    start.
    """
    try:
        config = replace(engine_config(_served(search, stage), mix), max_num_batched_tokens=tokens)
        return tuple(retimed(search, stage, r, config) for r in mix)
    except (DoesNotFit, InvalidShape):
        return None


def retimed(search: Search, stage: int, replicas: Replicas, config: EngineConfig) -> Replicas:
    """The same replicas with engines of another `config`; raises what `replica_timing` does."""
    shape = replicas.shape
    known: dict[object, Shape] = search.memory.setdefault("budgets", {})
    key = (stage, shape.pool, shape.tp, shape.pp, config)
    if key not in known:
        served, pool = _served(search, stage), search.problem.cluster.pool(shape.pool)
        assert served.architecture is not None
        timing = replica_timing(
            served.architecture,
            pool.hardware,
            tp=shape.tp,
            pp=shape.pp,
            config=config,
            gpus_per_node=pool.gpus_per_node,
            min_kv_tokens=longest_request(search.problem, stage),
        )
        known[key] = replace(shape, timing=timing)
    return replace(replicas, shape=known[key])
