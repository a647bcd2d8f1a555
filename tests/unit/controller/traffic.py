"""Made-up sampled traffic: bursty arrivals, heavy-tailed lengths, scores of a first stage."""

import numpy as np

from cascadia.controller.detect.windows import Samples


def traffic(
    seed: int,
    duration_s: float,
    *,
    rate_rps: float = 0.5,
    burstiness: float = 1.0,
    input_tokens: float = 200.0,
    output_tokens: float = 150.0,
    score: float = 70.0,
    start_s: float = 0.0,
) -> Samples:
    """Gamma gaps with coefficient of variation `burstiness`, lognormal lengths with Pareto tails, scores of `small`."""
    rng = np.random.default_rng(seed)
    shape = burstiness**-2
    count = int(duration_s * rate_rps * 1.1 + 40 * burstiness * np.sqrt(duration_s * rate_rps) + 100)
    arrival_s = np.cumsum(rng.gamma(shape, 1.0 / (shape * rate_rps), count))
    arrival_s = start_s + arrival_s[arrival_s < duration_s]
    n = len(arrival_s)
    return Samples(
        arrival_s,
        _lengths(rng, input_tokens, n),
        _lengths(rng, output_tokens, n),
        scores={"small": np.clip(rng.normal(score, 20.0, n), 0.0, 100.0)},
    )


def joined(*parts: Samples) -> Samples:
    return Samples(
        np.concatenate([p.arrival_s for p in parts]),
        np.concatenate([p.input_tokens for p in parts]),
        np.concatenate([p.output_tokens for p in parts]),
        scores={"small": np.concatenate([p.scores["small"] for p in parts])},
    )


def _lengths(rng: np.random.Generator, median: float, n: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    body = rng.lognormal(np.log(median), 0.8, n)
    tail = np.where(rng.random(n) < 0.02, 1.0 + rng.pareto(1.3, n), 1.0)
    return np.clip(body * tail, 1, 1e6).astype(np.int64)
