"""How weights and KV entries are stored, and at which precision they are multiplied.

Scales and zero points are counted with the weights: INT4 in groups of 128 with an FP16 scale and a 4-bit zero
point (AWQ, GPTQ), MXFP4 in blocks of 32 with an 8-bit scale (OCP Microscaling 1.0, section 5), NVFP4 in blocks
of 16 with an FP8 scale. Embeddings, the LM head, norms and routers stay in BF16, as in the published checkpoints of
each of these formats. `-experts` formats leave all but the routed experts in BF16: NVIDIA's NVFP4 copies of
DeepSeek and Kimi, and Kimi-K2.5's own INT4 in groups of 32.
"""

from dataclasses import dataclass

from cascadia_sim.errors import InputError

BF16_BYTES = 2.0


class UnknownQuantization(InputError):
    """No such weight or KV format."""


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """`precision` is what the tensor cores multiply in; `dequantised` weights are widened to it on the fly.

    `experts_only`: the format applies to the routed experts, and all else stays BF16 (gpt-oss).
    """

    name: str
    bytes_per_weight: float
    precision: str
    dequantised: bool = False
    experts_only: bool = False


FORMATS = {
    f.name: f
    for f in (
        WeightFormat("bf16", BF16_BYTES, "bf16"),
        WeightFormat("fp8", 1.0, "fp8"),
        WeightFormat("int8", 1.0, "int8"),
        WeightFormat("awq-int4", 0.5 + 2.5 / 128, "bf16", dequantised=True),
        WeightFormat("gptq-int4", 0.5 + 2.5 / 128, "bf16", dequantised=True),
        WeightFormat("int4-experts", 0.5 + 2 / 32, "bf16", dequantised=True, experts_only=True),
        WeightFormat("mxfp4", 0.5 + 1 / 32, "bf16", dequantised=True, experts_only=True),
        WeightFormat("nvfp4", 0.5 + 1 / 16, "fp4"),
        WeightFormat("nvfp4-experts", 0.5 + 1 / 16, "fp4", experts_only=True),
    )
}

KV_ELEMENT_BYTES = {"auto": 2.0, "bf16": 2.0, "fp8": 1.0}


def weight_format(quantization: str | None) -> WeightFormat:
    """The format called `quantization`; None is BF16."""
    found = FORMATS.get(quantization or "bf16")
    if found is None:
        raise UnknownQuantization(
            "quantization", f"unknown format {quantization!r}", f"write one of {', '.join(FORMATS)}"
        )
    return found


def kv_element_bytes(kv_cache_dtype: str) -> float:
    """Bytes of one number in the KV cache."""
    found = KV_ELEMENT_BYTES.get(kv_cache_dtype)
    if found is None:
        raise UnknownQuantization(
            "kv_cache_dtype",
            f"unknown format {kv_cache_dtype!r}",
            f"write one of {', '.join(KV_ELEMENT_BYTES)}",
        )
    return found
