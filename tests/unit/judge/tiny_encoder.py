"""A sentence encoder of random weights, as files; and the same arithmetic told slowly, one number at a time."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "what",
    "is",
    "two",
    "and",
    "four",
    "paris",
    "##s",
    "?",
    "the",
    "no",
    "cat",
]
HIDDEN, HEADS, LAYERS, WIDE, PLACES = 12, 3, 2, 20, 16


def write(folder: Path, **config: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)

    def random(*shape: int) -> np.ndarray[Any, Any]:
        return rng.normal(0, 0.5, shape).astype(np.float32)

    weights = {
        "embeddings.word_embeddings.weight": random(len(WORDS), HIDDEN),
        "embeddings.position_embeddings.weight": random(PLACES, HIDDEN),
        "embeddings.token_type_embeddings.weight": random(2, HIDDEN),
    }
    norms, linears = ["embeddings.LayerNorm"], {}
    for i in range(LAYERS):
        at = f"encoder.layer.{i}"
        linears |= {f"{at}.attention.self.{part}": (HIDDEN, HIDDEN) for part in ("query", "key", "value")}
        linears |= {
            f"{at}.attention.output.dense": (HIDDEN, HIDDEN),
            f"{at}.intermediate.dense": (WIDE, HIDDEN),
            f"{at}.output.dense": (HIDDEN, WIDE),
        }
        norms += [f"{at}.attention.output.LayerNorm", f"{at}.output.LayerNorm"]
    for name, shape in linears.items():
        weights |= {f"{name}.weight": random(*shape), f"{name}.bias": random(shape[0])}
    for name in norms:
        weights |= {f"{name}.weight": 1 + random(HIDDEN), f"{name}.bias": random(HIDDEN)}
    save_file(weights, folder / "model.safetensors")
    settings = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "layer_norm_eps": 1e-12,
    }
    (folder / "config.json").write_text(json.dumps(settings | config))
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def slowly(folder: Path, ids: list[int]) -> list[float]:
    """The mean over the last layer's tokens, of length 1, in plain Python and double precision."""
    w = {
        name: value.astype(float).tolist() for name, value in load_file(folder / "model.safetensors").items()
    }

    def linear(name: str, x: list[float]) -> list[float]:
        rows, bias = w[f"{name}.weight"], w[f"{name}.bias"]
        return [
            sum(a * b for a, b in zip(row, x, strict=True)) + c for row, c in zip(rows, bias, strict=True)
        ]

    def norm(name: str, x: list[float]) -> list[float]:
        mean = sum(x) / len(x)
        deviation = math.sqrt(sum((v - mean) ** 2 for v in x) / len(x) + 1e-12)
        scale, shift = w[f"{name}.weight"], w[f"{name}.bias"]
        return [(v - mean) / deviation * a + b for v, a, b in zip(x, scale, shift, strict=True)]

    def plus(x: list[float], y: list[float]) -> list[float]:
        return [a + b for a, b in zip(x, y, strict=True)]

    words, places = w["embeddings.word_embeddings.weight"], w["embeddings.position_embeddings.weight"]
    kind = w["embeddings.token_type_embeddings.weight"][0]
    x = [norm("embeddings.LayerNorm", plus(plus(words[t], places[i]), kind)) for i, t in enumerate(ids)]
    size = HIDDEN // HEADS
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        query, key, value = (
            [linear(f"{at}.attention.self.{part}", v) for v in x] for part in ("query", "key", "value")
        )
        attended = []
        for i in range(len(x)):
            joined: list[float] = []
            for head in range(HEADS):
                part = slice(head * size, (head + 1) * size)
                dots = [
                    sum(a * b for a, b in zip(query[i][part], key[j][part], strict=True)) / math.sqrt(size)
                    for j in range(len(x))
                ]
                powers = [math.exp(d) for d in dots]
                joined += [
                    sum(p * value[j][part][n] for j, p in enumerate(powers)) / sum(powers)
                    for n in range(size)
                ]
            attended.append(joined)
        x = [
            norm(f"{at}.attention.output.LayerNorm", plus(v, linear(f"{at}.attention.output.dense", a)))
            for v, a in zip(x, attended, strict=True)
        ]
        wide = [
            [0.5 * u * (1 + math.erf(u / math.sqrt(2))) for u in linear(f"{at}.intermediate.dense", v)]
            for v in x
        ]
        x = [
            norm(f"{at}.output.LayerNorm", plus(v, linear(f"{at}.output.dense", u)))
            for v, u in zip(x, wide, strict=True)
        ]
    mean = [sum(column) / len(x) for column in zip(*x, strict=True)]
    length = math.sqrt(sum(v * v for v in mean))
    return [v / length for v in mean]
