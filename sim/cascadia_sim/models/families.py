"""Defaults that a model family's code fills in where its config.json says nothing."""

from typing import Any


def words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


TIED_BY_DEFAULT = words(
    "gemma gemma2 gemma3 gemma3_text cohere cohere2 gpt2 bloom opt falcon mpt",
    "phi3small gpt_bigcode starcoder2 smollm3 granite lfm2 lfm2_moe",
)

UNGATED = words(
    "gpt2 gptj gpt_neo gpt_neox opt bloom falcon mpt phi gpt_bigcode starcoder2",
    "nemotron nemotron_h persimmon codegen",
)

# Head counts, vocabulary and windows that gemma-3's published text_config omits where they are the defaults.
_GEMMA3: dict[str, Any] = {
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "vocab_size": 262208,
    "max_position_embeddings": 131072,
    "sliding_window": 4096,
    "sliding_window_pattern": 6,
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "gemma": {"head_dim": 256},
    "gemma2": {"head_dim": 256, "sliding_window_pattern": 2},
    "gemma3_text": _GEMMA3,
    "gemma3": _GEMMA3,
    "cohere2": {"sliding_window_pattern": 4},
    "gpt_oss": {"sliding_window_pattern": 2},
    "deepseek_v32": {"index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048},
    "glm_moe_dsa": {"index_n_heads": 32, "index_head_dim": 128, "index_topk": 2048},
    "mistral": {"num_key_value_heads": 8},
    "mixtral": {"num_key_value_heads": 8},
}

# Families whose models have no layer of their own that drafts tokens, unless their config.json says how many.
DRAFT_NOTHING = words(
    "llama llama4 llama4_text qwen qwen2 qwen2_moe qwen3 qwen3_moe gemma gemma2 gemma3 gemma3_text phi phi3 phi3small",
    "phimoe mistral mixtral deepseek_v2 gpt_oss granite granitemoe granitemoehybrid jamba lfm2 lfm2_moe olmo olmo2",
    "olmo3 falcon cohere cohere2 starcoder2 smollm3 gpt2 gptj gpt_neo gpt_neox opt bloom mpt",
)

# State-space, linear-attention, encoder and encoder-decoder families: their cost is not that of a decoder's.
UNSUPPORTED = words(
    "mamba mamba2 falcon_mamba zamba zamba2 bamba falcon_h1 rwkv recurrent_gemma",
    "minimax minimax_m1 plamo2 kimi_linear",
    "bert roberta xlm-roberta distilbert albert electra deberta deberta-v2 modernbert longformer",
    "t5 mt5 umt5 bart mbart pegasus whisper bitnet vit clip siglip",
)

# Whether a layer of this type attends through a sliding window; other types are not simulated.
SUPPORTED_LAYERS = {
    "full_attention": False,
    "attention": False,
    "global": False,
    "sliding_attention": True,
    "chunked_attention": True,
    "local": True,
}
