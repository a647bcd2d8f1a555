"""The bundled family: MiniLM cut after layers 1, 2, 4 and 6, as classifiers of one task and as rerankers.

What was learned is bundled: low-rank corrections of the encoder's matrices (Hu et al. 2021, LoRA) and a head for each
cut, 0.7 MB in halves. `tests/benchmarks/train_family.py` learned them together, in minutes. The encoder itself comes
from the model catalogue, so that here matrices are added, cut and written as ONNX, and nothing is trained.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.errors import BadInput
from cascadia.files.scratch import scratch
from cascadia.onepass.graph import Head, Weights, one_pass_graph
from cascadia.onepass.model import GRAPH, TOKENIZER, OnePassModel, Precision, Task, write_about

ENCODER = "minilm-l6-v2"
"""In the model catalogue."""
CUTS = (1, 2, 4, 6)
MATRICES = (
    *("attention.self.query", "attention.self.key", "attention.self.value"),
    *("attention.output.dense", "intermediate.dense", "output.dense"),
)
SCALE = 8.0
"""A head sees vectors of this length; it is part of the bundled heads."""
TOKENS_MAX = 256
SHA256 = "94f2d33afcb945bb5ad1ac15553cc7729036a9a2e312a50269a08ae8fccb4d4f"
"""Of the bundled file."""


@dataclass(frozen=True, slots=True)
class Family:
    """A learned family: `labels`, and arrays by name."""

    labels: tuple[str, ...]
    arrays: Mapping[str, NDArray[np.float32]]

    def head(self, cut: int) -> Head:
        return Head(self.arrays[f"head_{cut}"], self.arrays[f"bias_{cut}"])

    def corrected(self, weights: Weights, layers: int) -> dict[str, NDArray[Any]]:
        """`weights` of the first `layers` with what was learned added; the others stay."""
        found = dict(weights)
        for layer in range(layers):
            for matrix in MATRICES:
                key = f"{layer}_{matrix}".replace(".", "_")
                change = self.arrays[f"up_{key}"].astype(np.float64) @ self.arrays[f"down_{key}"].astype(
                    np.float64
                )
                name = f"encoder.layer.{layer}.{matrix}.weight"
                found[name] = (found[name] + change).astype(np.float32)
        return found


def bundled_family() -> Family:
    """Raises `BadInput` where the bundled file is not the one of this release."""
    path = files("cascadia.onepass").joinpath("data", "family.npz")
    content = path.read_bytes()
    if (found := sha256(content).hexdigest()) != SHA256:
        raise BadInput(str(path), f"has SHA-256 {found[:12]}…, not {SHA256[:12]}…", "install Cascadia anew")
    with np.load(BytesIO(content), allow_pickle=False) as loaded:
        labels = tuple(map(str, loaded["labels"]))
        arrays = {name: loaded[name].astype(np.float32) for name in loaded.files if name != "labels"}
    return Family(labels, arrays)


def model_name(task: Task, cut: int, precision: Precision) -> str:
    """`intent-4`, `intent-4-int8`, `rank-6`, ..."""
    kind = "intent" if task == "classify" else "rank"
    return f"{kind}-{cut}" + ("-int8" if precision == "int8" else "")


def make_family(
    encoder: Path, out: Path, tasks: tuple[Task, ...], precisions: tuple[Precision, ...]
) -> Iterator[Path]:
    """Writes a folder under `out` for each model, and yields it. `encoder` is a folder as Hugging Face lays it out.

    A reranker has the encoder's own weights: its vectors are compared, and the last layer was trained for that.
    """
    from safetensors.numpy import load_file

    config = json.loads((encoder / "config.json").read_bytes())
    weights = load_file(encoder / "model.safetensors")
    family = bundled_family()
    for task in tasks:
        for cut in CUTS:
            learned = family.corrected(weights, cut) if task == "classify" else weights
            head = family.head(cut) if task == "classify" else None
            graph = one_pass_graph(config, learned, cut, head, str(encoder))
            for precision in precisions:
                name = model_name(task, cut, precision)
                folder = out / name
                folder.mkdir(parents=True, exist_ok=True)
                _save(graph, folder / GRAPH, precision)
                copyfile(encoder / TOKENIZER, folder / TOKENIZER)
                labels = family.labels if task == "classify" else ()
                # Last: a folder that has it is whole.
                write_about(OnePassModel(name, task, labels, TOKENS_MAX, cut, precision), folder)
                yield folder


def _save(graph: Any, path: Path, precision: Precision) -> None:
    import onnx

    if precision == "fp32":
        onnx.save(graph, path)
        return
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with scratch("int8-") as folder:
        whole = folder / GRAPH
        marked = onnx.ModelProto()
        marked.CopyFrom(graph)
        # Of a graph made here there is nothing to prepare; without this it is advised to.
        onnx.helper.set_model_props(marked, {"onnx.quant.pre_process": "onnxruntime.quant"})
        onnx.save(marked, whole)
        quantize_dynamic(
            whole,
            path,
            weight_type=QuantType.QInt8,
            # Gather too: the table of words is half of the weights.
            op_types_to_quantize=["MatMul", "Gather"],
            per_channel=True,
        )
