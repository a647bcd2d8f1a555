"""Models whose layers are not all one attention and one MLP: which layers are what, and what the others keep.

Each family says so in its own way; what it leaves out is filled in as its code does (transformers' configuration
classes of the same name).
"""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from cascadia_sim.models.architecture import Blocks
from cascadia_sim.models.fields import Fields
from cascadia_sim.models.recurrent import Recurrent, delta_net, mamba1, mamba2, short_conv

_NEMOTRON = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


class Hybrid(NamedTuple):
    """`layers` in all, `blocks` where mixers and MLPs do not come in pairs; `gate`: attention's output has one."""

    layers: int
    recurrent: Recurrent | None = None
    blocks: Blocks | None = None
    gate: bool = False


def read_hybrid(fields: Fields, layers: int, hidden: int) -> Hybrid | None:
    """Recurrent layers of a model; None for one all of whose layers attend."""
    reader = FAMILIES.get(fields.text("model_type"))
    return None if reader is None else reader(fields, layers, hidden)


def _qwen(fields: Fields, layers: int, hidden: int) -> Hybrid:
    """Qwen3-Next and Qwen3.5: gated delta nets, and gated attention every few layers."""
    interval = fields.count("full_attention_interval", default=4)
    usual = ["full_attention" if (i + 1) % interval == 0 else "linear_attention" for i in range(layers)]
    kinds = _kinds(fields, ("layer_types",), usual, {"full_attention", "linear_attention"})
    linear = kinds["linear_attention"]
    recurrent = delta_net(
        linear,
        hidden,
        fields.count("linear_num_key_heads", default=16),
        key_dim=fields.count("linear_key_head_dim", default=128),
        value_heads=fields.count("linear_num_value_heads", default=32),
        value_dim=fields.count("linear_value_head_dim", default=128),
        conv=fields.count("linear_conv_kernel_dim", default=4),
    )
    return Hybrid(layers, recurrent if linear else None, gate=fields.flag("attn_output_gate", True))


def _nemotron(fields: Fields, layers: int, hidden: int) -> Hybrid:
    """Nemotron-H: every layer is one mixer or one MLP."""
    if fields.values.get("moe_latent_size") is not None:
        raise fields.error(
            "moe_latent_size: experts in a latent space are not counted", "use another model of the family"
        )
    pattern = fields.text("hybrid_override_pattern")
    if unknown := sorted(set(pattern) - set(_NEMOTRON)):
        raise fields.error(
            f"hybrid_override_pattern has {unknown[0]!r}", f"write it in the letters {' '.join(_NEMOTRON)}"
        )
    usual = [_NEMOTRON[letter] for letter in pattern]
    kinds = _kinds(fields, ("layers_block_type",), usual, set(_NEMOTRON.values()), layers)
    recurrent = mamba2(
        kinds["mamba"],
        hidden,
        fields.count("mamba_num_heads", default=128),
        head_dim=fields.count("mamba_head_dim", default=64),
        state=fields.count("ssm_state_size", "mamba_state_dim", default=128),
        groups=fields.count("n_groups", "mamba_num_groups", default=8),
        conv=fields.count("conv_kernel", default=4),
    )
    blocks = Blocks(kinds["attention"], kinds["mlp"], kinds["moe"])
    return Hybrid(layers, recurrent if kinds["mamba"] else None, blocks)


def _granite(fields: Fields, layers: int, hidden: int) -> Hybrid:
    """Granite 4: Mamba-2 or attention in each layer, and an MLP or a mixture."""
    usual = ["mamba"] * layers
    kinds = _kinds(fields, ("layer_types", "layers_block_type"), usual, {"mamba", "attention"})
    heads = fields.count("mamba_n_heads", default=128)
    head_dim = fields.values.get("mamba_d_head")
    if not isinstance(head_dim, int):
        # "auto", as transformers has it.
        head_dim = hidden * fields.count("mamba_expand", default=2) // heads
    recurrent = mamba2(
        kinds["mamba"],
        hidden,
        heads,
        head_dim=head_dim,
        state=fields.count("mamba_d_state", default=256),
        groups=fields.count("mamba_n_groups", default=1),
        conv=fields.count("mamba_d_conv", default=4),
    )
    return Hybrid(layers, recurrent if kinds["mamba"] else None)


def _jamba(fields: Fields, layers: int, hidden: int) -> Hybrid:
    """Jamba: attention every few layers, Mamba in the others."""
    period = fields.count("attn_layer_period", default=8)
    offset = fields.count("attn_layer_offset", default=4, least=0)
    mamba = sum(i % period != offset for i in range(layers))
    rank = fields.values.get("mamba_dt_rank")
    recurrent = mamba1(
        mamba,
        hidden,
        hidden * fields.count("mamba_expand", default=2),
        fields.count("mamba_d_state", default=16),
        fields.count("mamba_d_conv", default=4),
        # "auto", as transformers has it.
        rank if isinstance(rank, int) else -(-hidden // 16),
    )
    return Hybrid(layers, recurrent if mamba else None)


def _lfm2(fields: Fields, layers: int, hidden: int) -> Hybrid:
    """LFM2: short convolutions, and attention in the layers listed."""
    full = fields.values.get("full_attn_idxs")
    attending = set(full) if isinstance(full, list) else set(range(layers))
    usual = ["full_attention" if i in attending else "conv" for i in range(layers)]
    kinds = _kinds(fields, ("layer_types",), usual, {"full_attention", "conv"})
    conv = short_conv(kinds["conv"], hidden, fields.count("conv_L_cache", default=3))
    return Hybrid(layers, conv if kinds["conv"] else None)


def _longcat(_fields: Fields, layers: int, _hidden: int) -> Hybrid:
    """LongCat-Flash: a layer is two attentions and two dense MLPs, with one mixture on a shortcut past the second."""
    return Hybrid(2 * layers, blocks=Blocks(2 * layers, 2 * layers, layers))


def _kinds(
    fields: Fields, names: tuple[str, ...], usual: list[str], known: set[str], layers: int | None = None
) -> Counter[str]:
    """Number of layers of each kind: as listed under one of `names`, else `usual`."""
    name, listed = fields.find(*names)
    kinds = usual if listed is None else listed
    name = name or names[0]
    if not isinstance(kinds, list) or len(kinds) != (len(usual) if layers is None else layers):
        raise fields.error(
            f"{name} does not name each layer", f"list one kind for each of the layers in {name}"
        )
    for kind in kinds:
        if not isinstance(kind, str) or kind not in known:
            raise fields.error(
                f"layer type {kind!r:.40} is not simulated",
                f"use a model of {', '.join(sorted(known))} layers",
            )
    return Counter(kinds)


FAMILIES: dict[str, Callable[[Fields, int, int], Hybrid]] = {
    **dict.fromkeys(("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"), _qwen),
    "nemotron_h": _nemotron,
    "granitemoehybrid": _granite,
    "jamba": _jamba,
    **dict.fromkeys(("lfm2", "lfm2_moe"), _lfm2),
    "longcat_flash": _longcat,
}
