"""The arrays that the kernel works on. It allocates none of them; `kernel_fleet` does."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cascadia_sim.iteration.timing import Ints

Floats = NDArray[np.float64]


class Requests(NamedTuple):
    """Arrays [n] shared by all lanes. `following` links a lane's requests in order of arrival; -1 ends it.

    Where decode steps are skipped, `generated` counts the tokens that a request had written when it was last
    preempted, and `admission` is the order in which requests were last admitted. Where they are taken one by
    one, `generated` counts the tokens written, `prompt` those to prefill when it was last admitted, `computed`
    those that batches up to now computed or are computing, and `aloft` the batches in flight it is part of.
    `charged`: what its dispatcher took it for, in tokens.
    """

    arrival_ps: Ints
    input_tokens: Ints
    output_tokens: Ints
    cached_tokens: Ints
    following: Ints
    generated: Ints
    admission: Ints
    prompt: Ints
    computed: Ints
    aloft: Ints
    charged: Ints
    first_token_ps: Ints
    finish_ps: Ints


class Fleet(NamedTuple):
    """Lanes as rows, one a replica; their tables stand end to end in the first two.

    S is the largest max_num_seqs, P the deepest pipeline. The last two are used by pipelines only.
    """

    token_ps: Ints
    sequence_ps: Ints
    limits: Ints  # [lanes, LIMITS]
    pair_ps: Floats  # [lanes]
    state: Ints  # [lanes, STATE]
    finish_step: Ints  # [lanes, S], a binary heap
    running: Ints  # [lanes, S], the request at each place of the heap
    residues: Ints  # [lanes, largest block_size]
    preempted: Ints  # [lanes, S], a stack: the front of the waiting queue
    filled: Ints  # [lanes, S]
    finished: Ints  # [lanes, S], those that the last iteration finished
    members: Ints  # [lanes, P, S], requests of the batches in flight
    flights: Ints  # [lanes, P, FLIGHT]


class Lane(NamedTuple):
    """One row of a `Fleet`, for an engine that skips decode steps."""

    token_ps: Ints
    sequence_ps: Ints
    limits: Ints
    pair_ps: float
    state: Ints
    finish_step: Ints
    running: Ints
    residues: Ints
    preempted: Ints
    filled: Ints
    finished: Ints


class Pipeline(NamedTuple):
    """One row of a `Fleet`, for an engine that takes every step; `running` in order of admission."""

    token_ps: Ints
    sequence_ps: Ints
    limits: Ints
    pair_ps: float
    state: Ints
    running: Ints
    preempted: Ints
    finished: Ints
    members: Ints  # [P, S]: a request that writes a token when the batch ends, or ~request
    flights: Ints  # [P, FLIGHT]


class Sites(NamedTuple):
    """Replicas [R], each a lane; `open`: those that get requests, group after group.

    `credit` is what round robin owes them. By group [G], for the least outstanding: its `turn` (the place where it
    looks first), the tokens `written` by so many `answers`, and `most_output` of one.
    """

    weights: Floats
    credit: Floats
    open: Ints
    turn: Ints
    written: Ints
    answers: Ints
    most_output: Ints


class Network(NamedTuple):
    """Visits [V] of requests to groups [G] of replicas. `successor`: the visit that a finish sets off, or -1.

    `entry` lists the visits that arrive from outside, in order of arrival; `entered` [1] counts those that have.
    `first_replica` are places in `Sites.open`. `most_load`: tokens per weight beyond which a replica
    takes nobody in. `replica` is written; `due` is working room.
    """

    group: Ints  # [V]
    successor: Ints  # [V]
    entry: Ints
    entered: Ints
    first_replica: Ints  # [G + 1]
    serves: Ints  # [R], the group of each lane
    by_load: Ints  # [G], 1: least outstanding, 0: round robin
    most_load: Floats  # [G]
    replica: Ints  # [V]
    due: Ints  # [V]
