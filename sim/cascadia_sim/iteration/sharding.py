"""Shard that one GPU of a replica holds: its share of each matrix (tensor parallelism), its layers
(pipelining).

Heads and MLP widths are split over the tensor-parallel GPUs; norms, routers and latent attention's
down-projections are on each. KV heads fewer than GPUs are replicated, as vLLM and SGLang do.
"""

from typing import NamedTuple

from cascadia_sim.errors import BadInput
from cascadia_sim.models.architecture import Architecture


class InvalidShape(BadInput):
    """The model cannot be split so."""


class Gemm(NamedTuple):
    """One matrix on one GPU, by the widths of what goes in and what comes out."""

    inputs: int
    outputs: int

    @property
    def weights(self) -> int:
        return self.inputs * self.outputs


def check_shape(architecture: Architecture, tp: int, pp: int) -> None:
    """Raises `InvalidShape` unless heads and layers can be split over `tp` x `pp` GPUs."""
    a = architecture
    if tp < 1 or pp < 1:
        raise InvalidShape(a.name, f"tp {tp}, pp {pp}", "write degrees of at least 1")
    if not splits_heads(a, tp):
        raise InvalidShape(
            a.name,
            f"tp {tp} does not divide {a.heads} attention heads over {a.kv_heads} KV heads",
            f"use a tp among {', '.join(str(t) for t in range(1, a.heads + 1) if splits_heads(a, t))}",
        )
    if pp > a.layers:
        raise InvalidShape(a.name, f"pp {pp} exceeds {a.layers} layers", f"use a pp of at most {a.layers}")


def splits_heads(architecture: Architecture, tp: int) -> bool:
    """KV heads are split evenly or replicated evenly; latent attention has none to split."""
    if architecture.heads % tp:
        return False
    kv_heads = architecture.kv_heads
    return architecture.mla is not None or kv_heads % tp == 0 or tp % kv_heads == 0


def kv_elements_per_gpu(architecture: Architecture, tp: int) -> int:
    """Numbers that one token leaves in one layer's KV cache on each GPU."""
    if architecture.mla is not None:
        return architecture.kv_entry_elements
    heads = -(-architecture.kv_heads // tp)
    return heads * (architecture.head_dim + architecture.v_head_dim)


def attention_gemms(architecture: Architecture, tp: int) -> tuple[Gemm, ...]:
    """The projections of one layer's attention."""
    a, heads = architecture, architecture.heads // tp
    out = Gemm(heads * a.v_head_dim, a.hidden)
    if a.mla is None:
        width = heads * a.head_dim * (2 if a.attention_gate else 1)
        return (Gemm(a.hidden, width + kv_elements_per_gpu(a, tp)), out)
    m = a.mla
    down = Gemm(a.hidden, (m.q_rank or 0) + m.kv_rank + m.rope_dim)
    queries = Gemm(m.q_rank or a.hidden, heads * (m.nope_dim + m.rope_dim))
    keys_values = Gemm(m.kv_rank, heads * (m.nope_dim + a.v_head_dim))
    return (down, queries, keys_values, *_indexer_gemms(a), out)


def _indexer_gemms(a: Architecture) -> tuple[Gemm, ...]:
    """GEMMs of sparse attention's indexer, on each GPU whole, as engines have it."""
    if a.sparse is None:
        return ()
    queries = (a.mla.q_rank if a.mla else None) or a.hidden
    return (Gemm(queries, a.sparse.heads * a.sparse.dim), Gemm(a.hidden, a.sparse.dim + a.sparse.heads))


def recurrent_gemms(architecture: Architecture, tp: int) -> tuple[Gemm, ...]:
    """The matrices of one recurrent layer; none without such layers."""
    if architecture.recurrent is None:
        return ()
    return tuple(
        Gemm(matrix.inputs, -(-matrix.outputs // tp))
        if matrix.split == "outputs"
        else Gemm(-(-matrix.inputs // tp), matrix.outputs)
        for matrix in architecture.recurrent.matrices
    )


def mlp_gemms(architecture: Architecture, width: int, tp: int) -> tuple[Gemm, ...]:
    """GEMMs of an MLP `width` wide: up (with the gate) and down projections; none where it is 0."""
    share = -(-width // tp)
    # Up and gate are one product in engines, half the kernels and wider.
    ups = architecture.mlp_matrices - 1
    return (Gemm(architecture.hidden, ups * share), Gemm(share, architecture.hidden)) if width else ()


def stage_layers(layers: int, pp: int) -> tuple[int, ...]:
    """Layers of each pipeline stage; as vLLM's `get_pp_indices`, the last is the last to get one more."""
    counts = [layers // pp] * pp
    for i in range(2, layers % pp + 2):
        counts[-i] += 1
    return tuple(counts)


def valid_shapes(
    architecture: Architecture,
    gpus_per_node: int,
    max_gpus: int,
    multi_node_tp: bool = False,
    max_pp: int | None = None,
) -> tuple[tuple[int, int], ...]:
    """All (tp, pp) of at most `max_gpus` GPUs that split the model, memory aside.

    tp are powers of two, within a node unless `multi_node_tp`; pp need not divide the layers.
    """
    most_tp = max_gpus if multi_node_tp else min(gpus_per_node, max_gpus)
    degrees = (1 << i for i in range(max(0, most_tp).bit_length()))
    most_pp = min(architecture.layers, max_pp or architecture.layers)
    return tuple(
        (tp, pp)
        for tp in degrees
        if tp <= most_tp and splits_heads(architecture, tp)
        for pp in range(1, min(most_pp, max_gpus // tp) + 1)
    )
