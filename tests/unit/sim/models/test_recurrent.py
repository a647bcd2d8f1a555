"""What recurrent layers hold and keep, by hand on small numbers; and which layers of a mixture are dense."""

from typing import Any

import pytest

from cascadia_sim.models.experts import _dense_layers
from cascadia_sim.models.fields import ArchitectureError, Fields
from cascadia_sim.models.recurrent import Recurrent, delta_net, mamba1, mamba2, short_conv


@pytest.mark.parametrize(
    ("made", "weights", "other", "state"),
    [
        # A, the convolution and D; the state and the convolution's last three inputs.
        (mamba1(3, 10, 20, 3, 4, 2), [400, 160, 40, 200], 20 * (3 + 4 + 1), 20 * (3 + 3)),
        # Of 12 channels, and 20 numbers that select: a convolution of 32, and A, D and a bias for each of 3 heads.
        (
            mamba2(3, 10, 3, head_dim=4, state=5, groups=2, conv=4),
            [10 * (12 + 32 + 3), 120],
            4 * 32 + 3 * 3 + 12,
            12 * 5 + 3 * 32,
        ),
        # Keys are 6, values 20: a convolution of 2 * 6 + 20, and A and a bias for each of 4 value heads.
        (
            delta_net(3, 10, 2, key_dim=3, value_heads=4, value_dim=5, conv=4),
            [10 * (12 + 40 + 8), 200],
            4 * 32 + 2 * 4 + 5,
            4 * 3 * 5 + 3 * 32,
        ),
        (short_conv(3, 10, 3), [300, 100], 30, 20),
    ],
    ids=["mamba", "mamba2", "delta net", "convolution"],
)
def test_a_recurrent_layer_has_these_weights_and_keeps_this_state(
    made: Recurrent, weights: list[int], other: int, state: int
) -> None:
    assert [matrix.weights for matrix in made.matrices] == weights
    assert (made.other, made.state, made.flops_per_token) == (other, state, 4.0 * state)
    assert (made.layer_parameters, made.parameters) == (sum(weights) + other, 3 * (sum(weights) + other))


@pytest.mark.parametrize(
    ("said", "dense"),
    [
        ({}, 0),
        ({"first_k_dense_replace": 3}, 3),
        ({"first_k_dense_replace": 12}, 8),
        ({"expert_layer_period": 2}, 4),
        ({"expert_layer_period": 4, "expert_layer_offset": 2}, 6),
        ({"moe_layer_freq": [0, 1, 1, 1, 1, 1, 1, 0]}, 2),
        ({"moe_layer_freq": 2}, 4),
        ({"moe_layer_freq": 3}, 5),
        ({"decoder_sparse_step": 3}, 6),
        ({"decoder_sparse_step": 2, "mlp_only_layers": [1, 2]}, 5),
        ({"mlp_only_layers": [0, 7]}, 2),
    ],
)
def test_of_eight_layers_so_many_have_no_experts(said: dict[str, Any], dense: int) -> None:
    """A period is counted from layer 0 where DeepSeek's name says it, from layer 1 where Qwen's or Llama's does."""
    assert _dense_layers(Fields(said, "config.json"), 8) == dense


@pytest.mark.parametrize(
    "said",
    [
        {"mlp_only_layers": 3},
        {"mlp_only_layers": [1.5]},
        {"moe_layer_freq": [1, 2] * 4},
        {"moe_layer_freq": [1]},
    ],
)
def test_layers_that_are_listed_wrongly_are_refused(said: dict[str, Any]) -> None:
    with pytest.raises(ArchitectureError, match="is no list of"):
        _dense_layers(Fields(said, "config.json"), 8)
