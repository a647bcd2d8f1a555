"""The mixture of experts that a config.json describes, if any."""

from cascadia_sim.models.architecture import Experts
from cascadia_sim.models.fields import Fields

_COUNT = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_PER_TOKEN = (
    "num_experts_per_tok",
    "experts_per_token",
    "moe_top_k",
    "moe_k",
    "moe_topk",
    "num_experts_per_token",
)
_WIDTH = (
    *("moe_intermediate_size", "expert_ffn_hidden_size", "expert_intermediate_size"),
    *("intermediate_size", "ffn_hidden_size"),
)


def read_experts(fields: Fields, layers: int) -> Experts | None:
    """Experts of a mixture; None for a dense model, also where the config names a single expert."""
    count = fields.count(*_COUNT, default=0, least=0)
    if count <= 1:
        return None
    per_token = fields.count(*_PER_TOKEN)
    if per_token > count:
        raise fields.error(
            f"{per_token} experts per token of {count}", f"write at most {count} for {_PER_TOKEN[0]}"
        )
    width = fields.count(*_WIDTH)
    dense_layers = _dense_layers(fields, layers)
    if dense_layers >= layers:
        return None
    zero = fields.count("zero_expert_num", default=0, least=0)
    return Experts(count, per_token, width, _shared_width(fields, width), dense_layers, zero)


def _shared_width(fields: Fields, width: int) -> int:
    """Width of all shared experts together."""
    stated = fields.optional_count(
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "shared_intermediate_size",
        least=0,
    )
    if stated is not None:
        return stated
    # Llama 4 has one shared expert in each mixture layer, and no field that says so.
    unsaid = 1 if fields.text("model_type") in ("llama4", "llama4_text") else 0
    names = ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")
    return width * fields.count(*names, default=unsaid, least=0)


def _dense_layers(fields: Fields, layers: int) -> int:
    """Number of layers that keep a dense MLP: the first few, every other one, or those listed."""
    first = fields.count(
        "first_k_dense_replace", "moe_layer_start_index", "num_dense_layers", default=0, least=0
    )
    every = fields.optional_count("expert_layer_period")
    if every is not None:
        offset = fields.count("expert_layer_offset", default=0, least=0)
        return sum(i % every != offset for i in range(layers))
    per_layer = fields.values.get("moe_layer_freq")
    if isinstance(per_layer, list):
        if len(per_layer) != layers or not all(v in (0, 1) for v in per_layer):
            raise fields.error("moe_layer_freq is no list of 0 and 1", f"list {layers} entries of 0 or 1")
        return layers - round(sum(per_layer))
    step = fields.count("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq", default=1)
    listed = fields.values.get("mlp_only_layers") or []
    if not isinstance(listed, list) or not all(isinstance(v, int) for v in listed):
        raise fields.error(
            "mlp_only_layers is no list of layer numbers", "list the dense layers, or write []"
        )
    # DeepSeek counts its period from layer 0, Qwen and Llama 4 from layer 1.
    offset = 0 if fields.values.get("moe_layer_freq") is not None else 1
    mixture = sum((i + offset) % step == 0 and i not in listed for i in range(min(first, layers), layers))
    return layers - mixture
