"""Reads an architecture from a Hugging Face config.json: dense, mixture, latent attention, recurrent layers."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cascadia_sim.models.architecture import Architecture, Experts, LatentAttention, SparseAttention
from cascadia_sim.models.experts import read_experts
from cascadia_sim.models.families import DEFAULTS, TIED_BY_DEFAULT, UNGATED, UNSUPPORTED
from cascadia_sim.models.fields import ArchitectureError, Fields
from cascadia_sim.models.hybrid import FAMILIES, Hybrid, read_hybrid
from cascadia_sim.models.quantization_config import read_quantization
from cascadia_sim.models.unknown import refuse_unknown
from cascadia_sim.models.weights import check_index, with_modelopt
from cascadia_sim.models.window import read_window

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
    """The architecture in the config.json at `path`, or in the folder `path`; an index of weights there must agree."""
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
    name = file.resolve().parent.name if file.name == "config.json" else file.stem
    if not isinstance(config, dict):
        return from_config(config, name, str(file))
    config = with_modelopt(config, file.parent)
    found = from_config(config, name, str(file))
    check_index(found, config, file.parent, str(file))
    return found


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
    hybrid = read_hybrid(fields, layers, hidden) or Hybrid(layers)
    layers = hybrid.layers
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
        intermediate=_width(fields, hidden) if _has_dense(moe, hybrid) else 0,
        vocab=fields.count("vocab_size", "padded_vocab_size"),
        max_position=max_position,
        tied_embeddings=fields.flag("tie_word_embeddings", family in TIED_BY_DEFAULT),
        gated_mlp=family not in UNGATED,
        moe=moe,
        mla=mla,
        window=None if family in FAMILIES else read_window(fields, layers, max_position),
        quantization=read_quantization(fields),
        recurrent=hybrid.recurrent,
        sparse=_sparse_attention(fields),
        attention_gate=hybrid.gate,
        blocks=hybrid.blocks,
    )


def _has_dense(moe: Experts | None, hybrid: Hybrid) -> bool:
    if hybrid.blocks is not None:
        return hybrid.blocks.dense > 0
    return moe is None or moe.dense_layers > 0


def _sparse_attention(fields: Fields) -> SparseAttention | None:
    top = fields.optional_count("index_topk")
    if top is None:
        return None
    return SparseAttention(fields.count("index_n_heads"), fields.count("index_head_dim"), top)


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
    if family in FAMILIES:
        return
    refuse_unknown(fields)
    for sign in (
        "hybrid_override_pattern",
        "ssm_cfg",
        "mamba_d_state",
        "attn_type_list",
        "linear_attn_config",
    ):
        told = fields.values.get(sign)
        # MiniMax-M2's marks every layer as one of full attention (1).
        if told is not None and not (isinstance(told, list) and all(kind == 1 for kind in told)):
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
    stated = fields.optional_count("head_dim", "attention_head_dim", "kv_channels")
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
    family = fields.text("model_type")
    if family == "lfm2":
        return _lfm2_width(fields)
    if family == "granitemoehybrid" and fields.values.get("shared_intermediate_size"):
        return fields.count("shared_intermediate_size")
    width = fields.count(*_WIDTH, default=4 * hidden)
    # The first Qwen states both halves of its gated MLP as one.
    return width // 2 if family == "qwen" else width


def _lfm2_width(fields: Fields) -> int:
    """Two thirds of what is stated, times a factor, in whole blocks, unless the config says that it is so already."""
    width = fields.count("block_ff_dim", "intermediate_size")
    if not fields.flag("block_auto_adjust_ff_dim", True):
        return width
    factor = fields.values.get("block_ffn_dim_multiplier")
    width = 2 * width // 3
    if isinstance(factor, int | float) and not isinstance(factor, bool):
        width = int(factor * width)
    blocks = fields.count("block_multiple_of", default=256)
    return -(-width // blocks) * blocks
