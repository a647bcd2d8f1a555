"""Cut vertices are found in any graph: between blocks, not within their branches."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from cascadia.ramps.cuts import cuts
from tests.unit.ramps.tiny_classifier import classifier


def graph(*nodes: tuple[str, list[str], str], end: str) -> onnx.ModelProto:
    """Matrices are called W…, of 8 × 8."""
    made = [helper.make_node(operator, inputs, [output]) for operator, inputs, output in nodes]
    names = {name for _, inputs, _ in nodes for name in inputs if name.startswith("W")}
    weights = [numpy_helper.from_array(np.eye(8, dtype=np.float32), name) for name in sorted(names)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 8]) for name in ("x", end))
    return helper.make_model(helper.make_graph(made, "g", [x], [y], weights))


def test_a_chain_may_be_cut_after_each_product_but_the_last() -> None:
    model = graph(
        *(("MatMul", [a, w], b) for a, w, b in (("x", "W1", "a"), ("a", "W2", "b"), ("b", "W3", "c"))),
        end="c",
    )
    assert [(cut.tensor, round(cut.share, 3)) for cut in cuts(model)] == [("a", 0.333), ("b", 0.667)]


def test_within_a_residual_block_there_is_no_place() -> None:
    model = graph(
        ("MatMul", ["x", "W1"], "a"),
        ("MatMul", ["a", "W2"], "inside"),
        ("Add", ["a", "inside"], "b"),
        ("Relu", ["b"], "c"),
        ("MatMul", ["c", "W3"], "end"),
        end="end",
    )
    # After the sum and after Relu is the same to a ramp: the last of both.
    assert [cut.tensor for cut in cuts(model)] == ["a", "c"]


def test_what_is_made_of_inputs_alone_may_go_round_a_place() -> None:
    model = graph(
        ("Abs", ["x"], "mask"),
        ("MatMul", ["x", "W1"], "a"),
        ("Mul", ["a", "mask"], "b"),
        ("MatMul", ["b", "W2"], "c"),
        ("Mul", ["c", "mask"], "end"),
        end="end",
    )
    assert [cut.tensor for cut in cuts(model)] == ["b"]


def test_a_bert_may_be_cut_after_attention_and_after_each_layer(tmp_path: Path) -> None:
    found = cuts(classifier(tmp_path))
    norms = [cut.tensor.startswith("LayerNormalization") for cut in found]
    assert norms == [True] * 3
    shares = [cut.share for cut in found]
    assert shares == sorted(shares)
    assert 0.4 < shares[1] < 0.55


def paths(model: onnx.ModelProto) -> Iterator[list[str]]:
    """Every path of tensors from a node that takes a weight first, to the output."""
    weights = {w.name for w in model.graph.initializer if len(w.dims) >= 2}
    made = {name for node in model.graph.node for name in node.output}
    (end,) = (value.name for value in model.graph.output)

    def on(path: list[str]) -> Iterator[list[str]]:
        if path[-1] == end:
            yield path
        for node in model.graph.node:
            if path[-1] in node.input:
                yield from on([*path, node.output[0]])

    for node in model.graph.node:
        if weights.intersection(node.input) and not made.intersection(node.input):
            yield from on([node.output[0]])


def test_places_are_on_every_path(tmp_path: Path) -> None:
    """Against all paths of the tiny model, one by one."""
    model = classifier(tmp_path)
    common = set.intersection(*(set(path) for path in paths(model)))
    assert {cut.tensor for cut in cuts(model)} <= common
    norms = {n.output[0] for n in model.graph.node if n.op_type == "LayerNormalization"}
    # The first knows only words, and nothing is spared behind the last.
    assert len(norms & common) == len(cuts(model)) + 2
