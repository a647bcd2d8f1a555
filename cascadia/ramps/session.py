"""ONNX Runtime on a graph in memory: threads that wait do not spin."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import ModelProto
    from onnxruntime import InferenceSession


def open_session(model: "ModelProto", threads: int = 1) -> "InferenceSession":
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
