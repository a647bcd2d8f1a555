"""Layers that keep a state of constant size a sequence, in place of KV entries.

Mamba (arXiv:2312.00752), Mamba-2 (arXiv:2405.21060), gated delta nets (arXiv:2412.06464), LFM2's gated short
convolutions. What they cost: their matrices for every token, the state's update (a multiply-add for each of its
numbers, and one to read it out), and, where a sequence decodes, reading and writing the state once.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple


class Matrix(NamedTuple):
    """`split`: which side tensor parallelism cuts."""

    inputs: int
    outputs: int
    split: Literal["inputs", "outputs"]

    @property
    def weights(self) -> int:
        return self.inputs * self.outputs


@dataclass(frozen=True, slots=True)
class Recurrent:
    """`layers` mix tokens so. A sequence keeps `state` numbers in each; `other` are weights in no matrix."""

    kind: str
    layers: int
    matrices: tuple[Matrix, ...]
    state: int
    other: int = 0

    @property
    def layer_parameters(self) -> int:
        return sum(matrix.weights for matrix in self.matrices) + self.other

    @property
    def parameters(self) -> int:
        return self.layers * self.layer_parameters

    @property
    def flops_per_token(self) -> float:
        """FLOPs of one layer's state: update and read-out, a multiply-add each, beside the matrices."""
        return 4.0 * self.state


def mamba1(layers: int, hidden: int, inner: int, state: int, conv: int, dt_rank: int) -> Recurrent:
    """Selective state space of `inner` channels with `state` numbers each."""
    matrices = (
        Matrix(hidden, 2 * inner, "outputs"),
        Matrix(inner, dt_rank + 2 * state, "inputs"),
        Matrix(dt_rank, inner, "outputs"),
        Matrix(inner, hidden, "inputs"),
    )
    # Kept: the state, and the convolution's last inputs. Beside matrices: A, the convolution and D.
    return Recurrent("mamba", layers, matrices, inner * (state + conv - 1), inner * (state + conv + 1))


def mamba2(
    layers: int, hidden: int, heads: int, *, head_dim: int, state: int, groups: int, conv: int
) -> Recurrent:
    """`heads` of `head_dim` channels; `groups` share what selects the state."""
    inner, mixed = heads * head_dim, heads * head_dim + 2 * groups * state
    matrices = (
        Matrix(hidden, inner + mixed + heads, "outputs"),
        Matrix(inner, hidden, "inputs"),
    )
    # Values pass the convolution together with what selects the state (B and C), which is kept with them.
    kept = inner * state + mixed * (conv - 1)
    # 3: A, D and the bias of dt, each one number a head; `inner`: the norm's.
    return Recurrent("mamba2", layers, matrices, kept, mixed * conv + 3 * heads + inner)


def delta_net(
    layers: int, hidden: int, key_heads: int, *, key_dim: int, value_heads: int, value_dim: int, conv: int
) -> Recurrent:
    """A gated delta net: a matrix of `key_dim` by `value_dim` for each value head."""
    keys, values = key_heads * key_dim, value_heads * value_dim
    matrices = (
        # Queries and keys, values and their gate, and for each value head a decay and a strength.
        Matrix(hidden, 2 * keys + 2 * values + 2 * value_heads, "outputs"),
        Matrix(values, hidden, "inputs"),
    )
    mixed = 2 * keys + values
    kept = value_heads * key_dim * value_dim + mixed * (conv - 1)
    # 2: A and the bias of dt; all heads share one norm.
    return Recurrent("delta net", layers, matrices, kept, mixed * conv + 2 * value_heads + value_dim)


def short_conv(layers: int, hidden: int, conv: int) -> Recurrent:
    """A convolution over the last `conv` tokens between two gates."""
    matrices = (Matrix(hidden, 3 * hidden, "outputs"), Matrix(hidden, hidden, "inputs"))
    return Recurrent("convolution", layers, matrices, hidden * (conv - 1), hidden * conv)
