"""A Llama in numpy, by layers: T new tokens of one sequence go through some of the layers, and what they write into the
KV cache stays.

Hidden states h (T, d). A layer: h += attention(norm(h)), h += silu(norm(h) G) * (norm(h) U) D. Attention is grouped and
causal over the positions that the cache holds for this layer; rotary positions turn halves of a head against each
other. Weights are (out, in), as checkpoints store them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
LAYER = {
    "attention_norm": "input_layernorm",
    "mlp_norm": "post_attention_layernorm",
    "query": "self_attn.q_proj",
    "key": "self_attn.k_proj",
    "value": "self_attn.v_proj",
    "out": "self_attn.o_proj",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
"""Our names, and those of checkpoints."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a Llama, of its config.json."""

    layers: int
    heads: int
    kv_heads: int
    head: int
    rope_base: float
    epsilon: float


@dataclass(frozen=True, slots=True, eq=False)
class Llama:
    """`layers` by our names; `head` (vocabulary, d) may be `embedding` itself."""

    shape: Shape
    embedding: Array
    norm: Array
    head: Array
    layers: tuple[Mapping[str, Array], ...]

    def logits(self, hidden: Array) -> Array:
        """(T, vocabulary): what the model would say if it ended here. A ramp of Apparate's is this very head."""
        return np.asarray(_normed(hidden, self.norm, self.shape.epsilon) @ self.head.T)

    def through(self, hidden: Array, positions: list[int], first: int, last: int, cache: "Cache") -> Array:
        """Hidden states behind layers `first` to `last` - 1, which write keys and values of `positions`."""
        at = np.array(positions)
        turn = _turns(at, self.shape)
        for layer in range(first, last):
            weights = self.layers[layer]
            seen = _normed(hidden, weights["attention_norm"], self.shape.epsilon)
            hidden = hidden + self._attended(seen, at, turn, weights, cache.layers[layer])
            seen = _normed(hidden, weights["mlp_norm"], self.shape.epsilon)
            gate = seen @ weights["gate"].T
            hidden = hidden + (gate / (1.0 + np.exp(-gate)) * (seen @ weights["up"].T)) @ weights["down"].T
        return hidden

    def _attended(
        self, seen: Array, at: NDArray[np.int64], turn: Array, weights: Mapping[str, Array], kept: "Kept"
    ) -> Array:
        shape, count = self.shape, len(at)
        query = _turned((seen @ weights["query"].T).reshape(count, shape.heads, shape.head), turn)
        key = _turned((seen @ weights["key"].T).reshape(count, shape.kv_heads, shape.head), turn)
        kept.write(at, key, (seen @ weights["value"].T).reshape(count, shape.kv_heads, shape.head))
        group = shape.heads // shape.kv_heads
        query = query.reshape(count, shape.kv_heads, group, shape.head)
        end = int(at.max()) + 1
        scores = np.einsum("tkgh,skh->kgts", query, kept.keys[:end]) / np.sqrt(shape.head)
        # Causal, and only over what this layer has seen.
        hidden_from = (np.arange(end)[None, :] > at[:, None]) | ~kept.there[:end][None, :]
        scores = np.where(hidden_from, -np.inf, scores)
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        found = np.einsum("kgts,skh->tkgh", scores, kept.values[:end]).reshape(count, -1)
        return np.asarray(found @ weights["out"].T)


class Kept:
    """Keys and values (positions, kv heads, head) of one layer; `there` says which positions have been written."""

    def __init__(self, positions: int, shape: Shape) -> None:
        size = (positions, shape.kv_heads, shape.head)
        self.keys, self.values = np.zeros(size, np.float32), np.zeros(size, np.float32)
        self.there = np.zeros(positions, np.bool_)

    def write(self, at: NDArray[np.int64], keys: Array, values: Array) -> None:
        self.keys[at], self.values[at], self.there[at] = keys, values, True


class Cache:
    """KV cache of one sequence of at most `positions` tokens."""

    def __init__(self, positions: int, shape: Shape) -> None:
        self.layers = tuple(Kept(positions, shape) for _ in range(shape.layers))


def read_llama(folder: Path) -> Llama:
    """Reads config.json and model.safetensors in float32, float16 or bfloat16."""
    config = json.loads((folder / "config.json").read_text())
    heads = config["num_attention_heads"]
    rope = config.get("rope_theta") or config["rope_parameters"]["rope_theta"]
    shape = Shape(
        config["num_hidden_layers"],
        heads,
        config["num_key_value_heads"],
        head=config.get("head_dim") or config["hidden_size"] // heads,
        rope_base=float(rope),
        epsilon=config["rms_norm_eps"],
    )
    found = _tensors(folder / "model.safetensors")
    layers = tuple(
        {ours: found[f"model.layers.{layer}.{theirs}.weight"] for ours, theirs in LAYER.items()}
        for layer in range(shape.layers)
    )
    embedding = found["model.embed_tokens.weight"]
    head = found.get("lm_head.weight", embedding)
    return Llama(shape, embedding, norm=found["model.norm.weight"], head=head, layers=layers)


def _tensors(file: Path) -> dict[str, Array]:
    """All tensors as float32. numpy knows no bfloat16: its 16 bits are the upper ones of a float32."""
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    found: dict[str, Array] = {}
    for name, told in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + at for at in told["data_offsets"])
        raw = content[begin:end]
        if told["dtype"] == "BF16":
            values = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(raw, {"F32": "<f4", "F16": "<f2"}[told["dtype"]]).astype(np.float32)
        found[name] = values.reshape(told["shape"])
    return found


def _normed(hidden: Array, weight: Array, epsilon: float) -> Array:
    return np.asarray(hidden / np.sqrt(np.square(hidden).mean(axis=-1, keepdims=True) + epsilon) * weight)


def _turns(at: NDArray[np.int64], shape: Shape) -> Array:
    """(2, T, 1, head): cosines and sines of the rotary positions."""
    half = np.arange(shape.head // 2) / (shape.head // 2)
    angle = at[:, None] / shape.rope_base**half
    angle = np.concatenate([angle, angle], axis=1)[:, None, :]
    return np.stack([np.cos(angle), np.sin(angle)]).astype(np.float32)


def _turned(values: Array, turn: Array) -> Array:
    one, other = np.split(values, 2, axis=-1)
    return np.asarray(values * turn[0] + np.concatenate([-other, one], axis=-1) * turn[1])
