"""Requests as they were really served, beside the simulator's own account of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.iteration.roofline import Floats
from cascadia_sim.iteration.timing import PS_PER_S, ReplicaTiming

TURNOVERS = 12
CAPACITY_REQUESTS = 200


@dataclass(frozen=True, slots=True)
class Served:
    """One request, in seconds of one clock: sent, first token, last token."""

    sent_s: float
    first_s: float
    last_s: float
    input_tokens: int
    output_tokens: int


class Figures(NamedTuple):
    """Figures of a run of requests: seconds, and answers a second from the first sent to the last done."""

    ttft_p50_s: float
    ttft_p95_s: float
    e2e_p50_s: float
    e2e_p95_s: float
    throughput_rps: float


class Check(NamedTuple):
    requests: int
    measured: Figures
    predicted: Figures


def check(served: Sequence[Served], timing: ReplicaTiming, request_s: float) -> Check:
    """The same requests at the same moments, simulated. `request_s` is spent before an iteration can begin."""
    given = sorted(served, key=lambda one: one.sent_s)
    sent_s, first_s, last_s = (
        np.array([getattr(one, name) for one in given]) for name in ("sent_s", "first_s", "last_s")
    )
    inputs = [one.input_tokens for one in given]
    outputs = [one.output_tokens for one in given]
    begun_ps = np.rint((sent_s - sent_s[0] + request_s) * PS_PER_S).astype(np.int64)
    # The client's delay is `request_s` here, before the first iteration; it must not count twice.
    engine = replace(timing, client_ps=0, client_steps=0.0)
    run = simulate_replica(engine, begun_ps, inputs, outputs, np.zeros(len(given), np.int64))
    predicted_first_s, predicted_last_s = run.first_token_ps / PS_PER_S, run.finish_ps / PS_PER_S
    return Check(
        len(given),
        _figures(sent_s, first_s, last_s),
        _figures(sent_s - sent_s[0], predicted_first_s, predicted_last_s),
    )


def capacity_rps(lengths: Sequence[tuple[int, int]], timing: ReplicaTiming) -> float:
    """Requests a second that are done when all (input, output) wait from the start, each as often as it takes.

    What the replica holds at once turns over `TURNOVERS` times: fewer requests would measure its first batch.
    """
    mean = sum(read + wrote / 2 for read, wrote in lengths) / len(lengths)
    held = min(timing.max_num_seqs, timing.lanes * timing.kv_tokens / mean)
    inputs, outputs = zip(*[*lengths] * max(1, int(np.ceil(TURNOVERS * held / len(lengths)))), strict=True)
    nothing = np.zeros(len(inputs), np.int64)
    run = simulate_replica(timing, nothing, inputs, outputs, nothing)
    return len(inputs) * PS_PER_S / max(int(run.finish_ps.max()), 1)


def _figures(sent_s: Floats, first_s: Floats, last_s: Floats) -> Figures:
    ttft = np.quantile(first_s - sent_s, (0.5, 0.95))
    e2e = np.quantile(last_s - sent_s, (0.5, 0.95))
    throughput_rps = len(sent_s) / float(last_s.max() - sent_s.min())
    return Figures(float(ttft[0]), float(ttft[1]), float(e2e[0]), float(e2e[1]), throughput_rps)
