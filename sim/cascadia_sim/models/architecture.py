"""The shape of a decoder-only transformer: all that its cost depends on, and its parameter counts.

Biases are left out (below 0.1 % of any catalogued model), as are vision towers and multi-token-prediction
heads, which do no work for a text request.
"""

from dataclasses import dataclass

from cascadia_sim.models.quantization import BF16_BYTES, kv_element_bytes, weight_format
from cascadia_sim.models.recurrent import Recurrent

# A request's context that stands for all when the savings of a sliding window are averaged.
REFERENCE_CONTEXT_TOKENS = 4096


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts in all layers but `dense_layers`; experts are MLPs `intermediate` wide.

    `shared_intermediate` is the width of all shared experts together. `zero` further experts hand their token on as it
    is (LongCat-Flash, arXiv:2509.01322): a token that chooses `per_token` of all has fewer to compute.
    """

    count: int
    per_token: int
    intermediate: int
    shared_intermediate: int = 0
    dense_layers: int = 0
    zero: int = 0

    @property
    def computed_per_token(self) -> float:
        """Experts that a token has computed, at the mean."""
        return self.per_token * self.count / (self.count + self.zero)


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, §2.1). `q_rank` None: full queries."""

    q_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int


@dataclass(frozen=True, slots=True)
class SparseAttention:
    """DeepSeek-V3.2's: an indexer of `heads` picks the `top` tokens that a query attends to.

    Each layer keeps `dim` numbers a token for it, in FP8, beside the KV entries, which all stay.
    """

    heads: int
    dim: int
    top: int


@dataclass(frozen=True, slots=True)
class Blocks:
    """Counts of layers with attention, a dense MLP and a mixture, where that is not one mixer and one MLP each."""

    attention: int
    dense: int
    mixture: int


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """`layers` of the layers attend to the last `tokens` tokens only."""

    tokens: int
    layers: int


@dataclass(frozen=True, slots=True)
class Architecture:
    """Sizes under the names of Hugging Face's config.json, shortened.

    `intermediate` is the width of the dense MLP (0 where every layer is a mixture). `quantization` is the
    checkpoint's own, None for BF16. `attention_gate`: queries bring a gate of their own width for attention's output.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    intermediate: int
    vocab: int
    max_position: int
    tied_embeddings: bool = False
    gated_mlp: bool = True
    moe: Experts | None = None
    mla: LatentAttention | None = None
    window: SlidingWindow | None = None
    quantization: str | None = None
    recurrent: Recurrent | None = None
    sparse: SparseAttention | None = None
    attention_gate: bool = False
    blocks: Blocks | None = None

    @property
    def moe_layers(self) -> int:
        if self.blocks is not None:
            return self.blocks.mixture
        return self.layers - self.moe.dense_layers if self.moe else 0

    @property
    def dense_layers(self) -> int:
        return self.blocks.dense if self.blocks is not None else self.layers - self.moe_layers

    @property
    def attention_layers(self) -> int:
        """Layers that attend, and keep KV entries; the others are `recurrent`, or MLPs alone."""
        if self.blocks is not None:
            return self.blocks.attention
        return self.layers - (self.recurrent.layers if self.recurrent else 0)

    @property
    def reductions(self) -> int:
        """All-reduces of a token's pass through the layers under tensor parallelism: one a mixer and one an MLP."""
        mixers = self.attention_layers + (self.recurrent.layers if self.recurrent else 0)
        return mixers + self.dense_layers + self.moe_layers

    @property
    def mlp_matrices(self) -> int:
        """Matrices in one MLP: up and down, and the gate."""
        return 3 if self.gated_mlp else 2

    @property
    def attention_parameters(self) -> int:
        """Weights of one layer's projections to and from attention."""
        h, n = self.hidden, self.heads
        if self.mla is None:
            queries = 2 * n if self.attention_gate else n
            return (
                h * self.head_dim * (queries + self.kv_heads)
                + h * self.kv_heads * self.v_head_dim
                + n * self.v_head_dim * h
            )
        m = self.mla
        query_dim = n * (m.nope_dim + m.rope_dim)
        query = h * query_dim if m.q_rank is None else m.q_rank * (h + query_dim)
        keys_values = h * (m.kv_rank + m.rope_dim) + m.kv_rank * n * (m.nope_dim + self.v_head_dim)
        return query + keys_values + n * self.v_head_dim * h + self.indexer_parameters

    @property
    def indexer_parameters(self) -> int:
        """Parameters of one layer's sparse attention: queries from the compressed ones, one key, a weight for
        each head.
        """
        if self.sparse is None:
            return 0
        queries = (self.mla.q_rank if self.mla else None) or self.hidden
        return queries * self.sparse.heads * self.sparse.dim + self.hidden * (
            self.sparse.dim + self.sparse.heads
        )

    @property
    def expert_parameters(self) -> int:
        """Weights of one routed expert; 0 in a dense model."""
        return self.mlp_matrices * self.hidden * self.moe.intermediate if self.moe else 0

    @property
    def dense_mlp_parameters(self) -> int:
        return self.mlp_matrices * self.hidden * self.intermediate

    @property
    def shared_mlp_parameters(self) -> int:
        """Weights that every token of a mixture layer meets: shared experts and the router."""
        if self.moe is None:
            return 0
        return self.mlp_matrices * self.hidden * self.moe.shared_intermediate + self.router_parameters

    @property
    def router_parameters(self) -> int:
        """Parameters of one mixture layer's router."""
        return self.hidden * (self.moe.count + self.moe.zero) if self.moe else 0

    @property
    def embedding_parameters(self) -> int:
        """One table of vocabulary by hidden size: the input embedding, and the LM head again."""
        return self.vocab * self.hidden

    @property
    def _norm_parameters(self) -> int:
        return (2 * self.layers + 1) * self.hidden

    @property
    def _routed_parameters(self) -> int:
        return self.moe_layers * self.moe.count * self.expert_parameters if self.moe else 0

    @property
    def _layer_parameters(self) -> int:
        """All matrices in the layers except the routed experts."""
        return (
            self.attention_layers * self.attention_parameters
            + (self.recurrent.parameters if self.recurrent else 0)
            + self.dense_layers * self.dense_mlp_parameters
            + self.moe_layers * self.shared_mlp_parameters
        )

    @property
    def parameters(self) -> int:
        tables = 1 if self.tied_embeddings else 2
        return (
            self._layer_parameters
            + self._routed_parameters
            + self._norm_parameters
            + tables * self.embedding_parameters
        )

    @property
    def active_parameters(self) -> int:
        """Parameters that multiply each token: `per_token` experts, no input embedding (a look-up)."""
        routed = 0
        if self.moe is not None:
            routed = round(self.moe_layers * self.moe.computed_per_token * self.expert_parameters)
        return self._layer_parameters + routed + self._norm_parameters + self.embedding_parameters

    def weight_bytes(self, quantization: str | None = None) -> int:
        """Bytes of all weights on the GPU; None keeps the checkpoint's own format."""
        own = weight_format(quantization or self.quantization)
        layers_at = BF16_BYTES if own.experts_only else own.bytes_per_weight
        routers = self.moe_layers * self.router_parameters
        quantised = (self._layer_parameters - routers) * layers_at
        quantised += self._routed_parameters * own.bytes_per_weight
        tables = (1 if self.tied_embeddings else 2) * self.embedding_parameters
        kept = self._norm_parameters + routers
        return round(quantised + tables * own.bytes_per_entry + kept * BF16_BYTES)

    @property
    def kv_entry_elements(self) -> int:
        """Numbers that one token leaves in the KV cache of one layer, over all KV heads."""
        if self.mla is not None:
            return self.mla.kv_rank + self.mla.rope_dim
        return self.kv_heads * (self.head_dim + self.v_head_dim)

    def attending_layers(self, context_tokens: int = REFERENCE_CONTEXT_TOKENS) -> float:
        """Layers that keep a whole context of `context_tokens`; one with a sliding window counts in part."""
        if self.window is None:
            return float(self.attention_layers)
        share = min(1.0, self.window.tokens / context_tokens)
        return self.attention_layers - self.window.layers * (1.0 - share)

    @property
    def indexer_bytes_per_token(self) -> int:
        """Bytes that one layer keeps of a token beside its KV entry, whatever the cache's precision: FP8."""
        return self.sparse.dim if self.sparse else 0

    def kv_bytes_per_token(self, kv_cache_dtype: str = "auto") -> int:
        """KV bytes of one token over all layers that attend, each KV head once, each such layer keeping it."""
        entry = self.kv_entry_elements * kv_element_bytes(kv_cache_dtype) + self.indexer_bytes_per_token
        return round(self.attention_layers * entry)

    def state_bytes_per_sequence(self) -> int:
        """Bytes that a sequence keeps of all recurrent layers, whatever its length: BF16, engines' own default."""
        return round(self.recurrent.layers * self.recurrent.state * BF16_BYTES) if self.recurrent else 0
