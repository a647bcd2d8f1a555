"""Sliding windows: the layers that attend through one, and its width."""

from cascadia_sim.models.architecture import SlidingWindow
from cascadia_sim.models.families import SUPPORTED_LAYERS
from cascadia_sim.models.fields import Fields


def read_window(fields: Fields, layers: int, max_position: int) -> SlidingWindow | None:
    """Sliding window of a model; None where every layer sees the whole context, be it that the window is as
    long as the context.
    """
    windowed = _windowed_layers(fields, layers)
    tokens = fields.optional_count("sliding_window", "attention_chunk_size", least=0)
    if not tokens or not windowed or tokens >= max_position:
        return None
    return SlidingWindow(tokens, windowed)


def _windowed_layers(fields: Fields, layers: int) -> int:
    """Number of layers with a window: by the explicit list of layer types, else by the period of full layers,
    else every layer.
    """
    types = fields.values.get("layer_types")
    if types is not None:
        return _from_types(fields, types, layers)
    if not fields.flag("use_sliding_window", True):
        return 0
    if fields.values.get("use_sliding_window"):
        # Qwen2: the layers from max_window_layers on.
        return layers - min(layers, fields.count("max_window_layers", default=0, least=0))
    _, pattern = fields.find("sliding_window_pattern", "_sliding_window_pattern")
    if isinstance(pattern, str):
        # EXAONE 4 writes one period as letters, L for local: "LLLG".
        return sum(pattern[i % len(pattern)] == "L" for i in range(layers)) if pattern else 0
    if pattern is not None:
        period = fields.count("sliding_window_pattern", "_sliding_window_pattern")
        return layers - layers // period
    if fields.text("model_type") in ("llama4", "llama4_text"):
        # Llama 4 attends within chunks, but for every fourth layer; no field says so.
        return layers - layers // 4
    return layers


def _from_types(fields: Fields, types: object, layers: int) -> int:
    if not isinstance(types, list) or len(types) != layers:
        raise fields.error(
            "layer_types does not name each layer", f"list {layers} types, or remove layer_types"
        )
    windowed = 0
    for kind in types:
        sliding = SUPPORTED_LAYERS.get(kind) if isinstance(kind, str) else None
        if sliding is None:
            raise fields.error(
                f"layer type {kind!r:.40} is not simulated",
                f"use a model of {', '.join(SUPPORTED_LAYERS)} layers",
            )
        windowed += sliding
    return windowed
