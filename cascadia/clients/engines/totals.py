"""Totals that an engine's own /metrics count since it started: tokens, and the time that sequences spent
between them.

vLLM (V1; docs.vllm.ai, production metrics), SGLang (started with --enable-metrics; docs.sglang.io, production metrics)
and llama.cpp's server (--metrics). llama.cpp counts a request when it ends, and not how many there were.
"""

from dataclasses import dataclass

from cascadia.clients.engines.facts import samples


@dataclass(frozen=True, slots=True)
class Totals:
    """`decode_s` are the seconds that sequences spent between tokens, summed over them, and `tokens` those that came
    so, after the first of each. `requests` that got a first token, after `first_s` seconds in all; None: not told.
    """

    prompt_tokens: float
    tokens: float
    decode_s: float
    requests: float | None = None
    first_s: float | None = None

    def since(self, before: "Totals") -> "Totals | None":
        """Difference to `before`; None where the engine has started anew."""
        gone = (self.tokens < before.tokens, self.decode_s < before.decode_s)
        if any(gone) or self.prompt_tokens < before.prompt_tokens:
            return None
        pairs = ((self.requests, before.requests), (self.first_s, before.first_s))
        requests, first_s = (None if now is None or then is None else now - then for now, then in pairs)
        return Totals(
            self.prompt_tokens - before.prompt_tokens,
            self.tokens - before.tokens,
            self.decode_s - before.decode_s,
            requests,
            first_s,
        )


# By the prefix of its metrics: prompt tokens, generated tokens, histograms between tokens (of today, of before), and to
# the first.
HISTOGRAMS = {
    prefix: (
        f"{prefix}prompt_tokens_total",
        f"{prefix}generation_tokens_total",
        (f"{prefix}inter_token_latency_seconds", f"{prefix}time_per_output_token_seconds"),
        f"{prefix}time_to_first_token_seconds",
    )
    for prefix in ("vllm:", "sglang:")
}


def totals(text: str) -> Totals | None:
    """Totals of Prometheus' text format; None where it is of no engine that is known, or tells no times."""
    # Nearly all that an engine tells is of buckets, which are not asked for here.
    found = samples("\n".join(line for line in text.splitlines() if "_bucket{" not in line))

    def total(name: str) -> float | None:
        return sum(value for _, value in found[name]) if name in found else None

    for prompts, generated, between, first in HISTOGRAMS.values():
        prompt, wrote = total(prompts), total(generated)
        decode_s = next((s for name in between if (s := total(f"{name}_sum")) is not None), None)
        requests, first_s = total(f"{first}_count"), total(f"{first}_sum")
        if prompt is not None and wrote is not None and decode_s is not None and requests is not None:
            return Totals(prompt, max(wrote - requests, 0.0), decode_s, requests, first_s)
    prompt, wrote, decode_s = (
        total(f"llamacpp:{name}")
        for name in ("prompt_tokens_total", "tokens_predicted_total", "tokens_predicted_seconds_total")
    )
    if prompt is None or wrote is None or decode_s is None:
        return None
    return Totals(prompt, wrote, decode_s)
