"""The arrays that the kernel works on. It allocates none of them; `kernel_fleet` does."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cascadia_sim.iteration.timing import Ints

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Stages = NDArray[np.int8]


class Requests(NamedTuple):
    """Arrays [n] shared by all lanes. `following` links a lane's requests in order of arrival; -1 ends it.

    `admission` is the order in which requests were last admitted. Where decode steps are skipped, `generated` counts
    the tokens that a request had written when it was last preempted. Where they are taken one by one, `generated`
    counts the tokens written, `prompt` those to prefill when it was last admitted, `computed`
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

    S is the largest max_num_seqs, P the deepest pipeline, of whose batches each has a heap; others have the first.
    `members` and `flights` are used by pipelines only, what is below by lanes that speculate, whose tables stand end to
    end too.
    """

    token_ps: Ints
    sequence_ps: Ints
    limits: Ints  # [lanes, LIMITS]
    pair_ps: Floats  # [lanes]
    state: Ints  # [lanes, STATE]
    finish_step: Ints  # [lanes, P, S], binary heaps
    running: Ints  # [lanes, P, S], the request at each place of a heap
    residues: Ints  # [lanes, P, largest block_size]
    preempted: Ints  # [lanes, S], a stack: the front of the waiting queue
    filled: Ints  # [lanes, S], or who is ready
    finished: Ints  # [lanes, S], those that the last iteration finished
    members: Ints  # [lanes, P, S], requests of the batches in flight
    flights: Ints  # [lanes, P, FLIGHT]
    draft_tokens: Ints
    draft_ps: Ints
    acceptance: Floats  # [lanes]


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


class Ring(NamedTuple):
    """One row of a `Fleet`, for a pipeline whose batches leave again as they land, each a heap of who is `decoding`."""

    token_ps: Ints
    sequence_ps: Ints
    limits: Ints
    pair_ps: float
    state: Ints
    finish_step: Ints  # [P, S]
    decoding: Ints  # [P, S]
    residues: Ints  # [P, largest block_size]
    preempted: Ints
    members: Ints  # [P, S]: a prompt that the batch completes, or ~request of which it computes a part
    finished: Ints
    flights: Ints  # [P, FLIGHT]


class Pipeline(NamedTuple):
    """One row of a `Fleet`, for an engine that takes every step; `running`, and of these who is `ready` to decode and
    in no batch, in order of admission.
    """

    token_ps: Ints
    sequence_ps: Ints
    limits: Ints
    pair_ps: float
    state: Ints
    running: Ints
    ready: Ints
    preempted: Ints
    finished: Ints
    members: Ints  # [P, S]: a request that writes a token when the batch ends, or ~request
    flights: Ints  # [P, FLIGHT]
    draft_tokens: Ints
    draft_ps: Ints
    acceptance: float


class Sites(NamedTuple):
    """Replicas [R], each a lane; `open`: those that get requests, group after group.

    `client` are what their clients wait beyond the engine (`engine/client.py`): a fixed time, decode steps, and what
    one of these takes alone, in ps. `credit` is what round robin owes them. By group [G], for the least outstanding:
    its `turn` (the place where it looks first), the tokens `written` by so many `answers`, and `most_output` of one.
    """

    weights: Floats
    client: Floats  # [R, 3]
    credit: Floats
    open: Ints
    turn: Ints
    written: Ints
    answers: Ints
    most_output: Ints


class Apis(NamedTuple):
    """Groups [G] of visits [V] that are somebody else's API and have no replicas.

    Sending takes `first_ps` [V] to the first token, `whole_ps` [V] to the last; both are empty where no group is
    `elsewhere`. `sent_ps` are rings of the last sendings that a limit counts, from `first_sent` on: as many places as
    may be sent in any minute, none where there is no limit. `sent` counts.
    """

    elsewhere: Bools  # [G]
    first_ps: Ints
    whole_ps: Ints
    first_sent: Ints  # [G + 1]
    sent_ps: Ints
    sent: Ints  # [G]


class Network(NamedTuple):
    """Visits [V] of requests to groups [G] of replicas. `successor`: the visit that a finish sets off, or -1.

    `entry` lists the visits that arrive from outside, in order of arrival; `entered` [1] counts those that have.
    `first_replica` are places in `Sites.open`. `most_load`: tokens per weight beyond which a replica takes nobody in.
    `apis` are groups without replicas. `replica` and `ended` [1], the requests of which nothing more comes, are
    written; `due` is working room.

    Where `by_load` says so a rule of the caller's shares a group's visits (`cascade/by_rule.py`). `again_ps` [G]: when
    it wants to be asked again, and before that whenever a replica of the group has ended something; NEVER where it
    keeps nobody waiting. `paused_ps` [1]: the instant at which it is asked; -1 while none is.
    """

    group: Ints  # [V]
    successor: Ints  # [V]
    entry: Ints
    entered: Ints
    first_replica: Ints  # [G + 1]
    serves: Ints  # [R], the group of each lane
    by_load: Ints  # [G], 1: least outstanding, 0: round robin, 2: a rule of the caller's
    most_load: Floats  # [G]
    apis: Apis
    replica: Ints  # [V]
    due: Ints  # [V]
    ended: Ints  # [1]
    again_ps: Ints  # [G]
    paused_ps: Ints  # [1]


def network_of(
    group: Ints,
    successor: Ints,
    entry: Ints,
    *,
    sizes: Sequence[int],
    by_load: Ints,
    most_load: Floats,
    apis: Apis,
) -> Network:
    """Network before anything has arrived; `sizes` of its groups in replicas, which are numbered group after group."""
    visits, groups = group.size, len(sizes)
    return Network(
        group,
        successor,
        entry,
        entered=np.zeros(1, np.int64),
        first_replica=np.cumsum([0, *sizes], dtype=np.int64),
        serves=np.repeat(np.arange(groups, dtype=np.int64), sizes),
        by_load=by_load,
        most_load=most_load,
        apis=apis,
        replica=np.zeros(visits, np.int64),
        due=np.zeros(visits, np.int64),
        ended=np.zeros(1, np.int64),
        again_ps=np.full(groups, np.iinfo(np.int64).max, np.int64),
        paused_ps=np.full(1, -1, np.int64),
    )


def no_apis(groups: int) -> Apis:
    """Groups of which none is elsewhere."""
    none = np.zeros(0, np.int64)
    nothing = np.zeros(groups + 1, np.int64)
    return Apis(np.zeros(groups, np.bool_), none, none, nothing, none, np.zeros(groups, np.int64))


class Paths(NamedTuple):
    """The ways of requests [N] through S stages under each of G gears, one of which each gets when it arrives.

    `following` [g, s + 1, i]: the stage after stage s, -1 for none; at 0 the first. `judged` [g, s, i]: whether stage
    s waits for a verdict. `visit` and `verdict` [S, N] are the visits to a stage and to its judge, -1 where there is
    none; a judged stage without such a visit waits for `verdict_ps` [S, N]. `borders` [G - 1] and `rule` (dead band,
    hold in s, ready share of the planned capacity) say which gear is chosen; `force` is the one in force, and since
    when, in s, less is under way (`cascadia.domain.gear.Shift`). Written: `gear`, `last_visit` and `last_stage` by
    request, `wait_ps` by visit: from the engine's finish to the client's, and then for a verdict. `later_ps` and
    `later` are a heap of `waiting` [1] visits, and until when each waits, for an API's answer too; ~v: visit v begins
    then. `looked_ps` [G, N]
    is how long a question is looked at before its first visit; empty: never.

    Without requests the network's own `successor` stands, and there is room for no more than who waits.
    """

    arrival_ps: Ints  # [N]
    following: Stages  # [G, S + 1, N]
    judged: Bools  # [G, S, N]
    visit: Ints
    verdict: Ints
    verdict_ps: Ints
    borders: Floats
    rule: Floats  # [3]
    force: Floats  # [2]
    looked_ps: Ints
    gear: Ints  # [N]
    last_visit: Ints  # [N]
    last_stage: Ints  # [N]
    wait_ps: Ints  # [V]
    later_ps: Ints  # [N]
    later: Ints  # [N]
    waiting: Ints  # [1]


def no_paths(visits: int = 0, requests: int = 0) -> Paths:
    """Paths of a network whose visits follow each other as its `successor` says."""
    none = np.zeros(0, np.int64)
    table = np.zeros((0, 0), np.int64)
    return Paths(
        arrival_ps=none,
        following=np.zeros((0, 0, 0), np.int8),
        judged=np.zeros((0, 0, 0), np.bool_),
        visit=table,
        verdict=table,
        verdict_ps=table,
        borders=np.zeros(0),
        rule=np.zeros(3),
        force=np.zeros(2),
        looked_ps=table,
        gear=none,
        last_visit=none,
        last_stage=none,
        wait_ps=np.zeros(visits, np.int64),
        later_ps=np.zeros(requests, np.int64),
        later=np.zeros(requests, np.int64),
        waiting=np.zeros(1, np.int64),
    )
