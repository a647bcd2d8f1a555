"""Reads an architecture from a Hugging Face config.json: dense, grouped-query, mixture, latent attention."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cascadia_sim.architecture import Architecture, LatentAttention
from cascadia_sim.config_json_experts import read_experts
from cascadia_sim.config_json_families import DEFAULTS, TIED_BY_DEFAULT, UNGATED, UNSUPPORTED
from cascadia_sim.config_json_fields import ArchitectureError, Fields
from cascadia_sim.config_json_quantization import read_quantization
from cascadia_sim.config_json_window import read_window

__all__ = ["ArchitectureError", "from_config", "read_architecture"]

MOST_LAYERS = 10_000

_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model", "dim")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num", "kv_n_heads")
_WIDTH = (
    "intermediate_size_mlp",
    "ff_intermediate_size",
    "intermediate_size",
    "ffn_hidden_size",
    "n_inner",
    "ffn_dim",
)
_CONTEXT = (
    "max_position_embeddings",
    "n_positions",
    "n_ctx",
    "max_seq_len",
    "seq_length",
    "model_max_length",
)


def read_architecture(path: Path | str) -> Architecture:
    """The architecture in the config.json at `path`, or in the folder `path`."""
    file = Path(path)
    if file.is_dir():
        file = file / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ArchitectureError(
            str(file), f"cannot be read ({error.strerror})", "write a Hugging Face id or a config.json's path"
        ) from None
    except (ValueError, RecursionError):
        raise ArchitectureError(str(file), "is no JSON", "write the path of a model's config.json") from None
    return from_config(
        config, file.resolve().parent.name if file.name == "config.json" else file.stem, str(file)
    )


def from_config(config: Mapping[str, Any], name: str, where: str | None = None) -> Architecture:
    """The architecture of one config, as a mapping; a multimodal model's `text_config` is what counts."""
    where = where or name
    if not isinstance(config, Mapping):
        raise ArchitectureError(where, "is no JSON object", "write the path of a model's config.json")
    fields = _text_fields(Fields(config, where))
    _refuse_unsupported(fields)
    layers = fields.count(*_LAYERS)
    if layers > MOST_LAYERS:
        raise fields.error(f"{layers} layers", f"write at most {MOST_LAYERS}")
    hidden = fields.count(*_HIDDEN)
    heads = fields.count(*_HEADS)
    mla = _latent_attention(fields)
    head_dim, v_head_dim = _head_dims(fields, hidden, heads, mla)
    moe = read_experts(fields, layers)
    max_position = fields.count(*_CONTEXT, default=2048)
    family = fields.text("model_type")
    return Architecture(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=_kv_heads(fields, heads),
        head_dim=head_dim,
        v_head_dim=v_head_dim,
        intermediate=0 if moe and moe.dense_layers == 0 else _width(fields, hidden),
        vocab=fields.count("vocab_size", "padded_vocab_size"),
        max_position=max_position,
        tied_embeddings=fields.flag("tie_word_embeddings", family in TIED_BY_DEFAULT),
        gated_mlp=family not in UNGATED,
        moe=moe,
        mla=mla,
        window=read_window(fields, layers, max_position),
        quantization=read_quantization(fields),
    )


def _text_fields(top: Fields) -> Fields:
    """The language model's fields: its family's defaults, the outer object, then the nested one."""
    outer = {k: v for k, v in top.values.items() if not isinstance(v, dict) or k == "quantization_config"}
    inner: dict[str, Any] = {}
    for nested in ("text_config", "llm_config", "language_config", "attn_config", "ffn_config"):
        part = top.inner(nested)
        inner |= {k: v for k, v in part.values.items() if v is not None} if part else {}
    merged = outer | inner
    family = merged.get("model_type")
    defaults = DEFAULTS.get(family, {}) if isinstance(family, str) else {}
    return Fields(defaults | {k: v for k, v in merged.items() if v is not None}, top.where)


def _refuse_unsupported(fields: Fields) -> None:
    family = fields.text("model_type")
    if family in UNSUPPORTED or fields.values.get("is_encoder_decoder") is True:
        raise fields.error(
            f"a {family or 'encoder-decoder'} model is not simulated",
            "use a decoder-only transformer (dense, GQA, MoE or MLA)",
        )
    for sign in (
        "hybrid_override_pattern",
        "ssm_cfg",
        "mamba_d_state",
        "attn_type_list",
        "linear_attn_config",
    ):
        if fields.values.get(sign) is not None:
            raise fields.error(f"{sign} marks layers without attention", "use a decoder-only transformer")


def _kv_heads(fields: Fields, heads: int) -> int:
    shared = fields.values.get("multi_query") is True and not fields.flag("new_decoder_architecture", False)
    kv_heads = fields.count(*_KV_HEADS, default=1 if shared else heads)
    if heads % kv_heads:
        raise fields.error(
            f"{heads} attention heads are not a multiple of {kv_heads} KV heads",
            "write num_key_value_heads as a divisor of num_attention_heads",
        )
    return kv_heads


def _head_dims(fields: Fields, hidden: int, heads: int, mla: LatentAttention | None) -> tuple[int, int]:
    """Dimensions of a head's key and value."""
    if mla is not None:
        return mla.nope_dim + mla.rope_dim, fields.count("v_head_dim")
    stated = fields.optional_count("head_dim", "kv_channels")
    if stated is None and hidden % heads:
        raise fields.error(
            f"hidden_size {hidden} is not a multiple of {heads} heads",
            "write head_dim, or correct either number",
        )
    key = stated or hidden // heads
    return key, fields.count("v_head_dim", default=key)


def _latent_attention(fields: Fields) -> LatentAttention | None:
    kv_rank = fields.optional_count("kv_lora_rank")
    if kv_rank is None:
        return None
    return LatentAttention(
        q_rank=fields.optional_count("q_lora_rank"),
        kv_rank=kv_rank,
        nope_dim=fields.count("qk_nope_head_dim"),
        rope_dim=fields.count("qk_rope_head_dim"),
    )


def _width(fields: Fields, hidden: int) -> int:
    """Width of the dense MLP; GPT-2 and its kin leave it out where it is four times the hidden size."""
    width = fields.count(*_WIDTH, default=4 * hidden)
    # The first Qwen states both halves of its gated MLP as one.
    return width // 2 if fields.text("model_type") == "qwen" else width
