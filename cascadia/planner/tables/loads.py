"""The requests that a routing sends to each stage and to the judge."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.problem import Problem
from cascadia_sim.engine.dispatch import Replica
from cascadia_sim.engine.requests import picoseconds
from cascadia_sim.iteration.engine_config import LLAMA_CPP
from cascadia_sim.iteration.timing import PS_PER_S
from cascadia_sim.prefix_cache.prefix_cache import found_tokens, lru_tokens

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

GOLDEN = (5**0.5 - 1) / 2
PREFILL_IS_CHEAPER = 8
"""So many tokens read count as one written, where requests are put in order."""


@dataclass(frozen=True, eq=False)
class Load:
    """Requests that arrive at one stage, in order of arrival. All int64, length n.

    `request` is each one's index in the workload; at the judge a request comes once per gate it reaches. They come
    once in `period_ps`, the workload's own length, however few of them there are and whenever they do.
    """

    request: Ints
    arrival_ps: Ints
    input_tokens: Ints
    output_tokens: Ints
    cached_tokens: Ints
    period_ps: int

    def __len__(self) -> int:
        return len(self.arrival_ps)

    @property
    def rate_rps(self) -> float:
        return len(self) * PS_PER_S / self.period_ps if self.period_ps > 0 else 0.0

    @cached_property
    def held_tokens(self) -> float:
        """Tokens of a request that a KV cache holds on average while it is answered."""
        return float((self.input_tokens + self.output_tokens / 2).mean())

    @cached_property
    def digest(self) -> str:
        hasher = hashlib.sha256(str(self.period_ps).encode())
        for column in (self.arrival_ps, self.input_tokens, self.output_tokens, self.cached_tokens):
            hasher.update(column.tobytes())
        return hasher.hexdigest()

    def evenly(self, count: int) -> "Load":
        """`count` of the requests (some many times where there are fewer), of which every stretch has like lengths.

        In the order of their tokens, each next one lies the golden ratio of the way further on, round and round.
        """
        order = self._by_tokens[((np.arange(count) + 0.5) * GOLDEN % 1.0 * len(self)).astype(np.int64)]
        return Load(
            self.request[order],
            np.zeros(count, np.int64),
            self.input_tokens[order],
            self.output_tokens[order],
            self.cached_tokens[order],
            0,
        )

    @cached_property
    def _by_tokens(self) -> Ints:
        return np.argsort(self.output_tokens + self.input_tokens / PREFILL_IS_CHEAPER, kind="stable")


def arrival_ps(problem: Problem) -> Ints:
    return picoseconds(problem.workload.arrival_s)


def keeps_blocks(problem: Problem, stage: int) -> bool:
    """Tells whether the stage's prefix caches are simulated: its engine has one, the trace says what prompts
    share, and no hit rate is given. Engines keep no prefixes of models with recurrent layers by themselves, nor
    llama.cpp at all.
    """
    s = problem.stages[stage]
    return (
        problem.workload.blocks is not None
        and s.architecture is not None
        and s.config.prefix_caching
        and not s.config.prefix_cache_hit_rate
        and s.config.engine != LLAMA_CPP
        and s.built.recurrent is None
    )


def found_in(problem: Problem, stage: int, reached: Bools, replicas: Sequence[Replica]) -> Ints:
    """Prompt tokens (n) that the replicas' prefix caches hold where the requests in `reached` (n) come to them."""
    blocks, inputs = problem.workload.blocks, problem.workload.input_tokens[stage]
    held = np.zeros(len(inputs), np.int64)
    if blocks is None or not replicas:
        return held
    who = np.flatnonzero(reached)
    held[who] = np.minimum(found_tokens(blocks, who, replicas), inputs[who] - 1)
    return held


@lru_cache(maxsize=8)
def _least_found(problem: Problem) -> Ints:
    # More replicas would find less, since each meets fewer of the prompts that share: nothing has more than
    # GPUs.
    blocks, n, gpus = problem.workload.blocks, len(problem.workload), problem.cluster.gpus
    if blocks is None:
        return np.zeros(n, np.int64)
    return lru_tokens(blocks, np.arange(n), np.arange(n) % gpus, np.full(gpus, blocks.distinct + 1))


def period_ps(problem: Problem) -> int:
    """Picoseconds from a trace's first request to where its next round would begin: its length and one mean
    gap.
    """
    n, last_s = len(problem.workload), float(problem.workload.arrival_s[-1])
    return round(last_s * n / (n - 1) * PS_PER_S) if n > 1 else 0


def cached_tokens(problem: Problem, stage: int) -> Ints:
    """Prompt tokens that the engine's prefix cache holds; at least one token is always prefilled.

    Of caches that are simulated for each deployment, what is found at the least: a replica on each GPU, in turn, with
    room for all.
    """
    inputs = problem.workload.input_tokens[stage]
    if keeps_blocks(problem, stage):
        return np.asarray(np.minimum(_least_found(problem), inputs - 1))
    rate = problem.stages[stage].config.prefix_cache_hit_rate
    found = np.floor(problem.workload.prefix_tokens * rate).astype(np.int64)
    held: Ints = np.clip(found, 0, inputs - 1)
    return held


def stage_load(problem: Problem, stage: int, reached: Bools) -> Load:
    """Load that stage `stage` gets when the requests in `reached` (n) run on it.

    Arrivals are the trace's own: that a request first spends time in earlier stages shifts them by seconds and
    matters only to the end-to-end simulation, which has it.
    """
    w = problem.workload
    return Load(
        np.flatnonzero(reached),
        arrival_ps(problem)[reached],
        w.input_tokens[stage][reached],
        w.output_tokens[stage][reached],
        cached_tokens(problem, stage)[reached],
        period_ps(problem),
    )


def verdicts_each(problem: Problem, gated: Bools) -> Ints:
    """Verdicts (S, n) that a request waits for at each stage, where it is `gated` or not: one at a gate, and one more
    for each trial answer.
    """
    w = problem.workload
    return problem.quality.verdicts_of(w.row, gated, w.drawn)


def verdict_reads(problem: Problem, gated: Bools) -> Ints:
    """Tokens (S, n) that all verdicts on a request at a stage read, which are simulated as one behind its answer.

    A judge reads its instructions, the question and the answer (Cascadia, footnote 4 and app. H).
    """
    w = problem.workload
    wrote = problem.quality.judged_of(w.output_tokens, w.row, gated, w.drawn)
    read: Ints = verdicts_each(problem, gated) * (problem.judge.prompt_tokens + w.input_tokens) + wrote
    return read


def at_gates(problem: Problem) -> Bools:
    """(S, n): every request at every stage but the last."""
    gates = np.arange(len(problem.stages)) < len(problem.stages) - 1
    return np.broadcast_to(gates[:, None], problem.workload.input_tokens.shape)


def judge_load(problem: Problem, reached: Bools, gated: Bools) -> Load:
    """Verdicts asked for: those on each request's answers at a stage that it `reached` (S, n), as one."""
    count = verdicts_each(problem, gated)
    stage, request = np.nonzero(reached & (count > 0))
    arrivals = arrival_ps(problem)[request]
    order = np.argsort(arrivals, kind="stable")
    stage, request = stage[order], request[order]
    return Load(
        request,
        arrivals[order],
        verdict_reads(problem, gated)[stage, request],
        count[stage, request] * problem.judge.output_tokens,
        np.zeros(len(order), np.int64),
        period_ps(problem),
    )
