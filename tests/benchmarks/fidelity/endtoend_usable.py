"""Which measured points a calibration may learn from, and why the others are told but not learned from.

The file does not say when an engine guessed ahead (speculative decoding), took prompts from its prefix cache, or
compiled while it was measured. Those points are known by other measurements of the same condition, or by asking more
of the GPU than its peak.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median

from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.models.catalogue import architecture
from tests.benchmarks.fidelity.endtoend_points import Point

# TPOT at most this share of the slowest measured at the same condition: tokens were guessed ahead.
SPECULATIVE = 0.7
# TTFT beyond this multiple of the least measured at the same condition: it did not wait for prefill alone.
STALLED = 5.0
# Attention over a chosen part of the context, whose kernels nobody timed.
SPARSE = frozenset({"zhipuai/GLM-5"})
# Layers that keep a state: kept for a test of what no fit has seen.
RECURRENT = frozenset({"Qwen/Qwen3.5-397B-A17B"})
# Ranks and batches of these rows can be read in more than one way.
UNCLEAR = "shape told in two ways"
# Where waiting grows with the answers' length: the engine runs fewer requests than it is sent (SGLang, Llama-3.1-8B).
FULL = 448
# Of the FP8 peak, that no server reaches over prefill and decoding together.
REACHABLE = 0.65


def reasons(points: Sequence[Point]) -> dict[Point, str]:
    """Of those that are not to be learned from."""
    slowest: dict[object, float] = defaultdict(float)
    promptest: dict[object, float] = defaultdict(lambda: float("inf"))
    for p in points:
        slowest[_condition(p)] = max(slowest[_condition(p)], p.tpot_ms)
        promptest[_condition(p)] = min(promptest[_condition(p)], p.ttft_ms)
    series: dict[object, list[float]] = defaultdict(list)
    for p in points:
        series[_series(p)].append(p.tpot_ms / slowest[_condition(p)])
    cached = {_series(p)[:3] for p in points if _beyond_peak(p)}
    found = {}
    for p in points:
        share = p.tpot_ms / slowest[_condition(p)]
        if p.model in SPARSE:
            found[p] = "sparse attention"
        elif p.model in RECURRENT:
            found[p] = "recurrent layers, never fitted"
        elif _series(p)[:3] in cached:
            found[p] = "some faster than the GPU's peak: prompts from a cache"
        elif not p.varied and p.concurrency >= FULL:
            found[p] = "more requests than the engine ran at once"
        elif not p.varied and p.attention_dp > 1:
            found[p] = UNCLEAR
        elif _guesses(p) and (share < SPECULATIVE or median(series[_series(p)]) < SPECULATIVE):
            found[p] = "speculative decoding"
        elif p.ttft_ms > STALLED * promptest[_condition(p)]:
            found[p] = "stalled"
    return found


def told(found: dict[Point, str]) -> str:
    return "; ".join(f"{reason}: {n}" for reason, n in Counter(found.values()).most_common())


def _condition(p: Point) -> object:
    return (*p.cell, p.input_tokens, p.output_tokens, p.concurrency)


def _series(p: Point) -> tuple[object, ...]:
    return p.version, p.engine, p.model, *p.cell, p.expert_parallel, p.attention_dp


def _guesses(p: Point) -> bool:
    """Only these models came with a head that predicts several tokens."""
    return p.engine in ("trtllm", "sglang") and "DeepSeek" in p.model


def _beyond_peak(p: Point) -> bool:
    """Whether prefill and decoding at the measured pace multiply more than the GPUs can."""
    model, card = architecture(p.model), gpu(p.system)
    took_s = (p.ttft_ms + p.output_tokens * p.tpot_ms) / 1e3
    flops = 2.0 * model.active_parameters * p.concurrency * (p.input_tokens + p.output_tokens) / took_s
    return p.precision == "fp8" and flops > REACHABLE * p.gpus * card.fp8_flops
