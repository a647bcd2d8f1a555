"""ONNX Runtime on a graph in memory or in a file: threads that wait do not spin.

Layers are normalised apart from the sum before them: fused, the two take a sixth of a pass more in int8
(`bench_exits_serving`), and a segment, where the fusion depends on what is known of shapes, would answer with other
bits than the whole model.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import ModelProto
    from onnxruntime import InferenceSession


SLOWER = ["SkipLayerNormFusion"]


def open_session(model: "ModelProto | Path", threads: int = 1, *, arena: bool = True) -> "InferenceSession":
    """`arena`: memory of the largest batch that ever came is kept."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.enable_cpu_mem_arena = arena
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(
        model if isinstance(model, Path) else model.SerializeToString(),
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=SLOWER,
    )
