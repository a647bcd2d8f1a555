"""Trains what `cascadia engine make` puts on MiniLM's layers: `python -m tests.benchmarks.train_family OUT.npz`.

Needs torch (`pip install torch`), which nothing else here does: what it learns is small and is bundled, so that only
whoever wants another family trains one. One encoder gets low-rank corrections of its matrices (Hu et al. 2021) and a
head after layers 1, 2, 4 and 6, all learned together; each cut is a model of its own afterwards. Minutes of one core.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional

from cascadia.clients.hub.catalogue import model_named
from cascadia.clients.hub.fetch import fetch
from cascadia.onepass.family import CUTS, MATRICES, SCALE
from cascadia.onepass.questions import SOURCE, questions

RANK, TOKENS, BATCH, SEED = 8, 40, 32, 0
WEIGHT_OF_CUT = {1: 0.5, 2: 0.7, 4: 1.0, 6: 1.2}
RATE_HEADS, RATE_MATRICES = 2e-2, 2e-3


class Corrected(nn.Module):
    """The encoder with its own weights fixed, `down` and `up` (rank) beside each matrix, and a head a cut."""

    def __init__(self, weights: dict[str, torch.Tensor], heads: int, layers: int, classes: int) -> None:
        super().__init__()
        self.weights, self.heads = weights, heads
        self.down, self.up = nn.ParameterDict(), nn.ParameterDict()
        for layer in range(layers):
            for matrix in MATRICES:
                out, inner = weights[f"encoder.layer.{layer}.{matrix}.weight"].shape
                self.down[_key(layer, matrix)] = nn.Parameter(torch.randn(RANK, inner) / inner**0.5)
                self.up[_key(layer, matrix)] = nn.Parameter(torch.zeros(out, RANK))
        size = weights["embeddings.word_embeddings.weight"].shape[1]
        self.cuts = nn.ModuleDict({str(cut): nn.Linear(size, classes) for cut in CUTS})

    def forward(self, ids: torch.Tensor, there: torch.Tensor) -> dict[int, torch.Tensor]:
        x = self.embedded(ids)
        found = {}
        for layer in range(max(CUTS)):
            x = self.layer(x, layer, there)
            if layer + 1 in CUTS:
                mean = functional.normalize((x * there[:, :, None]).sum(1), dim=1)
                found[layer + 1] = self.cuts[str(layer + 1)](mean * SCALE)
        return found

    def embedded(self, ids: torch.Tensor) -> torch.Tensor:
        words, places, types = (
            self.weights[f"embeddings.{name}_embeddings.weight"]
            for name in ("word", "position", "token_type")
        )
        x = self.norm(words[ids] + places[: ids.shape[1]] + types[0], "embeddings.LayerNorm")
        return functional.dropout(x, 0.1, self.training)

    def layer(self, x: torch.Tensor, layer: int, there: torch.Tensor) -> torch.Tensor:
        texts, tokens, size = x.shape
        at = f"encoder.layer.{layer}"
        parts = [
            self.linear(x, layer, name).view(texts, tokens, self.heads, -1).transpose(1, 2)
            for name in MATRICES[:3]
        ]
        seen = functional.scaled_dot_product_attention(*parts, attn_mask=there[:, None, None, :])
        seen = seen.transpose(1, 2).reshape(texts, tokens, size)
        x = self.norm(x + self.linear(seen, layer, MATRICES[3]), f"{at}.attention.output.LayerNorm")
        wide = functional.gelu(self.linear(x, layer, MATRICES[4]))
        return self.norm(x + self.linear(wide, layer, MATRICES[5]), f"{at}.output.LayerNorm")

    def linear(self, x: torch.Tensor, layer: int, matrix: str) -> torch.Tensor:
        at, key = f"encoder.layer.{layer}.{matrix}", _key(layer, matrix)
        fixed = functional.linear(x, self.weights[f"{at}.weight"], self.weights[f"{at}.bias"])
        return fixed + (x @ self.down[key].T) @ self.up[key].T

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        size = x.shape[-1:]
        return functional.layer_norm(
            x, size, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], 1e-12
        )


def _key(layer: int, matrix: str) -> str:
    return f"{layer}_{matrix}".replace(".", "_")


class Texts:
    def __init__(self, tokenizer: Tokenizer) -> None:
        asked = questions(fetch(model_named(SOURCE)))
        tokenizer.no_padding()
        tokenizer.enable_truncation(TOKENS)
        self.labels = sorted({one.label for one in asked})
        self.ids = [each.ids for each in tokenizer.encode_batch([one.text for one in asked])]
        self.length = np.array(list(map(len, self.ids)))
        self.label = torch.tensor([self.labels.index(one.label) for one in asked])
        test = np.array([one.test for one in asked])
        self.train, self.test = np.flatnonzero(~test), np.flatnonzero(test)

    def batch(self, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        ids = torch.zeros(len(rows), int(self.length[rows].max()), dtype=torch.long)
        there = torch.zeros(ids.shape, dtype=torch.bool)
        for at, row in enumerate(rows):
            ids[at, : self.length[row]] = torch.tensor(self.ids[row])
            there[at, : self.length[row]] = True
        return ids, there

    def batches(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Texts of like length together, in a new order each time."""
        rows, found = rng.permutation(self.train), []
        for at in range(0, len(rows), 20 * BATCH):
            part = rows[at : at + 20 * BATCH]
            part = part[np.argsort(self.length[part])]
            found += [part[start : start + BATCH] for start in range(0, len(part), BATCH)]
        return [found[i] for i in rng.permutation(len(found))]


def accuracy(model: Corrected, texts: Texts) -> dict[int, float]:
    model.eval()
    right = dict.fromkeys(CUTS, 0)
    rows = texts.test[np.argsort(texts.length[texts.test])]
    with torch.no_grad():
        for at in range(0, len(rows), 64):
            part = rows[at : at + 64]
            for cut, logits in model(*texts.batch(part)).items():
                right[cut] += int((logits.argmax(1) == texts.label[part]).sum())
    model.train()
    return {cut: round(100 * count / len(rows), 2) for cut, count in right.items()}


def write(path: Path, model: Corrected, labels: list[str]) -> None:
    """In halves: beside the weights that they correct, the rest is nothing."""
    arrays = {f"down_{key}": value for key, value in model.down.items()}
    arrays |= {f"up_{key}": value for key, value in model.up.items()}
    for cut, head in model.cuts.items():
        arrays |= {f"head_{cut}": head.weight * SCALE, f"bias_{cut}": head.bias}
    halves = {name: value.detach().numpy().astype(np.float16) for name, value in arrays.items()}
    np.savez_compressed(path, labels=np.array(labels), **halves)


def main(path: Path, epochs: int) -> None:
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    folder = fetch(model_named("minilm-l6-v2"))
    config = json.loads((folder / "config.json").read_bytes())
    loaded = load_file(folder / "model.safetensors").items()
    weights = {name: torch.tensor(value) for name, value in loaded if value.dtype == np.float32}
    texts = Texts(Tokenizer.from_file(str(folder / "tokenizer.json")))
    model = Corrected(weights, config["num_attention_heads"], max(CUTS), len(texts.labels))
    heads = [value for name, value in model.named_parameters() if name.startswith("cuts")]
    matrices = [value for name, value in model.named_parameters() if not name.startswith("cuts")]
    optimizer = torch.optim.AdamW(
        [{"params": heads, "lr": RATE_HEADS}, {"params": matrices, "lr": RATE_MATRICES}], weight_decay=0.01
    )
    steps = epochs * (len(texts.train) // BATCH + 20)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, [RATE_HEADS, RATE_MATRICES], total_steps=steps, pct_start=0.1
    )
    rng = np.random.default_rng(SEED)
    for epoch in range(epochs):
        for step, rows in enumerate(texts.batches(rng)):
            found = model(*texts.batch(rows))
            loss = sum(
                weight * functional.cross_entropy(found[cut], texts.label[rows], label_smoothing=0.05)
                for cut, weight in WEIGHT_OF_CUT.items()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            if step % 20 == 0:
                print(epoch, step, round(float(loss.detach()), 3), round(time.process_time()), flush=True)
        print(f"epoch {epoch}: {accuracy(model, texts)} after {time.process_time():.0f} CPU-s", flush=True)
        write(path, model, texts.labels)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3)
