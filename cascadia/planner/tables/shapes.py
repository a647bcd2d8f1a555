"""Shapes of replicas that could serve a model: every (pool, tp, pp) whose memory holds weights and a working KV
cache.

DESIGN section 5.1; Cascadia section 3.2 "Parallelism strategy search".
"""

from dataclasses import dataclass, field, replace

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.errors import BadInput, Infeasible
from cascadia_sim.iteration.build import DoesNotFit, InvalidShape, replica_timing, valid_shapes
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.timing import PS_PER_S, ReplicaTiming
from cascadia_sim.models.architecture import Architecture

MAX_REPLICA_NODES = 4
"""A replica that spans more nodes than this is not considered."""

FULL_NODE = 8
"""A node is taken to have room for so many GPUs, where it is asked on how many a model would fit."""

MAX_PIPELINE = 4
"""Pipelines are no deeper than this, unless the model needs it to fit at its tensor-parallel degree."""

KV_ENOUGH = 0.8
"""A shape counts as holding as much KV cache as another from this share of it."""

REPLICA_KV_TOKENS = 100_000
"""A replica with this much KV cache is not short of it for one more reason: a single long request."""


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """One replica of a model: `tp * pp` GPUs of a pool, how fast it is, and the share (0-1) of the time that it is
    there.

    `usd_per_hour` is of its GPUs. `by_node`: its pool, where whole nodes are what is paid for. `key` tells it from the
    other shapes of its stage.
    """

    pool: str
    tp: int
    pp: int
    timing: ReplicaTiming
    usd_per_hour: float
    there: float = 1.0
    by_node: Pool | None = None
    key: tuple[str, int, int, int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        timing = self.timing
        key = (self.pool, self.tp, self.pp, timing.max_num_batched_tokens, timing.most_drafts)
        object.__setattr__(self, "key", key)

    @property
    def gpus(self) -> int:
        return self.tp * self.pp

    @property
    def label(self) -> str:
        return f"{self.pool} TP={self.tp} PP={self.pp}"


def shapes(
    name: str,
    architecture: Architecture,
    config: EngineConfig,
    cluster: Cluster,
    min_kv_tokens: int,
    *,
    needless_too: bool = False,
) -> tuple[Shape, ...]:
    """All shapes of `architecture` on `cluster`, smallest first, less those that others make needless.

    `min_kv_tokens` is the longest request: a replica must hold it. Where nothing fits, raises `Infeasible` with the
    GPUs on which one would, or `BadInput` where more GPUs of these kinds would not help.
    """
    found: list[Shape] = []
    worst = ""
    for pool in cluster.pools:
        fitting, why = _fitting(architecture, config, pool, min_kv_tokens)
        if paid_by_node(cluster, pool):
            fitting = [replace(shape, by_node=pool) for shape in fitting]
        found += fitting if needless_too else _worthwhile(fitting)
        worst = why or worst
    if not found:
        why = worst or "no tensor-parallel degree divides its heads"
        enough = (_enough(architecture, config, pool, min_kv_tokens) for pool in cluster.pools)
        raise _fits_nowhere(name, why, min(filter(None, enough), key=lambda pool: pool.gpus, default=None))
    return tuple(sorted(found, key=lambda s: (s.gpus, s.pool, s.tp)))


def paid_by_node(cluster: Cluster, pool: Pool) -> bool:
    """Tells whether whole nodes of a pool are paid for: under a budget, unless GPUs are rented one by one."""
    return cluster.budget_usd_per_hour is not None and pool.rent == "node"


def _fits_nowhere(name: str, why: str, enough: Pool | None) -> BadInput | Infeasible:
    """Refusal of a model that fits on no pool, and would on `enough`."""
    what = f"the model fits no shape on this cluster ({why})"
    if enough is None:
        instead = "give it larger GPUs, quantise it, or shorten max_model_len"
        return BadInput(f"stages: {name}", what, instead)
    nodes = f"{enough.nodes} nodes of {enough.gpus_per_node}" if enough.nodes > 1 else "on one node"
    return Infeasible(
        f"stages: {name}: {what}",
        f"a replica fits on {enough.gpus} GPUs of pool {enough.name} ({nodes}); or give it larger GPUs, quantise it,"
        " shorten max_model_len, or leave it out",
    )


def _enough(architecture: Architecture, config: EngineConfig, pool: Pool, tokens: int) -> Pool | None:
    """The pool with as many GPUs as a replica needs, if it fits on so many nodes as one may span; else None."""
    full = max(FULL_NODE, pool.gpus_per_node)
    in_node = [replace(pool, nodes=1, gpus_per_node=gpus) for gpus in range(pool.gpus_per_node + 1, full + 1)]
    nodes = [replace(pool, nodes=n, gpus_per_node=full) for n in range(2, MAX_REPLICA_NODES + 1)]
    grown = (*in_node, *nodes)
    return next((each for each in grown if _fitting(architecture, config, each, tokens)[0]), None)


def _fitting(
    architecture: Architecture, config: EngineConfig, pool: Pool, min_kv_tokens: int
) -> tuple[list[Shape], str]:
    hardware = pool.hardware
    fitting, why = [], ""
    most = min(pool.gpus, MAX_REPLICA_NODES * pool.gpus_per_node)
    shallowest: dict[int, int] = {}
    for tp, pp in sorted(valid_shapes(architecture, pool.gpus_per_node, most)):
        if pp > max(MAX_PIPELINE, shallowest.get(tp, pp)):
            continue
        try:
            timing = replica_timing(
                architecture,
                hardware,
                tp=tp,
                pp=pp,
                config=config,
                gpus_per_node=pool.gpus_per_node,
                min_kv_tokens=min_kv_tokens,
            )
        except (DoesNotFit, InvalidShape) as error:
            why = str(error)
            continue
        shallowest.setdefault(tp, pp)
        usd_per_hour = tp * pp * pool.paid_usd_per_gpu_hour
        fitting.append(Shape(pool.name, tp, pp, timing, usd_per_hour, pool.there))
    return fitting, why


def _worthwhile(fitting: list[Shape]) -> list[Shape]:
    """Drop each shape that another beats on no more GPUs in step time, prefill and memory.

    A pipeline does not shorten a decode step; it pays where its pooled memory or its lack of all-reduces allows
    what tensor parallelism on the same GPUs does not.
    """
    return [a for a in fitting if not any(_beats(b, a) for b in fitting if b is not a)]


def _beats(b: Shape, a: Shape) -> bool:
    """Are copies of `b`, on no more GPUs than `a`, at least as fast at every batch, with as much KV cache?"""
    copies = a.gpus // b.gpus
    if copies == 0:
        return False
    lanes = copies * b.timing.lanes
    batches = (1, 8, 32, 128, 512)
    return (
        all(_step_s(b, batch / lanes) <= _step_s(a, batch / a.timing.lanes) for batch in batches)
        and _prefill_s(b) <= _prefill_s(a)
        and _prefill_s(b) / lanes <= _prefill_s(a) / a.timing.lanes
        and lanes * b.timing.kv_tokens >= KV_ENOUGH * a.timing.lanes * a.timing.kv_tokens
        and b.timing.lanes * b.timing.kv_tokens >= min(a.timing.lanes * a.timing.kv_tokens, REPLICA_KV_TOKENS)
    )


def _step_s(shape: Shape, batch: float) -> float:
    """Seconds of one decode step of a lane with `batch` sequences at 1,000 tokens of context each."""
    t = shape.timing
    # Each sequence takes a token of an iteration.
    sequences = min(max(1, round(batch)), t.max_num_seqs, len(t.token_ps) - 1)
    return (
        float(t.token_ps[sequences] + t.sequence_ps[sequences] + t.context_ps * sequences * 1000) / PS_PER_S
    )


def _prefill_s(shape: Shape) -> float:
    """Seconds of an iteration of 2,048 prompt tokens."""
    t = shape.timing
    return float(t.token_ps[min(2048, len(t.token_ps) - 1)] + t.pair_ps * 2048 * 1024) / PS_PER_S
