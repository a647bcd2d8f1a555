"""The weight format that a checkpoint declares in its quantization_config."""

from cascadia_sim.models.fields import Fields

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
    elif method in ("modelopt", "modelopt_fp4"):
        found = _modelopt(declared)
    else:
        found = None
    if found is None:
        raise declared.error(
            f"unknown weight format (quant_method {method!r})",
            "remove quantization_config, and state quantization as fp8, int8, awq-int4, gptq-int4, mxfp4 or nvfp4",
        )
    return found


def _modelopt(declared: Fields) -> str | None:
    """NVIDIA's copies: NVFP4 in all matrices, or (DeepSeek, Kimi) in all but attention's, nearly experts alone."""
    algorithm = declared.text("quant_algo").upper()
    if algorithm in ("NVFP4", "NVFP4_AWQ"):
        return "nvfp4-experts" if _keeps_attention(declared) else "nvfp4"
    return "fp8" if algorithm.startswith("FP8") else None


def _keeps_attention(declared: Fields) -> bool:
    """Tells whether attention is left as it is: of all matrices but the experts' the most."""
    _, kept = declared.find("ignore", "exclude_modules")
    return isinstance(kept, list) and any("self_attn" in str(name) for name in kept)


def _compressed(declared: Fields) -> str | None:
    groups = declared.inner("config_groups")
    for name in groups.values if groups else ():
        group = groups.inner(name) if groups else None
        weights = group.inner("weights") if group else None
        if weights is not None:
            kind = (weights.text("type"), weights.count("num_bits"))
            if kind == ("float", 4):
                return _float4(declared, weights)
            found = _COMPRESSED.get(kind)
            # Kimi's checkpoints of its own quantise the routed experts alone.
            return "int4-experts" if found == "gptq-int4" and _keeps_attention(declared) else found
    return None


def _float4(declared: Fields, weights: Fields) -> str | None:
    """Format of 4-bit floats by the numbers that share a scale: 16 in NVFP4, 32 in MXFP4, which is simulated
    for experts alone.
    """
    group = weights.count("group_size", default=16)
    if group == 16:
        return "nvfp4-experts" if _keeps_attention(declared) else "nvfp4"
    return "mxfp4" if group == 32 and _keeps_attention(declared) else None
