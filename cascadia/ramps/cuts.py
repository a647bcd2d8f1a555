"""Places for ramps in an ONNX graph: its cut vertices (Apparate section 3.1), found, not listed.

A *carrier* is a tensor that is computed with a weight: what is made of the inputs alone (masks, shapes) is cheap,
and is made again behind a ramp. A carrier is a cut vertex where every path of carriers to an output leads through
it, so that no edge starts before it and comes back behind it. Paths are counted exactly: t is on all of them if and
only if paths(sources to t) x paths(t to outputs) = paths(sources to outputs).

Of cut vertices between which no weight is multiplied only the last is a place, since the others see the same.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

PRODUCTS = ("MatMul", "Gemm", "Conv", "MatMulInteger", "QLinearMatMul", "DynamicQuantizeMatMul")
"""Operators in which the time of a pass is spent."""
EARLIEST, LATEST = 0.02, 0.95
"""A place lies behind so much of the work, at least and at most: before it no ramp knows a thing, behind it none
pays.
"""


class Cut(NamedTuple):
    """`tensor` is a place for a ramp; `share` (0-1) of the model's multiplications come before it."""

    tensor: str
    share: float


def cuts(model: "ModelProto") -> tuple[Cut, ...]:
    """Places for ramps, from first to last."""
    graph = model.graph
    weights = {tensor.name: prod(tensor.dims) for tensor in graph.initializer if len(tensor.dims) >= 2}
    carriers = _carriers(graph.node, set(weights))
    outputs = [value.name for value in graph.output if value.name in carriers]
    order = [node for node in graph.node if any(name in carriers for name in node.output)]
    before = _paths(order, carriers)
    behind = _paths([_turned(node) for node in reversed(order)], set(outputs), dict.fromkeys(outputs, 1))
    total = sum(before[name] for name in outputs)
    on_all = [
        name
        for node in order
        for name in node.output
        if name in carriers and before[name] * behind[name] == total
    ]
    done = _work_before(graph.node, weights)
    work = max(done.values(), default=0)
    return _last_of_each(on_all, done, work)


def _carriers(nodes: Sequence["NodeProto"], weights: set[str]) -> set[str]:
    carriers: set[str] = set()
    for node in nodes:
        if any(name in weights or name in carriers for name in node.input):
            carriers.update(node.output)
    return carriers


class _Turned(NamedTuple):
    input: Sequence[str]
    output: Sequence[str]


def _turned(node: "NodeProto") -> _Turned:
    return _Turned(node.output, node.input)


def _paths(
    nodes: Sequence["NodeProto | _Turned"], carriers: set[str], begun: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Paths that lead to each tensor. Forwards a node without a carrier among its inputs begins one."""
    found: dict[str, int] = defaultdict(int, begun or {})
    forwards = begun is None
    for node in nodes:
        come = sum(found[name] for name in node.input if name in found)
        for name in node.output:
            if forwards and name in carriers:
                found[name] += come or 1
            elif not forwards:
                found[name] += come
    return found


def _work_before(nodes: Sequence["NodeProto"], weights: Mapping[str, int]) -> dict[str, int]:
    """Multiplications of a token up to each tensor, its own included."""
    made: dict[str, frozenset[int]] = {}
    own = {}
    for at, node in enumerate(nodes):
        own[at] = sum(weights.get(name, 0) for name in node.input) if node.op_type in PRODUCTS else 0
        passed = frozenset().union(*(made.get(name, frozenset()) for name in node.input))
        made.update(dict.fromkeys(node.output, passed | {at} if own[at] else passed))
    return {name: sum(own[at] for at in passed) for name, passed in made.items()}


def _last_of_each(on_all: Sequence[str], done: Mapping[str, int], work: int) -> tuple[Cut, ...]:
    last = {done[name]: name for name in sorted(on_all, key=done.__getitem__)}
    shares = [Cut(name, amount / work) for amount, name in sorted(last.items())] if work else []
    return tuple(cut for cut in shares if EARLIEST <= cut.share <= LATEST)
