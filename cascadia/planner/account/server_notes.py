"""Note on a limit that no prediction knows: the process that sends an engine's tokens out to its clients."""

from collections.abc import Iterator

import numpy as np

from cascadia.domain.plan import Plan
from cascadia.domain.workload import Workload

FULL_TOKENS_PER_S = 17_000.0
"""Tokens a second at which one API process of vLLM was full (0.6B on an H100; docs/benchmarks/fidelity.md)."""

NEAR = 0.5
"""Share of it, on average, from which its peaks are at the limit."""


def server_notes(plan: Plan, workload: Workload) -> Iterator[str]:
    """A note for each stage under vLLM whose replicas send half as many tokens as such a process can, or more."""
    for s, (stage, predicted) in enumerate(zip(plan.stages, plan.predicted.stages, strict=True)):
        replicas = sum(group.count for group in stage.replicas)
        if stage.engine != "vllm" or not replicas or stage.task != "generate":
            continue
        sent = float(np.mean(workload.output_tokens[s])) * predicted.rate_rps / replicas
        if sent >= NEAR * FULL_TOKENS_PER_S:
            yield (
                f"each replica of {stage.name} sends {sent:,.0f} tokens/s on average, and one API process of vLLM was"
                f" full at {FULL_TOKENS_PER_S:,.0f} on the host that was measured: its latencies may be longer than"
                " told; try its `--api-server-count`"
            )
