"""A one-pass model of a few kilobytes, with random weights: real in all but what it knows."""

from pathlib import Path

import numpy as np
import onnx
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from cascadia.onepass.graph import Head, one_pass_graph
from cascadia.onepass.model import GRAPH, TOKENIZER, OnePassModel, Task, write_about

SIZE, WIDE, LABELS = 8, 16, ("cats", "dogs", "fish")
CONFIG = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "layer_norm_eps": 1e-12,
}
WORDS = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3} | {f"w{n}": 4 + n for n in range(20)}


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    shapes = {
        "embeddings.word_embeddings.weight": (len(WORDS), SIZE),
        "embeddings.position_embeddings.weight": (32, SIZE),
        "embeddings.token_type_embeddings.weight": (2, SIZE),
    }
    for layer in range(2):
        at = f"encoder.layer.{layer}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes |= {f"{at}.attention.{part}.weight": (SIZE, SIZE), f"{at}.attention.{part}.bias": (SIZE,)}
        shapes |= {f"{at}.intermediate.dense.weight": (WIDE, SIZE), f"{at}.intermediate.dense.bias": (WIDE,)}
        shapes |= {f"{at}.output.dense.weight": (SIZE, WIDE), f"{at}.output.dense.bias": (SIZE,)}
    found = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    norms = ["embeddings"]
    norms += [f"encoder.layer.{n}{part}.output" for n in range(2) for part in ("", ".attention")]
    for name in norms:
        found |= {f"{name}.LayerNorm.weight": np.ones(SIZE, np.float32)}
        found |= {f"{name}.LayerNorm.bias": np.zeros(SIZE, np.float32)}
    return found


def little_model(folder: Path, name: str = "little", task: Task = "classify", layers: int = 1) -> Path:
    """Writes the model into `folder` / `name`."""
    at = folder / name
    at.mkdir(parents=True)
    rng = np.random.default_rng(2)
    head = Head(rng.normal(size=(3, SIZE)).astype(np.float32), np.zeros(3, np.float32))
    graph = one_pass_graph(CONFIG, weights(), layers, head if task == "classify" else None, "here")
    onnx.save(graph, at / GRAPH)
    tokenizer = Tokenizer(WordLevel(WORDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(at / TOKENIZER))
    labels = LABELS if task == "classify" else ()
    write_about(OnePassModel(name, task, labels, 8, layers, "fp32"), at)
    return at
