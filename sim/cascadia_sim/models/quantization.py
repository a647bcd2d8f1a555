"""Formats in which weights and KV entries are stored, and the precision at which they are multiplied.

Scales and zero points are counted with the weights: INT4 in groups of 128 with an FP16 scale and a 4-bit zero
point (AWQ, GPTQ), MXFP4 in blocks of 32 with an 8-bit scale (OCP Microscaling 1.0, section 5), NVFP4 in blocks
of 16 with an FP8 scale. Embeddings, the LM head, norms and routers stay in BF16, as in the published checkpoints of
each of these formats. `-experts` formats leave all but the routed experts in BF16: NVIDIA's NVFP4 copies of
DeepSeek and Kimi, and Kimi-K2.5's own INT4 in groups of 32.

GGUF files (llama.cpp) are quantised whole. Bytes are those of ggml's blocks (`ggml-common.h`: Q4_0 18 bytes for 32
weights, Q4_1 20, Q8_0 34; Q4_K 144 for 256, Q5_K 176, Q6_K 210). The `_k_m` mixtures keep half of the layers' value
and down projections in Q6_K, 14.4 % of the layers' weights in Llama-3.1-8B; embedding and LM head are
Q6_K in all of 4 and 5 bits. Matrices whose rows are no multiple of 256 fall back to larger blocks and are not
followed: such a file is larger than said here.
"""

from dataclasses import dataclass

from cascadia_sim.errors import BadInput

BF16_BYTES = 2.0


class UnknownQuantization(BadInput):
    """No such weight or KV format."""


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """`precision` is what the tensor cores multiply in; `dequantised` weights are widened to it on the fly.

    `experts_only`: the format applies to the routed experts, and all else stays BF16 (gpt-oss). `bytes_per_entry` is of
    a number in the embedding and the LM head.
    """

    name: str
    bytes_per_weight: float
    precision: str
    dequantised: bool = False
    experts_only: bool = False
    bytes_per_entry: float = BF16_BYTES


_Q4_K, _Q5_K, _Q6_K, _Q8_0 = 144 / 256, 176 / 256, 210 / 256, 34 / 32
_IN_Q6_K = 0.144


def _gguf(name: str, bytes_per_weight: float, bytes_per_entry: float = _Q6_K) -> WeightFormat:
    return WeightFormat(name, bytes_per_weight, "bf16", dequantised=True, bytes_per_entry=bytes_per_entry)


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
        WeightFormat("f16", BF16_BYTES, "bf16"),
        _gguf("q8_0", _Q8_0, _Q8_0),
        _gguf("q6_k", _Q6_K),
        _gguf("q5_k_m", _Q5_K + _IN_Q6_K * (_Q6_K - _Q5_K)),
        _gguf("q4_k_m", _Q4_K + _IN_Q6_K * (_Q6_K - _Q4_K)),
        _gguf("q4_1", 20 / 32),
        _gguf("q4_0", 18 / 32),
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
