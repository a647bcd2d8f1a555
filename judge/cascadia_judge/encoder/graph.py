"""A BERT encoder as an ONNX graph, made of its weights: token ids in, the sum of the tokens' last vectors out.

Devlin et al. 2019 (BERT); post-norm, as MiniLM (Wang et al. 2020) keeps it. Standard operators alone, so that whatever
runs ONNX runs it. One product makes query, key and value.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cascadia_judge.errors import BadVerdict

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

OPSET = 23
"""The first that has attention as one operator."""
IR_VERSION = 11
IDS, THERE, SUMS = "ids", "there", "sums"
"""What goes in, both (texts, tokens): ids, and whether there is a token or padding. What comes out: (texts, size)."""

Weights = Mapping[str, NDArray[Any]]


def bert_graph(config: Mapping[str, Any], weights: Weights, where: str) -> "ModelProto":
    """`weights` by their names in Hugging Face's BertModel. Raises `BadVerdict`, naming `where`, for other models."""
    from onnx import TensorProto, helper

    if config.get("model_type") != "bert" or config.get("hidden_act") != "gelu":
        raise BadVerdict(
            where, f"is a {config.get('model_type')} with {config.get('hidden_act')}", "name a BERT encoder"
        )
    graph = BertGraph(weights, where, int(config["num_attention_heads"]), float(config["layer_norm_eps"]))
    x = graph.embedded()
    for i in range(int(config["num_hidden_layers"])):
        x = graph.layer(x, f"encoder.layer.{i}")
    graph.summed(x)
    size = weights["embeddings.word_embeddings.weight"].shape[1]
    shape = ["texts", "tokens"]
    made = helper.make_graph(
        graph.nodes,
        "bert",
        [
            helper.make_tensor_value_info(IDS, TensorProto.INT64, shape),
            helper.make_tensor_value_info(THERE, TensorProto.BOOL, shape),
        ],
        [helper.make_tensor_value_info(SUMS, TensorProto.FLOAT, ["texts", size])],
        graph.constants,
    )
    return helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="cascadia"
    )


class BertGraph:
    """Nodes and constants as they are added; each method returns the name of what it makes."""

    def __init__(self, weights: Weights, where: str, heads: int, epsilon: float) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[Any] = []
        self._weights, self._where, self._heads, self._epsilon = weights, where, heads, epsilon

    def embedded(self) -> str:
        """The vectors of words and places; the one type of token is added to the places."""
        places = self.tensor("embeddings.position_embeddings.weight")
        places = places + self.tensor("embeddings.token_type_embeddings.weight")[0]
        words = self.constant("words", self.tensor("embeddings.word_embeddings.weight"))
        count = self.node("Shape", IDS, start=1, end=2)
        first, along = self.integers("first", 0), self.integers("along", 0)
        place = self.node("Slice", self.constant("places", places), first, count, along)
        self._seen = self._keys_seen(count)
        return self._norm(self.node("Add", self.node("Gather", words, IDS), place), "embeddings.LayerNorm")

    def _keys_seen(self, count: str) -> str:
        """(texts, 1, tokens, tokens): every token sees those that are there."""
        shape = [self.node("Shape", IDS, start=0, end=1), self.integers("one head", 1), count, count]
        keys = self.node("Unsqueeze", THERE, self.integers("heads and queries", 1, 2))
        return self.node("Expand", keys, self.node("Concat", *shape, axis=0))

    def layer(self, x: str, at: str) -> str:
        attended = self._linear(self._attention(x, f"{at}.attention.self"), f"{at}.attention.output.dense")
        x = self._norm(self.node("Add", x, attended), f"{at}.attention.output.LayerNorm")
        wide = self.node("Gelu", self._linear(x, f"{at}.intermediate.dense"))
        narrow = self._linear(wide, f"{at}.output.dense")
        return self._norm(self.node("Add", x, narrow), f"{at}.output.LayerNorm")

    def summed(self, x: str) -> None:
        """Sums `x` over the tokens that are there."""
        there = self.node("Cast", THERE, to=1)
        counted = self.node("Mul", x, self.node("Unsqueeze", there, self.integers("hidden", 2)))
        self.node("ReduceSum", counted, self.integers("tokens", 1), keepdims=0, into=SUMS)

    def _attention(self, x: str, at: str) -> str:
        parts = [f"{at}.{part}" for part in ("query", "key", "value")]
        names = [f"{at}.{part}" for part in ("q", "k", "v")]
        self.node("Split", self._linear(x, *parts), axis=-1, num_outputs=3, into=names)
        return self.node("Attention", *names, self._seen, q_num_heads=self._heads, kv_num_heads=self._heads)

    def _linear(self, x: str, *names: str) -> str:
        """Several matrices side by side. Theirs are (out, in), ours (in, out)."""
        weight = np.hstack([self.tensor(f"{name}.weight").T for name in names])
        bias = np.hstack([self.tensor(f"{name}.bias") for name in names])
        product = self.node("MatMul", x, self.constant(f"{names[0]}.weight", weight))
        return self.node("Add", product, self.constant(f"{names[0]}.bias", bias))

    def _norm(self, x: str, name: str) -> str:
        parts = [
            self.constant(f"{name}.{part}", self.tensor(f"{name}.{part}")) for part in ("weight", "bias")
        ]
        return self.node("LayerNormalization", x, *parts, epsilon=self._epsilon)

    def node(self, operator: str, *inputs: str, into: str | list[str] = "", **attributes: Any) -> str:
        from onnx import helper

        outputs = [into or f"{operator} {len(self.nodes)}"] if isinstance(into, str) else into
        self.nodes.append(helper.make_node(operator, list(inputs), outputs, **attributes))
        return str(outputs[0])

    def constant(self, name: str, values: NDArray[Any]) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def integers(self, name: str, *values: int) -> str:
        return self.constant(name, np.array(values, dtype=np.int64))

    def tensor(self, name: str) -> NDArray[np.float32]:
        if name not in self._weights:
            raise BadVerdict(self._where, f"has no tensor {name}", "name an encoder of the BERT kind")
        return np.asarray(self._weights[name], dtype=np.float32)
