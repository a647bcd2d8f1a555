"""Trains a small Llama on bytes with a loss behind every layer, as LayerSkip and FREE do: `PYTHON_WITH_TORCH
tests/benchmarks/train_exit_llama.py OUT SECONDS TEXT...`. Writes OUT/config.json and OUT/model.safetensors.

Needs torch and safetensors, which Cascadia does not: any environment that has them can run this file alone.
"""

import json
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

LAYERS, WIDTH, HEADS, KV_HEADS, INNER, WORDS = 6, 192, 6, 2, 512, 256
CONTEXT, BATCH, RATE = 96, 6, 3e-3
EARLY = 0.3
"""Weight of each early exit's loss; the last layer's is 1."""
HEAD, BASE, EPSILON = WIDTH // HEADS, 10_000.0, 1e-5


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = (nn.RMSNorm(WIDTH, EPSILON) for _ in "ab")
        self.self_attn, self.mlp = nn.Module(), nn.Module()
        for name, size in (("q", WIDTH), ("k", KV_HEADS * HEAD), ("v", KV_HEADS * HEAD), ("o", WIDTH)):
            setattr(self.self_attn, f"{name}_proj", nn.Linear(WIDTH, size, bias=False))
        self.mlp.gate_proj, self.mlp.up_proj = (nn.Linear(WIDTH, INNER, bias=False) for _ in "ab")
        self.mlp.down_proj = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, hidden: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
        seen, a = self.input_layernorm(hidden), self.self_attn
        count = hidden.shape[1]
        query = turned(a.q_proj(seen).view(-1, count, HEADS, HEAD).transpose(1, 2), turn)
        key = turned(a.k_proj(seen).view(-1, count, KV_HEADS, HEAD).transpose(1, 2), turn)
        value = a.v_proj(seen).view(-1, count, KV_HEADS, HEAD).transpose(1, 2)
        found = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        hidden = hidden + a.o_proj(found.transpose(1, 2).reshape(-1, count, WIDTH))
        seen, m = self.post_attention_layernorm(hidden), self.mlp
        return hidden + m.down_proj(F.silu(m.gate_proj(seen)) * m.up_proj(seen))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(WORDS, WIDTH)
        nn.init.normal_(self.embed_tokens.weight, std=0.05)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH, EPSILON)
        angle = torch.arange(CONTEXT)[:, None] / BASE ** (torch.arange(HEAD // 2) / (HEAD // 2))
        angle = torch.cat([angle, angle], dim=1)
        self.register_buffer("turn", torch.stack([angle.cos(), angle.sin()]), persistent=False)

    def losses(self, tokens: torch.Tensor) -> list[torch.Tensor]:
        """One a layer, by the head that the last one has."""
        hidden, found = self.embed_tokens(tokens[:, :-1]), []
        for layer in self.layers:
            hidden = layer(hidden, self.turn)
            logits = self.norm(hidden) @ self.embed_tokens.weight.T
            found.append(F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()))
        return found


def turned(values: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    one, other = values.chunk(2, dim=-1)
    return values * turn[0] + torch.cat([-other, one], dim=-1) * turn[1]


def main(out: Path, seconds: float, texts: list[Path]) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    text = torch.frombuffer(
        bytearray(b"\n".join(path.read_bytes() for path in texts)), dtype=torch.uint8
    ).long()
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.01)
    began_s, steps = time.process_time(), 0
    while (spent := (time.process_time() - began_s) / seconds) < 1:
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (steps + 1) / 50) * max(0.05, 1 - spent)
        at = torch.randint(len(text) - CONTEXT - 1, (BATCH,))
        found = model.losses(torch.stack([text[i : i + CONTEXT + 1] for i in at]))
        optimizer.zero_grad()
        (found[-1] + EARLY * sum(found[:-1])).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        steps += 1
        if steps % 100 == 0:
            print(steps, *(f"{loss.item():.2f}" for loss in found), flush=True)
    out.mkdir(parents=True, exist_ok=True)
    tensors = {f"model.{name}": value.detach().contiguous() for name, value in model.named_parameters()}
    save_file(tensors, out / "model.safetensors")
    config = {"num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS}
    config |= {"hidden_size": WIDTH, "rope_theta": BASE, "rms_norm_eps": EPSILON}
    (out / "config.json").write_text(json.dumps(config))
    print(f"{steps} steps over {len(text):,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), [Path(each) for each in sys.argv[3:]])
