"""A model in segments, cut at its active ramps, each with the ramp at its end: ONNX graphs made of the model's own
nodes.

A segment takes the model's inputs and the tensor at which the one before it ended. Nodes that make masks and shapes
are in every segment that needs them. Weights are the model's, bit for bit.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cascadia.ramps.ramp import Ramp

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto

LABEL, DOUBT, CHANCES = "ramp label", "ramp doubt", "ramp chances"
"""Of a ramp: its label and its doubt (inputs, 1, 1), its probabilities (inputs, 1, classes)."""
_MASKS = ("there", "attention_mask")
"""Inputs (inputs, tokens) that say where a token is."""


def segments(model: "ModelProto", ramps: Sequence[Ramp]) -> list["ModelProto"]:
    """One more than there are ramps. All but the last end in their ramp's tensor and readings."""
    starts = [None, *_known(model, [ramp.tensor for ramp in ramps])]
    found = [
        _segment(model, start, [ramp.tensor], _readings(model, ramp), [CHANCES, LABEL, DOUBT])
        for start, ramp in zip(starts, ramps, strict=False)
    ]
    outputs = [value.name for value in model.graph.output]
    return [*found, _segment(model, starts[-1], outputs, ([], []), [])]


def alone(model: "ModelProto", ramp: Ramp) -> "ModelProto":
    """A ramp without the segment before it."""
    (start,) = _known(model, [ramp.tensor])
    return _segment(model, start, [], _readings(model, ramp), [CHANCES, LABEL, DOUBT])


def pooled(model: "ModelProto", tensors: Sequence[str]) -> "ModelProto":
    """The model, with what a ramp at each of `tensors` would look at as further outputs."""
    nodes: list[NodeProto] = []
    constants: list[TensorProto] = []
    names = []
    for at, tensor in enumerate(tensors):
        made, needed = _pooled(model, tensor, f"pooled {at}")
        nodes += made
        constants += needed
        names.append(f"pooled {at}")
    outputs = [value.name for value in model.graph.output]
    return _segment(model, None, outputs, (nodes, constants), names)


def summed(model: "ModelProto", tensor: str, into: str) -> "ModelProto":
    """The model up to `tensor`, and the sum of its tokens there `into` (inputs, size)."""
    from onnx import helper

    mask = mask_of(model)
    if mask is None:
        raise ValueError("nothing says which tokens are there")
    nodes, constants = _pooled(model, tensor, "ramp seen")
    axis = _constant("ramp axis", np.array([1]))
    product = helper.make_node("Mul", ["ramp seen", "ramp seen count"], ["ramp sum"])
    flat = helper.make_node("Squeeze", ["ramp sum", axis.name], [into])
    return _segment(model, None, [], ([*nodes, product, flat], [*constants, axis]), [into])


def mask_of(model: "ModelProto") -> str | None:
    """The input that says where a token is; None where the model has none."""
    return next((value.name for value in model.graph.input if value.name in _MASKS), None)


def _segment(
    model: "ModelProto",
    start: "ValueInfoProto | None",
    ends: Sequence[str],
    added: tuple[list["NodeProto"], list["TensorProto"]],
    outputs: Sequence[str],
) -> "ModelProto":
    """Nodes between `start` and `ends`, with those `added`, whose `outputs` come out besides."""
    from onnx import helper

    more, constants = added
    wanted = {*ends, *(name for node in more for name in node.input)}
    nodes = []
    # ONNX wants each node behind those that it reads, so that one pass backwards finds all that is needed.
    for node in reversed(model.graph.node):
        if (start is None or start.name not in node.output) and any(name in wanted for name in node.output):
            nodes.append(node)
            wanted.update(node.input)
    nodes.reverse()
    inputs = [value for value in model.graph.input if value.name in wanted]
    if start is not None and start.name in wanted:
        inputs.append(start)
    given = {value.name: value for value in model.graph.output}
    graph = helper.make_graph(
        [*nodes, *more],
        "segment",
        inputs,
        [*(given.get(name, _floats(name)) for name in ends), *(_value(name) for name in outputs)],
        [*(tensor for tensor in model.graph.initializer if tensor.name in wanted), *constants],
    )
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def _known(model: "ModelProto", names: Sequence[str]) -> list["ValueInfoProto"]:
    """Tensors with their shapes. Where a segment does not say how wide its input is, ONNX Runtime fuses otherwise than
    in the whole model: more slowly, and with other bits in int8.
    """
    from onnx import shape_inference

    found = {value.name: value for value in shape_inference.infer_shapes(model).graph.value_info if names}
    return [found.get(name, _floats(name)) for name in names]


def _floats(name: str) -> "ValueInfoProto":
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


def _value(name: str) -> "ValueInfoProto":
    from onnx import TensorProto, helper

    kind = TensorProto.INT64 if name == LABEL else TensorProto.FLOAT
    return helper.make_tensor_value_info(name, kind, None)


def _readings(model: "ModelProto", ramp: Ramp) -> tuple[list["NodeProto"], list["TensorProto"]]:
    """Pooling, the linear head, and its label and doubt."""
    from onnx import helper

    nodes, constants = _pooled(model, ramp.tensor, "ramp seen")
    constants += [
        _constant("ramp weight", ramp.weight.T),
        _constant("ramp bias", ramp.bias),
        _constant("ramp one", np.float32(1)),
        _constant("ramp first", np.array([1])),
    ]
    make = helper.make_node
    return [
        *nodes,
        make("MatMul", ["ramp seen", "ramp weight"], ["ramp product"]),
        make("Add", ["ramp product", "ramp bias"], ["ramp logits"]),
        make("Softmax", ["ramp logits"], [CHANCES], axis=-1),
        make("TopK", [CHANCES, "ramp first"], ["ramp most", LABEL], axis=-1),
        make("Sub", ["ramp one", "ramp most"], [DOUBT]),
    ], constants


def _pooled(model: "ModelProto", tensor: str, into: str) -> tuple[list["NodeProto"], list["TensorProto"]]:
    """The mean over the tokens that are there (inputs, 1, size); the first token's vector where nothing says which are
    (BERT's pooler). A product with the mask is half the time of a masked sum.
    """
    from onnx import TensorProto, helper

    make = helper.make_node
    mask = mask_of(model)
    if mask is None:
        first = _constant(f"{into} first", np.array([0]))
        return [make("Gather", [tensor, first.name], [into], axis=1)], [first]
    axis, last = _constant(f"{into} tokens", np.array([1])), _constant(f"{into} last", np.array([2]))
    return [
        make("Cast", [mask], [f"{into} mask"], to=TensorProto.FLOAT),
        make("Unsqueeze", [f"{into} mask", axis.name], [f"{into} there"]),
        make("ReduceSum", [f"{into} there", last.name], [f"{into} count"], keepdims=1),
        make("MatMul", [f"{into} there", tensor], [f"{into} sum"]),
        make("Div", [f"{into} sum", f"{into} count"], [into]),
    ], [axis, last]


def _constant(name: str, values: Any) -> "TensorProto":
    from onnx import numpy_helper

    return numpy_helper.from_array(
        np.ascontiguousarray(values) if np.ndim(values) else np.array(values), name
    )
