"""Model families not known here: read by the usual keys, refused where config.json has more that may matter."""

import re

from cascadia_sim.models.families import words
from cascadia_sim.models.fields import Fields

KNOWN = words(
    "llama llama4 llama4_text mistral mistral3 mixtral qwen qwen2 qwen2_moe qwen2_vl qwen2_5_vl qwen3 qwen3_moe",
    "qwen3_vl qwen3_vl_text qwen3_vl_moe qwen3_vl_moe_text gemma gemma2 gemma3 gemma3_text phi phi3 phi3small",
    "phimoe deepseek_v2 deepseek_v3 deepseek_v32 kimi_k2 kimi_k25 glm glm4 glm4_moe glm_moe_dsa chatglm gpt_oss",
    "gpt2 gptj gpt_neo gpt_neox gpt_bigcode opt bloom falcon mpt starcoder2 stablelm olmo olmo2 olmo3 olmoe",
    "cohere cohere2 granite granitemoe nemotron minimax_m2 exaone exaone4 internlm2 baichuan dbrx smollm3",
    "seed_oss persimmon codegen mllama mllama_text_model",
)

# What is read under other families' names, or changes no cost.
_READ = words(
    "num_hidden_layers n_layer n_layers num_layers hidden_size n_embd d_model dim num_attention_heads n_head",
    "n_heads num_heads num_key_value_heads num_kv_heads n_head_kv multi_query_group_num kv_n_heads head_dim",
    "kv_channels v_head_dim intermediate_size_mlp ff_intermediate_size intermediate_size ffn_hidden_size n_inner",
    "ffn_dim vocab_size padded_vocab_size max_position_embeddings n_positions n_ctx max_seq_len seq_length",
    "model_max_length num_local_experts num_experts n_routed_experts moe_num_experts num_experts_per_tok",
    "experts_per_token moe_top_k moe_k moe_topk num_experts_per_token moe_intermediate_size",
    "expert_intermediate_size shared_expert_intermediate_size shared_intermediate_size n_shared_experts",
    "num_shared_experts num_shared_expert moe_num_shared_experts first_k_dense_replace moe_layer_start_index",
    "moe_layer_freq decoder_sparse_step interleave_moe_layer_step mlp_only_layers num_dense_layers layer_types",
    "kv_lora_rank q_lora_rank qk_nope_head_dim qk_rope_head_dim qk_head_dim sliding_window attention_chunk_size",
    "max_window_layers sliding_window_pattern _sliding_window_pattern num_nextn_predict_layers n_group topk_group",
    "num_expert_group pretraining_tp top_k num_beams num_beam_groups num_return_sequences chunk_size_feed_forward",
    "hidden_act hidden_activation ep_size rotary_dim rope_head_dim attn_logit_softcapping num_logits_to_keep",
    "original_max_position_embeddings index_n_heads index_head_dim index_topk",
)
_SIZES = re.compile(
    r"(size|dim|rank|hidden|width|layers?|heads?|experts?|expert_num|kernel|state|groups?|ratio|period|interval|offset"
    r"|latent|topk|top_k|freq|num)$|^(n_|num_|moe_|mamba|ssm|conv|linear|index|attn_)"
)
_BY_LAYER = re.compile(r"(types?|pattern|ratios?|layers?)$")
_HARMLESS = re.compile(
    r"_token_id$|^(rope|max_|image|vision|video|audio|mm_|torch|rotary|router|model_type|output|initializer|tokenizer|"
    r"problem_type|mlp_bias|scoring|topk_method|decoder_start|hidden_dropout|attn_pdrop|attention_dropout|mtp)"
)


def refuse_unknown(fields: Fields) -> None:
    """Raises `ArchitectureError` where a family that is not known has sizes that nobody here knows how to count."""
    family = fields.text("model_type")
    if not family or family in KNOWN:
        return
    for name, value in fields.values.items():
        if name in _READ or _HARMLESS.search(name) or not _is_size(name, value):
            continue
        raise fields.error(
            f"{name} of model_type {family!r} is not known, so its parameters cannot be counted",
            "use a model of a known family, or, where it changes no size, remove the field from a copy of the config",
        )


def _is_size(name: str, value: object) -> bool:
    """A number by its name; a list or a text where it tells of layers one by one."""
    if isinstance(value, list):
        return bool(value) and _BY_LAYER.search(name) is not None
    if isinstance(value, str):
        return name.endswith("pattern")
    return isinstance(value, int) and value not in (0, 1) and _SIZES.search(name) is not None
