"""Time of an iteration, term by term, on each replica of a plan, and what the same batch would take on other
shapes.

The batch is a typical one of the plan's own: by Little's law a stage has rate x (latency - time to first token)
sequences decoding at any time, shared by its replicas as the plan shares requests, and by the batches that a pipeline
keeps in flight. How many tokens each holds is known of a replay: the mean over decoded tokens, in which long answers
count for more. A plan alone tells the mean request's prompt and answer together, which stands in. A judge writes one
token, so its iteration is one prompt.
"""

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path

import numpy as np

from cascadia.domain.cluster import Pool
from cascadia.domain.errors import BadInput
from cascadia.domain.plan import Plan, Predicted, ReplicaGroup, StagePrediction
from cascadia.planner.problem.models import find_architecture
from cascadia.planner.replay.replay import Replay
from cascadia_sim.iteration.breakdown import BeyondTheTables, Iteration, Part, breakdown, charged_s
from cascadia_sim.iteration.build import DoesNotFit, InvalidShape, replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.models.architecture import Architecture


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Batch as far as the user set it; None: as the plan predicts."""

    decoding: int | None = None
    context_tokens: int | None = None
    prefill_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class OnShape:
    """An iteration on one shape. `kv_share`: of the KV cache that a batch has; above 1 the engine would not run it."""

    tp: int
    pp: int
    parts: tuple[Part, ...]
    iteration_s: float
    tokens_per_s: float
    kv_share: float

    @property
    def gpus(self) -> int:
        return self.tp * self.pp

    @property
    def tokens_per_s_per_gpu(self) -> float:
        return self.tokens_per_s / self.gpus


@dataclass(frozen=True, slots=True)
class NotOnShape:
    """A shape that cannot run the model, and why."""

    tp: int
    pp: int
    why: str

    @property
    def gpus(self) -> int:
        return self.tp * self.pp


@dataclass(frozen=True, slots=True)
class Explained:
    """One group of equal replicas of a stage (or the judge); `others` by GPUs, then by tp."""

    stage: str
    model: str
    gpu: str
    _: KW_ONLY
    group: ReplicaGroup
    iteration: Iteration
    here: OnShape
    others: tuple[OnShape | NotOnShape, ...]


@dataclass(frozen=True, slots=True)
class _Site:
    """Site of a group's engines: what they run, and on what."""

    architecture: Architecture
    config: EngineConfig
    pool: Pool


def explain_iterations(
    plan: Plan,
    predicted: Predicted,
    *,
    folder: Path,
    asked: BatchOptions,
    contexts: Mapping[str, int] | None = None,
) -> tuple[Explained, ...]:
    """Every group of replicas in `plan`, its batch as in `predicted` but for what is `asked`.

    `contexts`: tokens of a sequence by stage, where known. A model that is a path starts at `folder`. Raises
    `BadInput` for a batch that a stage's engine would not run.
    """
    return tuple(_explained(plan, predicted, folder, asked, contexts or {}))


def decoded_contexts(found: Replay) -> dict[str, int]:
    """Tokens of a sequence by stage, mean over all tokens that were decoded after the first."""
    contexts = {}
    w = found.problem.workload
    for visits in found.run.stages:
        read, wrote = (tokens[visits.stage][visits.requests] for tokens in (w.input_tokens, w.output_tokens))
        if (wrote > 1).any():
            mean = float(np.average(read + wrote / 2, weights=wrote - 1))
            contexts[found.problem.stages[visits.stage].name] = max(1, round(mean))
    return contexts


def _explained(
    plan: Plan, predicted: Predicted, folder: Path, asked: BatchOptions, contexts: Mapping[str, int]
) -> Iterator[Explained]:
    for stage, seen in zip(plan.stages, predicted.stages, strict=True):
        for group in stage.replicas:
            typical = decoding_batch(seen, group, stage.config)
            typical = replace(typical, context_tokens=contexts.get(stage.name, typical.context_tokens))
            site = _site(plan, stage.name, stage.model, stage.config, group, folder)
            yield _of_group(stage.name, stage.model, site, group, _chosen(typical, asked))
    judge = plan.judge
    if predicted.judge is None or judge.model is None:
        return
    for group in judge.replicas:
        typical = Iteration(0, 0, min(_request_tokens(predicted.judge), judge.config.max_num_batched_tokens))
        site = _site(plan, "judge", judge.model, judge.config, group, folder)
        yield _of_group("judge", judge.model, site, group, _chosen(typical, asked))


def decoding_batch(seen: StagePrediction, group: ReplicaGroup, config: EngineConfig) -> Iteration:
    """The mean batch of one of `group`'s replicas (of one of those that its pipeline has in flight), at least 1."""
    decoding = seen.rate_rps * max(seen.latency.mean_s - seen.ttft.mean_s, 0.0)
    each = round(decoding * group.share / (group.count * group.pp))
    return Iteration(min(max(1, each), config.max_num_seqs), _request_tokens(seen))


def _request_tokens(seen: StagePrediction) -> int:
    """Prompt and answer of a mean request (or of a mean verdict)."""
    return max(1, round(seen.tokens_per_s / seen.rate_rps)) if seen.rate_rps > 0 else 1


def _chosen(typical: Iteration, asked: BatchOptions) -> Iteration:
    # A batch that was asked for stands for itself: a prompt is only added where one was asked for too.
    prompt = typical.prefill_tokens if asked.decoding is None else 0
    return Iteration(
        typical.decoding if asked.decoding is None else asked.decoding,
        typical.context_tokens if asked.context_tokens is None else asked.context_tokens,
        prompt if asked.prefill_tokens is None else asked.prefill_tokens,
    )


def _site(
    plan: Plan, name: str, model: str, config: EngineConfig, group: ReplicaGroup, folder: Path
) -> _Site:
    return _Site(find_architecture(model, folder, f"plan: {name}"), config, plan.cluster.pool(group.pool))


def _of_group(name: str, model: str, site: _Site, group: ReplicaGroup, iteration: Iteration) -> Explained:
    try:
        here = _on_shape(site, group.tp, group.pp, iteration)
    except BeyondTheTables as error:
        raise BadInput(f"--{error.where}, for {name}", error.what, error.instead) from error
    if isinstance(here, NotOnShape):
        raise BadInput(f"plan: {name}, TP={group.tp} PP={group.pp}", here.why, "make the plan anew")
    others = tuple(
        _on_shape(site, tp, pp, iteration) for tp, pp in other_shapes(site.pool, group.tp, group.pp)
    )
    return Explained(name, model, site.pool.gpu, group=group, iteration=iteration, here=here, others=others)


def other_shapes(pool: Pool, tp: int, pp: int) -> tuple[tuple[int, int], ...]:
    """Twice and half the tensor-parallel and the pipeline degree, alone and in exchange, within node and pool."""
    near = {(tp * 2, pp), (tp // 2, pp), (tp, pp * 2), (tp, pp // 2), (tp * 2, pp // 2), (tp // 2, pp * 2)}
    allowed = [(t, p) for t, p in near if 1 <= t <= pool.gpus_per_node and p >= 1 and t * p <= pool.gpus]
    return tuple(sorted(allowed, key=lambda shape: (shape[0] * shape[1], shape[0])))


def _on_shape(site: _Site, tp: int, pp: int, iteration: Iteration) -> OnShape | NotOnShape:
    hardware, node = site.pool.hardware, site.pool.gpus_per_node
    try:
        timing = replica_timing(
            site.architecture, hardware, tp=tp, pp=pp, config=site.config, gpus_per_node=node
        )
    except (InvalidShape, DoesNotFit) as error:
        return NotOnShape(tp, pp, error.what)
    iteration = replace(iteration, drafts=timing.drafts_at(iteration.decoding))
    parts = breakdown(
        site.architecture,
        hardware,
        tp=tp,
        pp=pp,
        config=site.config,
        gpus_per_node=node,
        iteration=iteration,
    )
    took_s = sum(part.seconds for part in parts)
    if timing.draft_ps.size:
        parts = (*parts, Part("drafts and their rows", charged_s(timing, iteration) - took_s))
        took_s = sum(part.seconds for part in parts)
    done = iteration.decoding * timing.progress(iteration.drafts) + iteration.prefill_tokens
    return OnShape(tp, pp, parts, took_s, done * pp / took_s, iteration.kv_tokens / timing.kv_tokens)
