"""The weight format that a checkpoint declares in its quantization_config."""

from cascadia_sim.config_json_fields import Fields

_DIRECT = {"fp8": "fp8", "fbgemm_fp8": "fp8", "mxfp4": "mxfp4"}
_BY_BITS = {("awq", 4): "awq-int4", ("gptq", 4): "gptq-int4", ("gptq", 8): "int8"}
_COMPRESSED = {("float", 8): "fp8", ("int", 8): "int8", ("int", 4): "gptq-int4"}


def read_quantization(fields: Fields) -> str | None:
    """A name of `quantization.FORMATS`, or None for plain BF16 weights."""
    declared = fields.inner("quantization_config")
    if declared is None or not declared.values:
        return None
    method = declared.text("quant_method").lower()
    if method in _DIRECT:
        return _DIRECT[method]
    if method in ("awq", "gptq"):
        found = _BY_BITS.get((method, declared.count("bits", "w_bit", default=4)))
    elif method == "compressed-tensors":
        found = _compressed(declared)
    elif method == "modelopt":
        found = "fp8" if "FP8" in declared.text("quant_algo").upper() else None
    else:
        found = None
    if found is None:
        raise declared.error(
            f"unknown weight format (quant_method {method!r})",
            "remove quantization_config, and state quantization as fp8, int8, awq-int4, gptq-int4 or mxfp4",
        )
    return found


def _compressed(declared: Fields) -> str | None:
    groups = declared.inner("config_groups")
    for name in groups.values if groups else ():
        group = groups.inner(name) if groups else None
        weights = group.inner("weights") if group else None
        if weights is not None:
            found = _COMPRESSED.get((weights.text("type"), weights.count("num_bits")))
            # Kimi's checkpoints of its own quantise the routed experts alone.
            kept = declared.values.get("ignore")
            all_but_experts = isinstance(kept, list) and any("self_attn" in str(name) for name in kept)
            return "int4-experts" if found == "gptq-int4" and all_but_experts else found
    return None
