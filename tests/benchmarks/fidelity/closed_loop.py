"""A closed loop: `concurrency` requests are kept in the engine, each that ends makes room for the next.

This is how serving benchmarks measure (`--max-concurrency`, all prompts at once). A new request arrives at the very
instant at which an iteration ends, so which requests share which iteration does not depend on how long iterations
take: a run is one list of iterations for all calibrations. `run` makes that list, with the scheduling rules of
`engine/kernel.py`, and folds it into weights with which any cost tables give the mean TTFT and the mean TPOT exactly.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from cascadia_sim.iteration.timing import Ints, ReplicaTiming

ROUNDS = 10  # as InferenceX has it
SHORTEST = 0.8
SEED = 0


@dataclass(frozen=True, slots=True)
class Loop:
    """What decides the list of iterations; the engine has KV blocks for all of `concurrency`.

    `varied`: lengths are uniform from SHORTEST of the given ones up to them, all start at once and all count. Else
    they are exact, which would keep all in step for good: the first answers are cut short at random, so that requests
    are spread over their phases, and do not count.
    """

    input_tokens: int
    output_tokens: int
    concurrency: int
    varied: bool
    budget_tokens: int
    chunked: bool
    rounds: float = ROUNDS


@dataclass(slots=True)
class Weights:
    """Seconds per token-count, sequence-count, context token and pair add up with these to a mean over requests.

    `tokens[t]` and `sequences[s]` are (for TTFT, for TPOT) pairs, as are `context` and `pairs`.
    """

    tokens: dict[int, list[float]] = field(default_factory=dict)
    sequences: dict[int, list[float]] = field(default_factory=dict)
    context: list[float] = field(default_factory=lambda: [0.0, 0.0])
    pairs: list[float] = field(default_factory=lambda: [0.0, 0.0])

    def add(
        self, t: int, s: int, count: int, context: float, pairs: float, weight: tuple[float, float]
    ) -> None:
        at_t, at_s = self.tokens.setdefault(t, [0.0, 0.0]), self.sequences.setdefault(s, [0.0, 0.0])
        for i, w in enumerate(weight):
            at_t[i] += w * count
            at_s[i] += w * count
            self.context[i] += w * context
            self.pairs[i] += w * pairs


@dataclass(slots=True)
class Run:
    """`weights`, and for each request what it asked for and, with a timing, when things happened to it."""

    weights: Weights
    input_tokens: Ints
    output_tokens: Ints
    arrival_ps: Ints
    first_token_ps: Ints
    finish_ps: Ints


def lengths(loop: Loop) -> tuple[Ints, Ints]:
    """Of prompts and answers, seeded."""
    n = int(loop.rounds * loop.concurrency)
    rng = np.random.default_rng(SEED)
    if not loop.varied:
        exact = np.full(n, loop.output_tokens)
        exact[: loop.concurrency] = rng.integers(2, loop.output_tokens + 1, loop.concurrency)
        return np.full(n, loop.input_tokens), exact
    prompts, answers = (
        rng.integers(int(SHORTEST * most), most + 1, n) for most in (loop.input_tokens, loop.output_tokens)
    )
    return prompts, answers


def run(loop: Loop, timing: ReplicaTiming | None = None) -> Run:
    """Without `timing` no clock runs: the times are zero, the weights the same."""
    prompts, answers = lengths(loop)
    n = len(prompts)
    first_counted = 0 if loop.varied else loop.concurrency
    counted = n - first_counted
    weights = Weights()
    arrival, first, finish = (np.zeros(n, np.int64) for _ in range(3))
    heap: list[tuple[int, int]] = []  # (decode step after which it ends, request)
    now = step = context = 0
    rate = 0.0  # sum of 1 / (answer - 1) over those decoding
    arrived, admitted = min(loop.concurrency, n), 0
    partial, computed = -1, 0  # the prompt that is half done, and how much of it
    while heap or admitted < arrived or partial >= 0:
        chunks: list[tuple[int, int, int, bool]] = []
        left = loop.budget_tokens - (len(heap) if loop.chunked else 0)
        while left > 0 and (partial >= 0 or admitted < arrived):
            if partial < 0:
                whole = int(prompts[admitted])
                if not loop.chunked and chunks and whole > left:
                    break
                partial, computed, admitted = admitted, 0, admitted + 1
            rest = int(prompts[partial]) - computed
            q = min(rest, left) if loop.chunked else rest
            computed += q
            left -= q
            done = q == rest
            chunks.append((partial, q, computed, done))
            if done:
                partial = -1
        waiting = arrived - admitted + len({r for r, *_ in chunks} | ({partial} - {-1}))
        late = max(0, arrived - max(admitted, first_counted))
        late += len({r for r in (*(r for r, *_ in chunks), partial) if r >= first_counted})
        decoding = len(heap) if loop.chunked or not chunks else 0
        steps = 1 if chunks or waiting else heap[0][0] - step
        t = decoding + sum(q for _, q, _, _ in chunks)
        s = decoding + sum(done for *_, done in chunks)
        pairs = sum(q * k - q * (q - 1) // 2 for _, q, k, _ in chunks)
        read = steps * context + decoding * steps * (steps - 1) // 2 if decoding else 0
        weights.add(t, s, steps, read, pairs, (late / counted, rate / counted))
        if timing is not None:
            now += _elapsed_ps(timing, t, s, steps, read, pairs)
        if decoding:
            step += steps
            context += decoding * steps
        ended = 0
        while decoding and heap and heap[0][0] <= step:
            r = heappop(heap)[1]
            finish[r] = now
            context -= int(prompts[r] + answers[r])
            rate -= (r >= first_counted) / (int(answers[r]) - 1)
            ended += 1
        for r, _, _, done in chunks:
            if done:
                first[r] = now
                heappush(heap, (step + int(answers[r]) - 1, r))
                context += int(prompts[r]) + 1
                rate += (r >= first_counted) / (int(answers[r]) - 1)
        joining = min(ended, n - arrived)
        arrival[arrived : arrived + joining] = now
        arrived += joining
    return Run(weights, prompts, answers, arrival, first, finish)


def mean_ms(weights: Weights, timing: ReplicaTiming) -> tuple[float, float]:
    """Mean TTFT and mean TPOT."""
    counts = np.array(list(weights.tokens))
    by_t = np.array(list(weights.tokens.values())).T @ _token_ps(timing, counts)
    heads = np.array(list(weights.sequences))
    by_s = np.array(list(weights.sequences.values())).T @ timing.sequence_ps[heads]
    ttft, tpot = (
        (by_t[i] + by_s[i] + weights.context[i] * timing.context_ps + weights.pairs[i] * timing.pair_ps) / 1e9
        for i in (0, 1)
    )
    return float(ttft), float(tpot)


def seen_ms(weights: Weights, timing: ReplicaTiming, held_steps: float = 0.0) -> tuple[float, float]:
    """The same as clients see them, the first token `held_steps` decode steps later still."""
    ttft_ms, tpot_ms = mean_ms(weights, timing)
    return ttft_ms + timing.client_ps / 1e9 + (timing.client_steps + held_steps) * tpot_ms, tpot_ms


def _token_ps(timing: ReplicaTiming, counts: Ints) -> Ints:
    table = timing.token_ps
    last = len(table) - 1
    beyond = np.maximum(0, counts - last) * (table[last] - table[last - 1])
    return np.asarray(table[np.minimum(counts, last)] + beyond)


def _elapsed_ps(timing: ReplicaTiming, t: int, s: int, steps: int, read: int, pairs: int) -> int:
    fixed = int(_token_ps(timing, np.array([t]))[0]) + int(timing.sequence_ps[s])
    return steps * fixed + read * timing.context_ps + int(timing.pair_ps * pairs)
