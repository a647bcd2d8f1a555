"""A classifier of random weights on the tiny encoder, as an ONNX graph, and batches for it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

from cascadia.ramps.session import open_session
from cascadia_judge.encoder.graph import IDS, SUMS, THERE, bert_graph
from tests.unit.judge.tiny_encoder import HIDDEN, WORDS, write

CLASSES = 3


def classifier(folder: Path) -> ModelProto:
    """Softmax of a linear map of the sum of the last layer's tokens."""
    write(folder)
    config = json.loads((folder / "config.json").read_text())
    model = bert_graph(config, load_file(folder / "model.safetensors"), "tiny")
    sums = open_session(model).run([SUMS], batch(200, 1))[0]
    # Of the usual text nothing is said; what differs from it decides.
    head = np.random.default_rng(3).normal(0, 2, (HIDDEN, CLASSES)) / sums.std(axis=0)[:, None]
    graph = model.graph
    graph.initializer.extend(
        numpy_helper.from_array(values.astype(np.float32), name)
        for name, values in (("head", head), ("offset", -sums.mean(axis=0) @ head))
    )
    graph.node.extend(
        [
            helper.make_node("Gemm", [SUMS, "head", "offset"], ["logits"]),
            helper.make_node("Softmax", ["logits"], ["probabilities"], axis=-1),
        ]
    )
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["texts", CLASSES]))
    return model


def batch(n: int, seed: int) -> dict[str, Any]:
    """Texts of one to eight words and what stands around them."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 11, n)
    there = np.arange(lengths.max())[None, :] < lengths[:, None]
    return {IDS: np.where(there, rng.integers(2, len(WORDS), there.shape), 0), THERE: there}
