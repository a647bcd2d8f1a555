"""A one-pass model as an ONNX graph: an encoder, cut after some of its layers, with a head on the mean of its tokens.

Token ids in; out come the probabilities of the classes (Devlin et al. 2019, section 3.2, with the mean over tokens in
the place of one token's vector, as the encoder was trained), or where there is no head the vector itself, of length 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cascadia_judge.encoder.graph import IDS, IR_VERSION, OPSET, THERE, BertGraph

if TYPE_CHECKING:
    from onnx import ModelProto

PROBABILITIES, VECTORS = "probabilities", "vectors"
"""What comes out: (texts, classes) or (texts, size)."""
Weights = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Head:
    """Softmax of `weight` (classes, size) times the vector plus `bias` (classes)."""

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]


def one_pass_graph(
    config: Mapping[str, Any], weights: Weights, layers: int, head: Head | None, where: str
) -> "ModelProto":
    """`weights` by their names in Hugging Face's BertModel. Raises `BadVerdict`, naming `where`, for other models."""
    from onnx import TensorProto, helper

    graph = BertGraph(weights, where, int(config["num_attention_heads"]), float(config["layer_norm_eps"]))
    x = graph.embedded()
    for i in range(layers):
        x = graph.layer(x, f"encoder.layer.{i}")
    vector = _mean(graph, x)
    if head is None:
        name, width = VECTORS, weights["embeddings.word_embeddings.weight"].shape[1]
        graph.node("Identity", vector, into=VECTORS)
    else:
        name, width = PROBABILITIES, len(head.bias)
        product = graph.node("MatMul", vector, graph.constant("head.weight", head.weight.T))
        logits = graph.node("Add", product, graph.constant("head.bias", head.bias))
        graph.node("Softmax", logits, axis=-1, into=PROBABILITIES)
    shape = ["texts", "tokens"]
    made = helper.make_graph(
        graph.nodes,
        "one-pass",
        [
            helper.make_tensor_value_info(IDS, TensorProto.INT64, shape),
            helper.make_tensor_value_info(THERE, TensorProto.BOOL, shape),
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["texts", width])],
        graph.constants,
    )
    return helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="cascadia"
    )


def _mean(graph: BertGraph, x: str) -> str:
    """The mean of `x` over the tokens that are there, made 1 long: its sum has the same direction."""
    there = graph.node("Cast", THERE, to=1)
    counted = graph.node("Mul", x, graph.node("Unsqueeze", there, graph.integers("hidden", 2)))
    total = graph.node("ReduceSum", counted, graph.integers("tokens", 1), keepdims=0)
    return graph.node("LpNormalization", total, axis=-1, p=2)
