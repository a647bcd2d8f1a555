"""Replica timings made by hand, for tests in which each term of an iteration's time is known."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cascadia_sim.cascade.stage import Replica
from cascadia_sim.iteration.timing import Ints, ReplicaTiming


def machine(
    *,
    token_ps: Ints | None = None,
    chunked: bool = True,
    seqs: int = 4,
    budget: int = 100,
    kv: int = 1_000,
    block: int = 1,
    lanes: int = 1,
    context_ps: int = 0,
    pair_ps: float = 0.0,
    sequence_ps: int = 0,
) -> ReplicaTiming:
    """Unless told otherwise an iteration of t tokens takes 1000 + t ps, and nothing else costs time."""
    return ReplicaTiming(
        token_ps=np.arange(1_000, 1_300, dtype=np.int64) if token_ps is None else token_ps,
        sequence_ps=np.arange(seqs + 1, dtype=np.int64) * sequence_ps,
        context_ps=context_ps,
        pair_ps=pair_ps,
        kv_tokens=kv,
        block_size=block,
        max_num_seqs=seqs,
        max_num_batched_tokens=budget,
        chunked_prefill=chunked,
        lanes=lanes,
    )


def replica(weight: float = 1.0, **settings: int) -> Replica:
    return Replica(machine(**settings), weight)


def ints(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)


def small_machines(rng: np.random.Generator) -> list[ReplicaTiming]:
    """Three that are soon full; the second is a pipeline of two."""
    return [
        machine(
            chunked=bool(rng.integers(2)),
            seqs=int(rng.integers(1, 4)),
            kv=80,
            block=4,
            budget=30,
            lanes=lanes,
        )
        for lanes in (1, 2, 1)
    ]


def with_clients(rng: np.random.Generator, machines: Sequence[ReplicaTiming]) -> list[ReplicaTiming]:
    """The same, whose clients have their answers some time after the engine; some at once."""
    late_ps, steps = rng.choice([0, 700, 5_000], len(machines)), rng.choice([0.0, 0.4, 3.0], len(machines))
    return [
        replace(m, client_ps=int(ps), client_steps=float(of))
        for m, ps, of in zip(machines, late_ps, steps, strict=True)
    ]
