"""Profiles of models that answer in one pass.

RAMSIS prints its profiles as figures only, so the families here are synthetic, in their shape: the accuracies are the
published ones of models of those names, and the latencies are set by what the text says of them (the slowest model's
latency, and the load near which only the fastest carries 60 or 20 workers).
"""

import json
from itertools import pairwise

import numpy as np

from cascadia.policy.problem import ModelProfile
from tests.data import ROOT

IMAGE = (
    ("shufflenet_v2_x0_5", 60.55, 15), ("shufflenet_v2_x1_0", 69.36, 24), ("mobilenet_v3_large", 75.27, 36),
    ("shufflenet_v2_x2_0", 76.23, 48), ("efficientnet_b0", 77.69, 62), ("efficientnet_b1", 79.84, 92),
    ("efficientnet_b2", 80.61, 105), ("efficientnet_b3", 82.01, 150), ("efficientnet_v2_s", 84.23, 270),
)  # fmt: skip
TEXT = (("tiny", 70.2, 5), ("mini", 74.8, 10), ("small", 77.6, 20), ("medium", 79.8, 40), ("base", 84.0, 150))
BATCHES = 64


def _family(named: tuple[tuple[str, float, int], ...]) -> tuple[ModelProfile, ...]:
    """Of what a single request takes, 15 % is once for the batch; each further request adds 92 %."""
    return tuple(
        ModelProfile(
            name, accuracy, tuple(ms * (0.08 + 0.92 * size) / 1000 for size in range(1, BATCHES + 1))
        )
        for name, accuracy, ms in named
    )


def _measured() -> tuple[ModelProfile, ...]:
    """The bundled encoders as `cascadia engine measure` found them, at the 95th percentile."""
    told = json.loads((ROOT / "docs/benchmarks/data/one-pass-family.json").read_text())
    return tuple(
        ModelProfile(m["name"], m["accuracy"], tuple(np.maximum.accumulate(m["p95_s"]).tolist()))
        for m in told["models"]
    )


FAMILIES = {"image": _family(IMAGE), "text": _family(TEXT), "encoders": _measured()}
"""By task: the models of RAMSIS section 7, and our own."""


def many(models: tuple[ModelProfile, ...], step: float = 0.4) -> tuple[ModelProfile, ...]:
    """A superset with a synthetic model on the line between neighbours every `step` points (section 7.3.2)."""
    out = list(models)
    for below, above in pairwise(models):
        at = below.accuracy + step
        while at < above.accuracy - 1e-9:
            part = (at - below.accuracy) / (above.accuracy - below.accuracy)
            pairs = zip(below.latency_s, above.latency_s, strict=True)
            latency_s = tuple((1 - part) * low + part * high for low, high in pairs)
            out.append(ModelProfile(f"{below.name}+{at:.1f}", at, latency_s))
            at += step
    return tuple(sorted(out, key=lambda model: model.accuracy))
