"""The arrays that the kernel works on. It allocates none of them; `kernel_fleet` does."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cascadia_sim.timing import Ints

Floats = NDArray[np.float64]


class Requests(NamedTuple):
    """Arrays [n] shared by all lanes. `following` links a lane's requests in order of arrival; -1 ends it.

    `generated` counts the tokens a request had written when it was last preempted; `admission` is the order
    in which requests were last admitted.
    """

    arrival_ps: Ints
    input_tokens: Ints
    output_tokens: Ints
    cached_tokens: Ints
    following: Ints
    generated: Ints
    admission: Ints
    first_token_ps: Ints
    finish_ps: Ints


class Fleet(NamedTuple):
    """Lanes as rows; their tables stand end to end in the first two. S is the largest max_num_seqs."""

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


class Lane(NamedTuple):
    """One row of a `Fleet`."""

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


class Sites(NamedTuple):
    """Replicas [R]: their lanes first_lane[r] to first_lane[r + 1]; `credit` and `turn` start at 0."""

    first_lane: Ints  # [R + 1]
    weights: Floats
    credit: Floats
    turn: Ints


class Network(NamedTuple):
    """Visits [V] of requests to groups [G] of replicas. `successor`: the visit that a finish sets off, or -1.

    `entry` lists the visits that arrive from outside, in order of arrival. `replica` is written; `due` is
    working room.
    """

    group: Ints  # [V]
    successor: Ints  # [V]
    entry: Ints
    first_replica: Ints  # [G + 1]
    by_load: Ints  # [G], 1: least loaded, 0: weighted
    replica: Ints  # [V]
    due: Ints  # [V]
