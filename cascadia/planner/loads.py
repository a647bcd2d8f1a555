"""The requests that a routing sends to each stage and to the judge."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.problem import Problem
from cascadia_sim.timing import PS_PER_S

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Load:
    """Requests that arrive at one stage, in order of arrival. All int64, length n.

    `request` is each one's index in the workload; at the judge a request comes once per gate it reaches.
    """

    request: Ints
    arrival_ps: Ints
    input_tokens: Ints
    output_tokens: Ints
    cached_tokens: Ints

    def __len__(self) -> int:
        return len(self.arrival_ps)

    @cached_property
    def digest(self) -> str:
        hasher = hashlib.sha256()
        for column in (self.arrival_ps, self.input_tokens, self.output_tokens, self.cached_tokens):
            hasher.update(column.tobytes())
        return hasher.hexdigest()

    @property
    def longest_tokens(self) -> int:
        return int((self.input_tokens + self.output_tokens).max(initial=0))


def arrival_ps(problem: Problem) -> Ints:
    return np.rint(problem.workload.arrival_s * PS_PER_S).astype(np.int64)


def cached_tokens(problem: Problem, stage: int) -> Ints:
    """Prompt tokens that the engine's prefix cache holds; at least one token is always prefilled."""
    rate = problem.stages[stage].config.prefix_cache_hit_rate
    inputs = problem.workload.input_tokens[stage]
    found = np.floor(problem.workload.prefix_tokens * rate).astype(np.int64)
    held: Ints = np.clip(found, 0, inputs - 1)
    return held


def stage_load(problem: Problem, stage: int, reached: Bools) -> Load:
    """What stage `stage` gets when the requests in `reached` (n) run on it.

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
    )


def judge_load(problem: Problem, reached: Bools, gated: Bools) -> Load:
    """Verdicts asked for: one per request (n) and gated stage (S): `reached` is (S, n), `gated` (S).

    A judge reads its instructions, the question and the answer (Cascadia, footnote 4 and app. H).
    """
    w, judge = problem.workload, problem.judge
    stage, request = np.nonzero(reached & gated[:, None])
    arrivals = arrival_ps(problem)[request]
    order = np.argsort(arrivals, kind="stable")
    stage, request = stage[order], request[order]
    inputs = judge.prompt_tokens + w.input_tokens[stage, request] + w.output_tokens[stage, request]
    return Load(
        request,
        arrivals[order],
        inputs,
        np.full(len(order), judge.output_tokens, np.int64),
        np.zeros(len(order), np.int64),
    )
