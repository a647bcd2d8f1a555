"""Parallelism of a mixture over one replica's GPUs: attention's data parallelism and expert parallelism.

Attention-DP reuses the tensor-parallel GPUs: `tp` of them form `attention_dp` ranks of tp / attention_dp GPUs. Each
rank attends to its own requests, with its own copy of attention's weights and its own KV cache; the MLPs and
experts of a layer are over all `tp` GPUs and see the tokens of all ranks. So the replica's GPUs stay tp x pp.
SGLang: --tp-size tp --dp-size attention_dp --enable-dp-attention; vLLM: --tensor-parallel-size tp/attention_dp
--data-parallel-size attention_dp. Iterations are in step over the ranks, which are taken to be equally loaded.
"""

import math
from dataclasses import dataclass

import numpy as np

from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.iteration.moe import check_expert_split
from cascadia_sim.iteration.roofline import ACTIVATION_BYTES, Floats, allreduce_seconds, link_of
from cascadia_sim.iteration.sharding import InvalidShape
from cascadia_sim.models.architecture import Architecture


class BadParallel(InvalidShape):
    """Degrees that do not go together."""


@dataclass(frozen=True, slots=True)
class Split:
    """`tp` GPUs of one pipeline stage; `whole_experts`: each holds some experts in full (EP)."""

    tp: int
    attention_dp: int = 1
    whole_experts: bool = False

    @property
    def attention_tp(self) -> int:
        """GPUs that share the attention of one rank."""
        return self.tp // self.attention_dp

    @property
    def all_to_all(self) -> bool:
        """Tokens travel to their experts, because no GPU but their rank's has them."""
        return self.whole_experts and self.attention_dp > 1


def check_split(architecture: Architecture, split: Split) -> None:
    """Raises an `BadInput` where ranks do not divide the GPUs, or experts do not spread over them."""
    if split.attention_dp < 1 or split.tp % split.attention_dp:
        raise BadParallel(
            "attention_dp",
            f"{split.attention_dp} ranks do not divide tp {split.tp}",
            "write a divisor of tp: attention-DP splits the tensor-parallel GPUs, it adds none",
        )
    if split.whole_experts:
        check_expert_split(architecture, split.tp)


def travelling_copies(per_token: float, gpus: int) -> float:
    """Expected number of other GPUs that hold an expert of one token: (g - 1) (1 - (1 - 1/g)^k).

    A token is sent to a GPU once, however many of its experts are there.
    """
    return (gpus - 1) * -math.expm1(per_token * math.log1p(-1.0 / gpus)) if gpus > 1 else 0.0


def dispatch_bytes(architecture: Architecture, split: Split) -> float:
    """Sent by one GPU, for each token of its rank and layer: out to the experts, and back to be summed.

    A rank's GPUs share the sending. Both ways in BF16.
    """
    if architecture.moe is None:
        return 0.0
    copies = travelling_copies(architecture.moe.computed_per_token, split.tp)
    return 2 * copies * architecture.hidden * ACTIVATION_BYTES / split.attention_tp


def communication_seconds(
    tokens: Floats, architecture: Architecture, gpu: Gpu, split: Split, gpus_per_node: int
) -> Floats:
    """All layers' exchanges for `tokens` of all ranks together.

    Without attention-DP two all-reduces a layer, EP or not: each GPU has all tokens, and adds what its experts make
    of them. With it, attention all-reduces within a rank, and around the MLP the ranks' tokens are gathered and their
    sums scattered, as much as one all-reduce; or, under EP, sent to their experts and back.
    """
    a, ranks = architecture, split.attention_dp
    if ranks == 1:
        return allreduce_seconds(tokens, a, gpu, split.tp, gpus_per_node)
    mlps = a.dense_layers + a.moe_layers
    # Mixers and the embedding; the MLPs' exchanges are among all ranks.
    within = a.reductions - mlps + 1.0
    total = allreduce_seconds(tokens / ranks, a, gpu, split.attention_tp, gpus_per_node, within)
    travelling = a.moe_layers if split.all_to_all else 0
    total = total + allreduce_seconds(tokens, a, gpu, split.tp, gpus_per_node, float(mlps - travelling))
    latency, bandwidth = link_of(gpu, split.tp > gpus_per_node)
    there_and_back = 2 * latency * gpu.efficiency.link_latency
    sent = tokens * (dispatch_bytes(a, split) / ranks / bandwidth)
    return np.asarray(total + travelling * gpu.efficiency.link_factor(split.tp) * (there_and_back + sent))
