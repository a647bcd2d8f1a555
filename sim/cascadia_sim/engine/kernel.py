"""The replica engine, compiled: continuous batching with decode steps skipped in closed form.

One lane is one engine: a FCFS queue, a KV cache in blocks, a set of running sequences. It moves from
iteration to iteration as vLLM's scheduler does (docs/models/simulator.md, "Scheduling"); between two changes
of the running set nothing happens but contexts growing by one a step, so `k` decode steps of B sequences cost

    k * (token_ps[B] + sequence_ps[B] + context_ps * C) + context_ps * B * k * (k - 1) / 2

with C their contexts' sum at the first step. All is int64 and exact.

What is kept per lane: a count D of decode steps, a heap of the steps at which sequences finish, C, the blocks
held and, for the blocks needed k steps on, a histogram of (context - D) mod block_size, which decoding leaves
alone. A sequence with prompt P and g of O tokens written has context P + g, whose last token gets its KV in
the next step; it holds ceil((P + g) / block_size) blocks. It finishes at step D + O - g, so that neither g nor
its context need be stored while it decodes.

A pipeline under the same rules has a lane for each of its batches: what a batch has when it lands leaves again with it,
but for who finished, so that each step of it costs the same, however many decode (`_advance_ring`).

An engine with other rules, or one that speculates, each of whose sequences comes as far in an iteration as is drawn for
it (`iteration/speculation.py`), goes from batch to batch: `_form` makes one of what is ready, it passes stage after
stage, `_land` ends it.

`advance` stops at a time and resumes, so that several lanes can be moved together by a dispatcher that looks
at their loads. All compiled code is in this one file because numba's cache on disk does not see changes in
callees of another file.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from cascadia_sim.engine.arrays import (
    Apis,
    Fleet,
    Floats,
    Lane,
    Network,
    Paths,
    Pipeline,
    Requests,
    Ring,
    Sites,
)
from cascadia_sim.engine.jitted import jitted
from cascadia_sim.iteration.timing import MINUTE_PS, Ints

F = TypeVar("F", bound=Callable[..., Any])

NEVER = np.iinfo(np.int64).max
REFUSED = -1
OWN_RULE = 2
"""Of `Network.by_load`."""

# Of `cascadia.dispatch`, whose rules are told here once more for the simulator, as `_shift` tells that of
# `cascadia.domain.gear`; tests hold both to the same choices.
FIRST_ANSWER_TOKENS = 256
ANSWERS_KEPT = 1024
LOOKED_AT = 32

# Columns of Fleet.limits: what a lane may do and what its steps cost.
TOKEN_AT, TOKEN_END, SEQUENCE_AT, SEQUENCE_END, CONTEXT_PS = 0, 1, 2, 3, 4
BLOCKS, BLOCK_SIZE, MAX_SEQS, MAX_TOKENS, CHUNKED, LATE_PS, MAX_LATE = 5, 6, 7, 8, 9, 10, 11
STAGES, WATERMARK, BATCH_SEQS, PADDED, CHUNKS_IN_STEP = 12, 13, 14, 15, 16
STARTS_BETWEEN, ENGINE = 17, 18
# Whether a lane speculates, its part of the tables of drafts, the most drafts of a sequence, and what the draft model
# takes for each of them and each token of context.
SPECULATES, DRAFT_AT, DRAFT_END, MOST_DRAFTS, DRAFT_CONTEXT_PS, LIMITS = 19, 20, 21, 22, 23, 24
# Of ENGINE: decode steps are skipped, batches leave again as they land, or each is formed anew.
SKIPPING, IN_RING, STEP_BY_STEP = 0, 1, 2

# Columns of Fleet.state. NEXT: first request not yet admitted; TAIL: last one known. PARTIAL: the sequence
# whose prompt is computed up to PARTIAL_END. FILLED: prompts that the iteration in flight completes; it ends
# at END. WAKE: until then nothing changes unless a request joins. FINISHED: how many the last iteration
# finished. LATE_NEXT: first not yet judged for lateness. Of a pipeline: FLIGHTS batches are in flight; the one
# that ends next is OLDEST in their order. CHANGED: a batch may be formed now that could not before.
NOW, NEXT, TAIL, RUNNING, STEP, CONTEXT, HELD, PEAK = 0, 1, 2, 3, 4, 5, 6, 7
PREEMPTED, PARTIAL, PARTIAL_END, FILLED, IN_FLIGHT, END, WAKE = 8, 9, 10, 11, 12, 13, 14
ADMISSIONS, PREEMPTIONS, BUSY, OUTSTANDING, FINISHED = 15, 16, 17, 18, 19
LATE, LATE_NEXT, STOPPED, FLIGHTS, OLDEST, CHANGED = 20, 21, 22, 23, 24, 25
# The batch being formed: sequences, those that write a token, tokens, context read, pairs and longest prompt.
COUNT, WRITING, TOKENS, READ, PAIRS, LONGEST = 26, 27, 28, 29, 30, 31
# For the dispatcher: tokens WRITTEN by requests that ended since it last looked, and how many of them ANSWERED.
WRITTEN, ANSWERED = 32, 33
# Of a pipeline: how many sequences are READY to decode, have a prompt HALF_DONE, and are LISTED, some of which have
# finished since.
READY, HALF_DONE, LISTED, STATE = 34, 35, 36, 37

# Columns of Fleet.flights. Of the batch in a slot: its SIZE, when it ENDS, and the DRAFTS for each sequence that
# decodes; in a ring SIZE is of who decodes, with STEPS decode steps behind it and READS for the contexts' sum, and
# JOINED of prompts beside. Of a stage: when it is FREE. Of a place in the order of landing, a ring of which the first
# FLIGHTS from OLDEST on are in flight: the SLOT.
SIZE, ENDS, READS, STEPS, JOINED, FREE, SLOT, DRAFTS, FLIGHT = 0, 1, 2, 3, 4, 5, 6, 7, 8

# Of `_chance`: splitmix64's constants.
GOLDEN, MIX, MIX_AGAIN = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)


def compiled(function: F) -> F:
    """`function` compiled, without the GIL and without Numba's runtime (`_nrt`).

    The kernel allocates nothing and its callers hold the arrays, while counting references to a lane's arrays at each
    call would take three quarters of the time.
    """
    return cast(F, jitted(nogil=True, error_model="numpy", _nrt=False)(function))


def inlined(function: F) -> F:
    """`function` compiled into its callers: a call copies the descriptions of two dozen arrays, which took half of the
    time. Large ones have one place in a caller, since their code is there once for each.

    It has no way in from Python, which takes as long to compile as the function (`called_too`: where it must have one).
    """
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast(F, jitted(nogil=True, error_model="numpy", _nrt=False, forceinline=True, **options)(function))


def called_too(function: F) -> F:
    """`function` compiled into its callers, and for Python."""
    return cast(F, jitted(nogil=True, error_model="numpy", _nrt=False, forceinline=True)(function))


@inlined
def _push(steps: Ints, requests: Ints, size: int, step: int, request: int) -> None:
    """Puts a request on a heap of `size`, which thereby grows by one."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if steps[parent] <= step:
            break
        steps[at], requests[at] = steps[parent], requests[parent]
        at = parent
    steps[at], requests[at] = step, request


@inlined
def _remove(steps: Ints, requests: Ints, size: int, at: int) -> None:
    """Takes place `at` out of a heap, of `size` without it: its last entry moves there, then up or down to where it
    fits."""
    if at == size:
        return
    step, request = steps[size], requests[size]
    while at > 0 and steps[(at - 1) >> 1] > step:
        parent = (at - 1) >> 1
        steps[at], requests[at] = steps[parent], requests[parent]
        at = parent
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and steps[child + 1] < steps[child]:
            child += 1
        if steps[child] >= step:
            break
        steps[at], requests[at] = steps[child], requests[child]
        at = child
    steps[at], requests[at] = step, request


@inlined
def _blocks(lane: Lane | Ring | Pipeline, tokens: int) -> int:
    size = lane.limits[BLOCK_SIZE]
    return int((tokens + size - 1) // size)


@inlined
def _fills_blocks(tokens: int, size: int) -> bool:
    """Tells whether so many tokens fill whole blocks, without a division where it can be done."""
    return (tokens & (size - 1)) == 0 if (size & (size - 1)) == 0 else tokens % size == 0


@inlined
def _token_ps(lane: Lane | Ring | Pipeline, tokens: int) -> int:
    table = lane.token_ps
    last = table.size - 1
    if tokens <= last:
        return int(table[tokens])
    # A whole prompt longer than the token budget is taken all the same, so counts beyond the table do occur.
    return int(table[last] + (tokens - last) * (table[last] - table[last - 1]))


@inlined
def _growth(residues: Ints, first: int, steps: int, running: int, size: int) -> int:
    """Blocks taken up over `steps` decode steps: one whenever a context outgrows a multiple of `size`, which those of
    residue `first` do in the first of them."""
    rounds = steps // size
    taken = rounds * running
    # By residues, not by sequences: the cost is bounded by the size of a block, however many sequences
    # decode.
    residue = first % size
    for _ in range(steps - rounds * size):
        taken += residues[residue]
        residue = residue - 1 if residue > 0 else size - 1
    return int(taken)


@inlined
def _steps_that_fit(lane: Lane, steps: int) -> int:
    """The most decode steps, at most `steps`, before one lacks blocks. The first one has them."""
    free = lane.limits[BLOCKS] - lane.state[HELD]
    size = lane.limits[BLOCK_SIZE]
    running = lane.state[RUNNING]
    # At worst each sequence opens a block every `size` steps; mostly that fits, and the histogram need not be
    # read.
    if ((steps - 1 + size - 1) // size) * running <= free:
        return steps
    rounds = free // running
    fit = rounds * size + 1
    taken = rounds * running
    residue = (-lane.state[STEP]) % size
    while fit < steps:
        taken += lane.residues[residue]
        if taken > free:
            return int(fit)
        fit += 1
        residue = residue - 1 if residue > 0 else size - 1
    return steps


@inlined
def _steps_to_pass(gap_ps: int, first_ps: int, more_ps: int) -> int:
    """Fewest steps that take `gap_ps` or longer: the first takes `first_ps`, each next one `more_ps` more."""
    # The root in the form that does not divide by `more_ps`, which is 0 where reading context costs nothing.
    lead = first_ps - 0.5 * more_ps
    steps = int(2.0 * gap_ps / (lead + np.sqrt(lead * lead + 2.0 * more_ps * gap_ps)))
    # Floats may be off by a step, and one step off is another schedule than that of single steps.
    while steps * first_ps + more_ps * (steps * (steps - 1) // 2) < gap_ps:
        steps += 1
    while steps > 1 and (steps - 1) * first_ps + more_ps * ((steps - 1) * (steps - 2) // 2) >= gap_ps:
        steps -= 1
    return max(steps, 1)


@inlined
def _count_late(lane: Lane | Ring | Pipeline, requests: Requests) -> None:
    """Counts each request once: when its limit has passed it is late, unless it had finished by then."""
    s = lane.state
    late_ps = lane.limits[LATE_PS]
    if late_ps <= 0:
        return
    request = s[LATE_NEXT]
    # The queue is in order of arrival: behind one that is not late yet, nobody is.
    while request >= 0 and requests.arrival_ps[request] + late_ps < s[NOW]:
        finish = requests.finish_ps[request]
        if finish < 0 or finish - requests.arrival_ps[request] > late_ps:
            s[LATE] += 1
        request = requests.following[request]
    s[LATE_NEXT] = request
    if s[LATE] > lane.limits[MAX_LATE]:
        s[STOPPED] = 1


@inlined
def _finish(lane: Lane | Ring | Pipeline, requests: Requests, request: int) -> None:
    requests.finish_ps[request] = lane.state[NOW]
    lane.finished[lane.state[FINISHED]] = request
    lane.state[FINISHED] += 1
    lane.state[OUTSTANDING] -= requests.charged[request]
    lane.state[WRITTEN] += requests.output_tokens[request]
    lane.state[ANSWERED] += 1


@inlined
def _decode(lane: Lane, requests: Requests, steps: int) -> None:
    """All running sequences go `steps` tokens on, none finishing before the last; NOW is already the end."""
    s = lane.state
    size = lane.limits[BLOCK_SIZE]
    # The tokens that the last step writes get their blocks in the next one: they count to HELD, which may
    # then exceed BLOCKS until `_preempt`, and not to the peak.
    held = s[HELD] + _growth(lane.residues, -s[STEP], steps - 1, s[RUNNING], size)
    s[PEAK] = max(s[PEAK], held)
    s[HELD] = held + lane.residues[(1 - s[STEP] - steps) % size]
    s[CONTEXT] += steps * s[RUNNING]
    s[STEP] += steps
    while s[RUNNING] > 0 and lane.finish_step[0] == s[STEP]:
        request = lane.running[0]
        context = requests.input_tokens[request] + requests.output_tokens[request]
        s[RUNNING] -= 1
        _remove(lane.finish_step, lane.running, s[RUNNING], 0)
        s[CONTEXT] -= context
        s[HELD] -= _blocks(lane, context)
        lane.residues[(context - s[STEP]) % size] -= 1
        _finish(lane, requests, request)


@inlined
def _preempt(lane: Lane, requests: Requests) -> None:
    """The most recently admitted sequence gives its blocks back and goes to the front of the queue."""
    s = lane.state
    # A half-done prompt was admitted last of all, since none behind it is before its own is done.
    request = s[PARTIAL]
    if request >= 0:
        s[PARTIAL] = -1
        s[HELD] -= _blocks(lane, requests.input_tokens[request] + requests.generated[request] + 1)
    else:
        at = 0
        for i in range(1, s[RUNNING]):
            if requests.admission[lane.running[i]] > requests.admission[lane.running[at]]:
                at = i
        request = lane.running[at]
        left = lane.finish_step[at] - s[STEP]
        requests.generated[request] = requests.output_tokens[request] - left
        context = requests.input_tokens[request] + requests.generated[request]
        s[RUNNING] -= 1
        _remove(lane.finish_step, lane.running, s[RUNNING], at)
        s[CONTEXT] -= context
        s[HELD] -= _blocks(lane, context)
        lane.residues[(context - s[STEP]) % lane.limits[BLOCK_SIZE]] -= 1
    lane.preempted[s[PREEMPTED]] = request
    s[PREEMPTED] += 1
    s[PREEMPTIONS] += 1


@inlined
def _start_prefills(lane: Lane, requests: Requests) -> bool:
    """Fills an iteration with prompts, first come first served, and starts it; False if none can be taken."""
    s = lane.state
    chunked = lane.limits[CHUNKED] != 0
    decoding = s[RUNNING] if chunked else 0
    budget = lane.limits[MAX_TOKENS] - decoding
    filled = 0
    tokens = 0
    pairs = 0
    while True:
        request = s[PARTIAL]
        if request >= 0:
            start = s[PARTIAL_END]
        else:
            request = lane.preempted[s[PREEMPTED] - 1] if s[PREEMPTED] > 0 else s[NEXT]
            if (
                request < 0
                or requests.arrival_ps[request] > s[NOW]
                or s[RUNNING] + filled >= lane.limits[MAX_SEQS]
            ):
                break
            start = requests.cached_tokens[request]
        prompt = requests.input_tokens[request] + requests.generated[request]
        chunk = prompt - start
        if chunked:
            chunk = min(chunk, budget - tokens)
            if chunk <= 0:
                break
        # The first goes whatever its length: nothing else would ever make room for it.
        elif tokens > 0 and tokens + chunk > budget:
            break
        if s[PARTIAL] < 0:
            # One token more than the prompt: the iteration that ends a prompt writes the first token of its
            # answer.
            blocks = _blocks(lane, prompt + 1)
            if s[HELD] + blocks > lane.limits[BLOCKS]:
                break
            s[HELD] += blocks
            requests.admission[request] = s[ADMISSIONS]
            s[ADMISSIONS] += 1
            if s[PREEMPTED] > 0:
                s[PREEMPTED] -= 1
            else:
                s[NEXT] = requests.following[request]
        tokens += chunk
        end = start + chunk
        pairs += chunk * end - chunk * (chunk - 1) // 2
        if end < prompt:
            s[PARTIAL] = request
            s[PARTIAL_END] = end
            break
        s[PARTIAL] = -1
        lane.filled[filled] = request
        filled += 1
    if tokens == 0:
        return False
    s[FILLED] = filled
    s[PEAK] = max(s[PEAK], s[HELD])
    duration = _token_ps(lane, decoding + tokens) + lane.sequence_ps[decoding + filled]
    # Whole prompts are an iteration of their own, in which decoding stands still and reads nothing.
    if decoding > 0:
        duration += lane.limits[CONTEXT_PS] * s[CONTEXT]
    duration += np.int64(lane.pair_ps * pairs)
    s[BUSY] += duration
    s[END] = s[NOW] + duration
    s[IN_FLIGHT] = 1
    return True


@inlined
def _end_prefills(lane: Lane, requests: Requests) -> None:
    s = lane.state
    s[IN_FLIGHT] = 0
    s[FINISHED] = 0
    s[NOW] = s[END]
    # Before those below join: they have written their token in this iteration already.
    if lane.limits[CHUNKED] != 0 and s[RUNNING] > 0:
        _decode(lane, requests, 1)
    for i in range(s[FILLED]):
        request = lane.filled[i]
        written = requests.generated[request] + 1
        context = requests.input_tokens[request] + written
        if requests.first_token_ps[request] < 0:
            requests.first_token_ps[request] = s[NOW]
        if written == requests.output_tokens[request]:
            s[HELD] -= _blocks(lane, context)
            _finish(lane, requests, request)
        else:
            s[CONTEXT] += context
            lane.residues[(context - s[STEP]) % lane.limits[BLOCK_SIZE]] += 1
            step = s[STEP] + requests.output_tokens[request] - written
            _push(lane.finish_step, lane.running, s[RUNNING], step, request)
            s[RUNNING] += 1
    _count_late(lane, requests)


@inlined
def _skip(lane: Lane, requests: Requests, until_ps: int) -> bool:
    """Decodes to the next finish, lack of blocks or arrival with room; False if that is after `until_ps`."""
    s = lane.state
    running = s[RUNNING]
    first_ps = _token_ps(lane, running) + lane.sequence_ps[running] + lane.limits[CONTEXT_PS] * s[CONTEXT]
    more_ps = lane.limits[CONTEXT_PS] * running
    steps = _steps_that_fit(lane, lane.finish_step[0] - s[STEP])
    duration = steps * first_ps + more_ps * (steps * (steps - 1) // 2)
    request = s[NEXT]
    # Who was preempted stands before any arrival, and has room again only once somebody has finished.
    if request >= 0 and s[PREEMPTED] == 0 and running < lane.limits[MAX_SEQS]:
        gap_ps = requests.arrival_ps[request] - s[NOW]
        fits = s[HELD] + _blocks(lane, requests.input_tokens[request] + 1) <= lane.limits[BLOCKS]
        if fits and 0 < gap_ps < duration:
            steps = min(steps, _steps_to_pass(gap_ps, first_ps, more_ps))
            duration = steps * first_ps + more_ps * (steps * (steps - 1) // 2)
    # All or nothing: an arrival before the end of the leap may still cut it short.
    if duration > until_ps - s[NOW]:
        s[WAKE] = s[NOW] + duration
        return False
    s[BUSY] += duration
    s[NOW] += duration
    s[FINISHED] = 0
    _decode(lane, requests, steps)
    _count_late(lane, requests)
    return True


@inlined
def _advance_skipping(fleet: Fleet, requests: Requests, which: int, until_ps: int) -> None:
    limits = fleet.limits[which]
    lane = Lane(
        fleet.token_ps[limits[TOKEN_AT] : limits[TOKEN_END]],
        fleet.sequence_ps[limits[SEQUENCE_AT] : limits[SEQUENCE_END]],
        limits,
        fleet.pair_ps[which],
        fleet.state[which],
        fleet.finish_step[which, 0],
        fleet.running[which, 0],
        fleet.residues[which, 0],
        fleet.preempted[which],
        fleet.filled[which],
        fleet.finished[which],
    )
    s = lane.state
    while s[STOPPED] == 0:
        if s[IN_FLIGHT] != 0:
            if s[END] > until_ps:
                s[WAKE] = s[END]
                return
            _end_prefills(lane, requests)
            continue
        if s[RUNNING] == 0 and s[PREEMPTED] == 0 and s[PARTIAL] < 0:
            if s[NEXT] < 0:
                s[WAKE] = NEVER
                return
            s[NOW] = max(s[NOW], requests.arrival_ps[s[NEXT]])
        if s[NOW] >= until_ps:
            s[WAKE] = s[NOW]
            return
        while s[HELD] > limits[BLOCKS]:
            _preempt(lane, requests)
        if not _start_prefills(lane, requests) and not _skip(lane, requests, until_ps):
            return


@inlined
def _context(requests: Requests, request: int) -> int:
    """Prompt and what is written of the answer."""
    return int(requests.input_tokens[request] + requests.generated[request])


@inlined
def _held_blocks(pipeline: Pipeline, requests: Requests, request: int) -> int:
    """Blocks of a running sequence, with room for as many drafts as there may be."""
    # `prompt + 1` until the first token is written: so much was taken at admission.
    tokens = max(_context(requests, request), requests.prompt[request] + 1)
    return int(_blocks(pipeline, tokens + pipeline.limits[MOST_DRAFTS]))


@inlined
def _chance(request: int, written: int) -> float:
    """Uniform draw in [0, 1) of a request that has so many tokens, the same whatever else is simulated: splitmix64."""
    x = np.uint64(request) * GOLDEN + np.uint64(written) * MIX + GOLDEN
    x = (x ^ (x >> np.uint64(30))) * MIX
    x = (x ^ (x >> np.uint64(27))) * MIX_AGAIN
    x = x ^ (x >> np.uint64(31))
    # The upper 53 bits, as many as a double holds, so that 1 is never drawn.
    return float(x >> np.uint64(11)) * 2.0**-53


@inlined
def _progress(pipeline: Pipeline, requests: Requests, request: int, drafts: int) -> int:
    """Tokens that a decoding sequence writes in an iteration: its accepted drafts and one more, no further than its
    answer.
    """
    written = int(requests.generated[request])
    chance, accepted, through = _chance(request, written), 0, pipeline.acceptance
    # One draw for all drafts: by inversion P(N > j) = a^j.
    while accepted < drafts and chance < through:
        accepted += 1
        through *= pipeline.acceptance
    return int(min(accepted + 1, requests.output_tokens[request] - written))


@inlined
def _close_ranks(pipeline: Pipeline, requests: Requests) -> None:
    """Takes those that finished off the list, in place and in order: `_throw_out` takes the one admitted last."""
    s = pipeline.state
    if s[LISTED] == s[RUNNING]:
        return
    kept = 0
    for i in range(s[LISTED]):
        request = pipeline.running[i]
        if requests.finish_ps[request] < 0:
            pipeline.running[kept] = request
            kept += 1
    s[LISTED] = kept


@inlined
def _throw_out(pipeline: Pipeline, requests: Requests) -> None:
    """The last admitted of those not in flight gives its blocks back and goes to the front of the queue."""
    s = pipeline.state
    _close_ranks(pipeline, requests)
    at = s[RUNNING] - 1
    # A batch in flight reads the blocks of its sequences.
    while requests.aloft[pipeline.running[at]] > 0:
        at -= 1
    request = pipeline.running[at]
    s[RUNNING] -= 1
    s[LISTED] -= 1
    for i in range(at, s[RUNNING]):
        pipeline.running[i] = pipeline.running[i + 1]
    if requests.computed[request] < requests.prompt[request]:
        s[HALF_DONE] -= 1
    elif s[READY] > 0 and pipeline.ready[s[READY] - 1] == request:
        s[READY] -= 1
    s[HELD] -= _held_blocks(pipeline, requests, request)
    pipeline.preempted[s[PREEMPTED]] = request
    s[PREEMPTED] += 1
    s[PREEMPTIONS] += 1


@inlined
def _join(pipeline: Pipeline, requests: Requests, members: Ints, request: int, tokens: int) -> None:
    """The next `tokens` of a running sequence are part of the batch being formed."""
    s = pipeline.state
    context = _context(requests, request)
    end = requests.computed[request] + tokens
    requests.computed[request] = end
    requests.aloft[request] += 1
    if context > requests.prompt[request]:
        s[READ] += context
    else:
        s[PAIRS] += tokens * end - tokens * (tokens - 1) // 2
        if end == requests.prompt[request]:
            s[HALF_DONE] -= 1
    s[TOKENS] += tokens
    if end == context:
        s[WRITING] += 1
        members[s[COUNT]] = request
    else:
        # `~` and not `-`: request 0 has no negative.
        members[s[COUNT]] = ~request
    s[COUNT] += 1


@inlined
def _make_ready(pipeline: Pipeline, requests: Requests, request: int) -> None:
    """A sequence that a batch brought back may decode, in the order of admission: an insertion, since most come so."""
    s, ready = pipeline.state, pipeline.ready
    at, admission = s[READY], requests.admission[request]
    s[READY] = at + 1
    while at > 0 and requests.admission[ready[at - 1]] > admission:
        ready[at] = ready[at - 1]
        at -= 1
    ready[at] = request


@inlined
def _join_decoding(pipeline: Pipeline, requests: Requests, members: Ints) -> None:
    """One token of each that decodes and is not in flight. The innermost loop of a pipeline: sums are kept in locals,
    since the compiler must take it that every store may change the state."""
    s, ready = pipeline.state, pipeline.ready
    before, read = s[COUNT], s[READ]
    joining = min(s[READY], pipeline.limits[BATCH_SEQS] - before)
    for i in range(joining):
        # `_join` with the one token that is not yet computed.
        request = ready[i]
        context = requests.input_tokens[request] + requests.generated[request]
        requests.computed[request] = context
        requests.aloft[request] += 1
        read += context
        members[before + i] = request
    for i in range(joining, s[READY]):
        ready[i - joining] = ready[i]
    s[READY] -= joining
    s[COUNT], s[READ] = before + joining, read
    s[TOKENS] += joining
    s[WRITING] += joining


@inlined
def _join_half_done(pipeline: Pipeline, requests: Requests, members: Ints) -> None:
    """Prompts that earlier batches began: their rest, or what is left of the budget."""
    s = pipeline.state
    if s[HALF_DONE] == 0:
        return
    _close_ranks(pipeline, requests)
    for i in range(s[RUNNING]):
        left = pipeline.limits[MAX_TOKENS] - s[TOKENS]
        if left <= 0 or s[COUNT] == pipeline.limits[BATCH_SEQS]:
            return
        request = pipeline.running[i]
        rest = requests.prompt[request] - requests.computed[request]
        if rest > 0 and (pipeline.limits[CHUNKS_IN_STEP] != 0 or requests.aloft[request] == 0):
            _join(pipeline, requests, members, request, min(rest, left))


@inlined
def _within_budget(pipeline: Pipeline, prompt: int) -> bool:
    """May a whole prompt of so many tokens join? The first may, whatever its size."""
    s = pipeline.state
    if s[TOKENS] == 0:
        return True
    if pipeline.limits[PADDED] != 0:
        return bool((s[COUNT] + 1) * max(s[LONGEST], prompt) <= pipeline.limits[MAX_TOKENS])
    return bool(s[TOKENS] + prompt <= pipeline.limits[MAX_TOKENS])


@inlined
def _join_waiting(pipeline: Pipeline, requests: Requests, members: Ints) -> None:
    """The queue's head, as long as slots, blocks and the budget allow."""
    s, limits = pipeline.state, pipeline.limits
    while s[RUNNING] < limits[MAX_SEQS] and s[COUNT] < limits[BATCH_SEQS]:
        request = pipeline.preempted[s[PREEMPTED] - 1] if s[PREEMPTED] > 0 else s[NEXT]
        if request < 0 or requests.arrival_ps[request] > s[NOW]:
            return
        prompt = _context(requests, request)
        tokens = prompt - requests.cached_tokens[request]
        if limits[CHUNKED] != 0:
            tokens = min(tokens, limits[MAX_TOKENS] - s[TOKENS])
            if tokens <= 0:
                return
        elif not _within_budget(pipeline, tokens):
            return
        blocks = _blocks(pipeline, prompt + 1 + limits[MOST_DRAFTS])
        # A lone request may take the watermark too, or one as long as the cache would wait for ever.
        spare = limits[WATERMARK] if s[RUNNING] > 0 else 0
        if s[HELD] + blocks + spare > limits[BLOCKS]:
            return
        s[HELD] += blocks
        if s[PREEMPTED] > 0:
            s[PREEMPTED] -= 1
        else:
            s[NEXT] = requests.following[request]
        requests.prompt[request] = prompt
        requests.computed[request] = requests.cached_tokens[request]
        requests.admission[request] = s[ADMISSIONS]
        s[ADMISSIONS] += 1
        s[HALF_DONE] += 1
        if s[LISTED] == pipeline.running.size:
            _close_ranks(pipeline, requests)
        pipeline.running[s[LISTED]] = request
        s[LISTED] += 1
        s[RUNNING] += 1
        s[LONGEST] = max(s[LONGEST], tokens)
        _join(pipeline, requests, members, request, tokens)


@inlined
def _form(pipeline: Pipeline, requests: Requests) -> bool:
    """Sends a batch of what is ready into the pipeline; False if nothing is."""
    s, limits = pipeline.state, pipeline.limits
    while s[HELD] > limits[BLOCKS]:
        _throw_out(pipeline, requests)
    slot = pipeline.flights[(s[OLDEST] + s[FLIGHTS]) % limits[STAGES], SLOT]
    members = pipeline.members[slot]
    s[COUNT], s[WRITING], s[TOKENS], s[READ], s[PAIRS], s[LONGEST] = 0, 0, 0, 0, 0, 0
    decoding, drafts = 0, 0
    # vLLM's first scheduler takes prompts before it decodes; V1, below, decodes before it takes prompts.
    if limits[CHUNKED] == 0:
        _join_waiting(pipeline, requests, members)
    if limits[CHUNKED] != 0 or s[COUNT] == 0:
        _join_decoding(pipeline, requests, members)
        decoding = s[COUNT]
        if limits[SPECULATES] != 0:
            drafts = pipeline.draft_tokens[decoding]
            s[TOKENS] += decoding * drafts
    if limits[CHUNKED] != 0:
        _join_half_done(pipeline, requests, members)
        _join_waiting(pipeline, requests, members)
    if s[COUNT] == 0:
        return False
    s[PEAK] = max(s[PEAK], s[HELD])
    duration = _token_ps(pipeline, s[TOKENS]) + pipeline.sequence_ps[s[WRITING]]
    if limits[SPECULATES] != 0:
        duration += pipeline.draft_ps[decoding] + drafts * limits[DRAFT_CONTEXT_PS] * s[READ]
    duration += limits[CONTEXT_PS] * s[READ] + np.int64(pipeline.pair_ps * s[PAIRS])
    s[BUSY] += duration
    flight = pipeline.flights[slot]
    flight[SIZE], flight[DRAFTS] = s[COUNT], drafts
    flight[ENDS] = _pass_stages(pipeline, s[NOW], duration)
    s[FLIGHTS] += 1
    return True


@inlined
def _pass_stages(pipeline: Ring | Pipeline, now: int, duration: int) -> int:
    """Instant when a batch that enters now leaves the last stage; each stage serves batches in order, one at a
    time.
    """
    stages = pipeline.limits[STAGES]
    share = duration // stages
    for stage in range(stages - 1):
        now = max(now, pipeline.flights[stage, FREE]) + share
        pipeline.flights[stage, FREE] = now
    # The last stage has what the division left over, so that the whole takes `duration` to the picosecond.
    now = max(now, pipeline.flights[stages - 1, FREE]) + duration - (stages - 1) * share
    pipeline.flights[stages - 1, FREE] = now
    return int(now)


@inlined
def _write(pipeline: Pipeline, requests: Requests, request: int, drafts: int) -> int:
    """A sequence of an engine that speculates has the tokens of an iteration; returns the blocks it takes up more."""
    held = _held_blocks(pipeline, requests, request)
    decoding = _context(requests, request) > requests.prompt[request]
    requests.generated[request] += _progress(pipeline, requests, request, drafts) if decoding else 1
    requests.computed[request] = _context(requests, request) - 1
    if requests.first_token_ps[request] < 0:
        requests.first_token_ps[request] = pipeline.state[NOW]
    if requests.generated[request] == requests.output_tokens[request]:
        _finish(pipeline, requests, request)
        return -held
    return _held_blocks(pipeline, requests, request) - held


@inlined
def _land(pipeline: Pipeline, requests: Requests) -> None:
    """The oldest batch in flight ends."""
    s = pipeline.state
    slot = pipeline.flights[s[OLDEST], SLOT]
    s[OLDEST] = (s[OLDEST] + 1) % pipeline.limits[STAGES]
    s[FLIGHTS] -= 1
    s[FINISHED] = 0
    s[NOW] = pipeline.flights[slot, ENDS]
    now, members, size = s[NOW], pipeline.members[slot], pipeline.limits[BLOCK_SIZE]
    taken = 0
    for i in range(pipeline.flights[slot, SIZE]):
        member = members[i]
        request = member if member >= 0 else ~member
        requests.aloft[request] -= 1
        if member < 0:
            continue
        if pipeline.limits[SPECULATES] != 0:
            taken += _write(pipeline, requests, request, pipeline.flights[slot, DRAFTS])
            if requests.finish_ps[request] < 0:
                _make_ready(pipeline, requests, request)
            continue
        written = requests.generated[request] + 1
        requests.generated[request] = written
        if requests.first_token_ps[request] < 0:
            requests.first_token_ps[request] = now
        if written == requests.output_tokens[request]:
            # The last token written never got a block: no step follows that would read it.
            taken -= _blocks(pipeline, max(_context(requests, request) - 1, requests.prompt[request] + 1))
            _finish(pipeline, requests, request)
        else:
            before = requests.input_tokens[request] + written - 1
            if before > requests.prompt[request] and _fills_blocks(before, size):
                taken += 1
            _make_ready(pipeline, requests, request)
    s[HELD] += taken
    s[RUNNING] -= s[FINISHED]
    _count_late(pipeline, requests)


@inlined
def _lands_next_ps(pipeline: Ring | Pipeline) -> int:
    s = pipeline.state
    if s[FLIGHTS] == 0:
        return NEVER
    return int(pipeline.flights[pipeline.flights[s[OLDEST], SLOT], ENDS])


@inlined
def _throw_out_of(ring: Ring, requests: Requests, slot: int) -> None:
    """`_throw_out` among those in `slot`, whose batch has landed, and a half-done prompt with nothing in flight."""
    s, flight = ring.state, ring.flights[slot]
    request = s[PARTIAL]
    # Nobody is admitted behind a half-done prompt.
    if request >= 0 and requests.aloft[request] == 0:
        s[PARTIAL] = -1
        s[HELD] -= _blocks(ring, requests.input_tokens[request] + requests.generated[request] + 1)
    else:
        steps, decoding = ring.finish_step[slot], ring.decoding[slot]
        at = 0
        for i in range(1, flight[SIZE]):
            if requests.admission[decoding[i]] > requests.admission[decoding[at]]:
                at = i
        request = decoding[at]
        requests.generated[request] = requests.output_tokens[request] - (steps[at] - flight[STEPS])
        context = requests.input_tokens[request] + requests.generated[request]
        flight[SIZE] -= 1
        _remove(steps, decoding, flight[SIZE], at)
        flight[READS] -= context
        s[HELD] -= _blocks(ring, context)
        ring.residues[slot, (context - flight[STEPS]) % ring.limits[BLOCK_SIZE]] -= 1
    s[RUNNING] -= 1
    ring.preempted[s[PREEMPTED]] = request
    s[PREEMPTED] += 1
    s[PREEMPTIONS] += 1


@inlined
def _leave(ring: Ring, requests: Requests) -> bool:
    """Sends a batch of who decodes in the next slot and of prompts into the ring; False if there is neither."""
    s, limits = ring.state, ring.limits
    place = s[OLDEST] + s[FLIGHTS]
    slot = ring.flights[place - limits[STAGES] if place >= limits[STAGES] else place, SLOT]
    while s[HELD] > limits[BLOCKS]:
        _throw_out_of(ring, requests, slot)
    flight, members = ring.flights[slot], ring.members[slot]
    tokens, writing, pairs, joined = flight[SIZE], flight[SIZE], 0, 0
    while tokens < limits[MAX_TOKENS]:
        request = s[PARTIAL]
        if request < 0:
            request = ring.preempted[s[PREEMPTED] - 1] if s[PREEMPTED] > 0 else s[NEXT]
            if request < 0 or requests.arrival_ps[request] > s[NOW] or s[RUNNING] >= limits[MAX_SEQS]:
                break
            blocks = _blocks(ring, requests.input_tokens[request] + requests.generated[request] + 1)
            if s[HELD] + blocks > limits[BLOCKS]:
                break
            s[HELD] += blocks
            if s[PREEMPTED] > 0:
                s[PREEMPTED] -= 1
            else:
                s[NEXT] = requests.following[request]
            requests.computed[request] = requests.cached_tokens[request]
            requests.admission[request] = s[ADMISSIONS]
            s[ADMISSIONS] += 1
            s[RUNNING] += 1
        prompt = requests.input_tokens[request] + requests.generated[request]
        chunk = min(prompt - requests.computed[request], limits[MAX_TOKENS] - tokens)
        end = requests.computed[request] + chunk
        requests.computed[request] = end
        requests.aloft[request] += 1
        pairs += chunk * end - chunk * (chunk - 1) // 2
        tokens += chunk
        if end == prompt:
            s[PARTIAL] = -1
            writing += 1
            members[joined] = request
        else:
            s[PARTIAL] = request
            # `~` and not `-`: request 0 has no negative.
            members[joined] = ~request
        joined += 1
    if tokens == 0:
        return False
    s[PEAK] = max(s[PEAK], s[HELD])
    duration = _token_ps(ring, tokens) + ring.sequence_ps[writing]
    duration += limits[CONTEXT_PS] * flight[READS] + np.int64(ring.pair_ps * pairs)
    s[BUSY] += duration
    flight[JOINED] = joined
    flight[ENDS] = _pass_stages(ring, s[NOW], duration)
    s[FLIGHTS] += 1
    return True


@inlined
def _return(ring: Ring, requests: Requests) -> None:
    """The oldest batch in flight lands; who has more to write is in its slot, which is the next to leave."""
    s, flights = ring.state, ring.flights
    slot = flights[s[OLDEST], SLOT]
    _turn(ring)
    s[FLIGHTS] -= 1
    s[FINISHED] = 0
    s[NOW] = flights[slot, ENDS]
    if flights[slot, SIZE] > 0:
        _decode_in(ring, requests, slot)
    if flights[slot, JOINED] > 0:
        _begin_in(ring, requests, slot)
    s[RUNNING] -= s[FINISHED]
    _count_late(ring, requests)


@inlined
def _decode_in(ring: Ring, requests: Requests, slot: int) -> None:
    """`_decode` by one step, of those in a slot."""
    s, flight, size = ring.state, ring.flights[slot], ring.limits[BLOCK_SIZE]
    steps, decoding, residues = ring.finish_step[slot], ring.decoding[slot], ring.residues[slot]
    step, running, read = flight[STEPS], flight[SIZE], flight[READS]
    while running > 0 and steps[0] == step + 1:
        request = decoding[0]
        running -= 1
        _remove(steps, decoding, running, 0)
        # The last token written never gets a block: no step follows that would read it.
        context = requests.input_tokens[request] + requests.output_tokens[request] - 1
        read -= context
        s[HELD] -= _blocks(ring, context)
        residues[(context - step) % size] -= 1
        _finish(ring, requests, request)
    s[HELD] += residues[-step % size]
    flight[STEPS], flight[SIZE], flight[READS] = step + 1, running, read + running


@inlined
def _begin_in(ring: Ring, requests: Requests, slot: int) -> None:
    """Prompts of a batch that has landed: those that it completed have written their first token."""
    s, flight, now = ring.state, ring.flights[slot], ring.state[NOW]
    for i in range(flight[JOINED]):
        member = ring.members[slot, i]
        request = member if member >= 0 else ~member
        requests.aloft[request] -= 1
        if member < 0:
            continue
        written = requests.generated[request] + 1
        context = requests.input_tokens[request] + written
        if requests.first_token_ps[request] < 0:
            requests.first_token_ps[request] = now
        if written == requests.output_tokens[request]:
            s[HELD] -= _blocks(ring, context)
            _finish(ring, requests, request)
        else:
            step = flight[STEPS] + requests.output_tokens[request] - written
            _push(ring.finish_step[slot], ring.decoding[slot], flight[SIZE], step, request)
            flight[SIZE] += 1
            flight[READS] += context
            ring.residues[slot, (context - flight[STEPS]) % ring.limits[BLOCK_SIZE]] += 1
    flight[JOINED] = 0


@inlined
def _go_round(ring: Ring, requests: Requests, until_ps: int) -> None:
    """Batches that only decode land and leave again until before one finishes, could grow or lacks blocks."""
    s, limits, flights = ring.state, ring.limits, ring.flights
    if s[FLIGHTS] == 0 or s[PARTIAL] >= 0:
        return
    for place in range(limits[STAGES]):
        if flights[place, JOINED] > 0:
            return
    before_ps = min(until_ps, _joins_next_ps(ring, requests))
    was = s[NOW]
    if s[FLIGHTS] == 1:
        _skip_turns(ring, before_ps)
    else:
        _take_turns(ring, before_ps)
    if s[NOW] > was:
        s[PEAK] = max(s[PEAK], s[HELD])
        s[FINISHED] = 0
        _count_late(ring, requests)


@inlined
def _take_turns(ring: Ring, before_ps: int) -> None:
    """Batches in flight land and leave one after the other."""
    s, limits, flights = ring.state, ring.limits, ring.flights
    while True:
        slot = flights[s[OLDEST], SLOT]
        flight, step = flights[slot], flights[slot, STEPS]
        taken = ring.residues[slot, -step % limits[BLOCK_SIZE]]
        finishes = ring.finish_step[slot, 0] == step + 1
        if finishes or flight[ENDS] >= before_ps or s[HELD] + taken > limits[BLOCKS]:
            return
        running = flight[SIZE]
        s[NOW] = flight[ENDS]
        s[HELD] += taken
        flight[STEPS] = step + 1
        flight[READS] += running
        duration = _token_ps(ring, running) + ring.sequence_ps[running] + limits[CONTEXT_PS] * flight[READS]
        s[BUSY] += duration
        flight[ENDS] = _pass_stages(ring, s[NOW], duration)
        _turn(ring)


@inlined
def _skip_turns(ring: Ring, before_ps: int) -> None:
    """`_take_turns` of a lone batch, all at once."""
    s, limits, flights = ring.state, ring.limits, ring.flights
    slot = flights[s[OLDEST], SLOT]
    flight, running, size = flights[slot], flights[slot, SIZE], limits[BLOCK_SIZE]
    turns = min(ring.finish_step[slot, 0] - flight[STEPS] - 1, (limits[BLOCKS] - s[HELD]) // running * size)
    if turns <= 0 or flight[ENDS] >= before_ps:
        return
    more_ps = limits[CONTEXT_PS] * running
    first_ps = (
        _token_ps(ring, running) + ring.sequence_ps[running] + limits[CONTEXT_PS] * flight[READS] + more_ps
    )
    # The last of the turns begins with a landing, so that only those before it must end in time.
    if (turns - 1) * first_ps + more_ps * ((turns - 1) * (turns - 2) // 2) >= before_ps - flight[ENDS]:
        turns = min(turns, _steps_to_pass(before_ps - flight[ENDS], first_ps, more_ps))
    duration = turns * first_ps + more_ps * (turns * (turns - 1) // 2)
    last_ps = first_ps + more_ps * (turns - 1)
    s[BUSY] += duration
    s[NOW] = flight[ENDS] + duration - last_ps
    flight[ENDS] = _pass_stages(ring, s[NOW], last_ps)
    s[HELD] += _growth(ring.residues[slot], -flight[STEPS], turns, running, size)
    flight[STEPS] += turns
    flight[READS] += turns * running


@inlined
def _turn(ring: Ring) -> None:
    """The slot that is first in the order of landing comes behind all that are in flight."""
    s, flights = ring.state, ring.flights
    oldest, last = s[OLDEST], s[OLDEST] + s[FLIGHTS]
    last = last - ring.limits[STAGES] if last >= ring.limits[STAGES] else last
    slot = flights[oldest, SLOT]
    flights[oldest, SLOT] = flights[last, SLOT]
    flights[last, SLOT] = slot
    s[OLDEST] = oldest + 1 if oldest + 1 < ring.limits[STAGES] else 0


@inlined
def _joins_next_ps(ring: Ring, requests: Requests) -> int:
    """Instant when the queue's head could be admitted if nothing but contexts changes; NEVER if it could not."""
    s, limits = ring.state, ring.limits
    request = ring.preempted[s[PREEMPTED] - 1] if s[PREEMPTED] > 0 else s[NEXT]
    if request < 0 or s[RUNNING] >= limits[MAX_SEQS]:
        return NEVER
    blocks = _blocks(ring, requests.input_tokens[request] + requests.generated[request] + 1)
    return NEVER if s[HELD] + blocks > limits[BLOCKS] else int(requests.arrival_ps[request])


@inlined
def _advance_ring(fleet: Fleet, requests: Requests, which: int, until_ps: int) -> None:
    limits = fleet.limits[which]
    ring = Ring(
        fleet.token_ps[limits[TOKEN_AT] : limits[TOKEN_END]],
        fleet.sequence_ps[limits[SEQUENCE_AT] : limits[SEQUENCE_END]],
        limits,
        fleet.pair_ps[which],
        fleet.state[which],
        fleet.finish_step[which],
        fleet.running[which],
        fleet.residues[which],
        fleet.preempted[which],
        fleet.members[which],
        fleet.finished[which],
        fleet.flights[which],
    )
    s = ring.state
    while s[STOPPED] == 0:
        if s[CHANGED] != 0:
            if s[NOW] >= until_ps:
                s[WAKE] = s[NOW]
                return
            while s[FLIGHTS] < limits[STAGES] and _leave(ring, requests):
                pass
            s[CHANGED] = 0
            _go_round(ring, requests, until_ps)
        now = _lands_next_ps(ring)
        # What arrives is looked at when a batch ends, but for an engine with nothing to do.
        if s[FLIGHTS] == 0 and s[NEXT] >= 0:
            now = requests.arrival_ps[s[NEXT]]
        if now > until_ps or now == NEVER:
            s[WAKE] = now
            return
        s[CHANGED] = 1
        if s[FLIGHTS] > 0:
            _return(ring, requests)
        else:
            s[NOW] = now


@inlined
def _advance_step_by_step(pipeline: Pipeline, requests: Requests, until_ps: int) -> None:
    s, stages = pipeline.state, pipeline.limits[STAGES]
    while s[STOPPED] == 0:
        if s[CHANGED] != 0:
            if s[NOW] >= until_ps:
                s[WAKE] = s[NOW]
                return
            while s[FLIGHTS] < stages and _form(pipeline, requests):
                pass
            s[CHANGED] = 0
        now = _lands_next_ps(pipeline)
        # vLLM V1 looks at what arrived only when a batch ends, but for an engine with nothing to do; Vidur
        # looks at once.
        room = stages if pipeline.limits[STARTS_BETWEEN] != 0 else 1
        if s[FLIGHTS] < room and s[NEXT] >= 0 and requests.arrival_ps[s[NEXT]] > s[NOW]:
            now = min(now, requests.arrival_ps[s[NEXT]])
        if now > until_ps or now == NEVER:
            s[WAKE] = now
            return
        s[CHANGED] = 1
        if now == _lands_next_ps(pipeline):
            _land(pipeline, requests)
        else:
            s[NOW] = now


@called_too
def advance(fleet: Fleet, requests: Requests, which: int, until_ps: int) -> None:
    """Moves lane `which` through every iteration that ends at `until_ps` or before.

    An iteration is scheduled only when it starts before `until_ps`, so that what arrives then can still join.
    """
    if fleet.limits[which, ENGINE] == SKIPPING:
        _advance_skipping(fleet, requests, which, until_ps)
        return
    if fleet.limits[which, ENGINE] == IN_RING:
        _advance_ring(fleet, requests, which, until_ps)
        return
    limits = fleet.limits[which]
    pipeline = Pipeline(
        fleet.token_ps[limits[TOKEN_AT] : limits[TOKEN_END]],
        fleet.sequence_ps[limits[SEQUENCE_AT] : limits[SEQUENCE_END]],
        limits,
        fleet.pair_ps[which],
        fleet.state[which],
        fleet.running[which, 0],
        fleet.filled[which],
        fleet.preempted[which],
        fleet.finished[which],
        fleet.members[which],
        fleet.flights[which],
        fleet.draft_tokens[limits[DRAFT_AT] : limits[DRAFT_END]],
        fleet.draft_ps[limits[DRAFT_AT] : limits[DRAFT_END]],
        fleet.acceptance[which],
    )
    _advance_step_by_step(pipeline, requests, until_ps)


@called_too
def append(fleet: Fleet, requests: Requests, which: int, request: int, charged: int) -> None:
    """Puts `request`, which arrives no earlier than all before it, at the end of a lane's queue.

    `charged` tokens are what the dispatcher takes it for, until it ends.
    """
    s = fleet.state[which]
    if s[TAIL] >= 0:
        requests.following[s[TAIL]] = request
    s[TAIL] = request
    if s[NEXT] < 0:
        s[NEXT] = request
    if s[LATE_NEXT] < 0:
        s[LATE_NEXT] = request
    requests.charged[request] = charged
    s[OUTSTANDING] += charged
    # Whatever the lane sleeps for, the new request may join before.
    s[WAKE] = 0


@compiled
def in_turn(
    fleet: Fleet, requests: Requests, which: int, order: Ints, ends: Ints, state: Ints, flights: Ints
) -> None:
    """Runs streams of requests on lane `which`, one after the other, each from an idle lane's `state` and `flights` on.

    Stream i ends before place `ends[i]` of `order`, where the next one begins.
    """
    # Of the type of other callers' times: a constant is of its own, and `advance` is compiled for each.
    at, until_ps = 0, np.int64(NEVER)
    for end in ends:
        for column in range(STATE):
            fleet.state[which, column] = state[column]
        for stage in range(flights.shape[0]):
            for column in range(FLIGHT):
                fleet.flights[which, stage, column] = flights[stage, column]
            for residue in range(fleet.residues.shape[2]):
                fleet.residues[which, stage, residue] = 0
        while at < end:
            append(fleet, requests, which, order[at], 0)
            at += 1
        advance(fleet, requests, which, until_ps)  # type: ignore[arg-type]


@called_too
def learn(fleet: Fleet, sites: Sites, which: int, group: int) -> None:
    """`AnswerLength.seen` of all that ended at lane `which` since it was last called."""
    s = fleet.state[which]
    sites.written[group] += s[WRITTEN]
    sites.answers[group] += s[ANSWERED]
    s[WRITTEN], s[ANSWERED] = 0, 0


@called_too
def expected(sites: Sites, group: int) -> int:
    """`AnswerLength.expected`."""
    # Both halved: the mean stays, and what was seen long ago weighs ever less.
    if sites.answers[group] >= ANSWERS_KEPT:
        sites.written[group] //= 2
        sites.answers[group] //= 2
    return int(min(sites.written[group] // sites.answers[group], sites.most_output[group]))


@called_too
def least_outstanding(fleet: Fleet, sites: Sites, group: int, first: int, end: int, tokens: int) -> int:
    """`LeastOutstanding.choose` among the open replicas at places `first` to `end`."""
    n = end - first
    if n == 1:
        return int(sites.open[first])
    at = sites.turn[group]
    if at >= n:
        at = 0
    best, least = at, np.inf
    for _ in range(min(n, LOOKED_AT)):
        r = sites.open[first + at]
        load = (fleet.state[r, OUTSTANDING] + tokens) / sites.weights[r]
        if load < least:
            best, least = at, load
        at += 1
        if at == n:
            at = 0
    sites.turn[group] = best + 1
    return int(sites.open[first + best])


@called_too
def richest(sites: Sites, first: int, end: int) -> int:
    """`SmoothRoundRobin.choose`: each gains its weight, the richest serves and pays the total."""
    if end - first == 1:
        return int(sites.open[first])
    best, total = sites.open[first], 0.0
    for at in range(first, end):
        r = sites.open[at]
        sites.credit[r] += sites.weights[r]
        total += sites.weights[r]
        if sites.credit[r] > sites.credit[best]:
            best = r
    sites.credit[best] -= total
    return int(best)


@compiled
def take_turns(sites: Sites, replica: Ints) -> None:
    """Writes which `replica` [n] gets each request by smooth weighted round robin over all replicas."""
    for request in range(replica.size):
        replica[request] = richest(sites, 0, sites.open.size)


@compiled
def dispatch_by_load(fleet: Fleet, requests: Requests, sites: Sites, replica: Ints) -> None:
    """Sends each request to the least outstanding of one group, writes it to `replica` [n], and runs all out."""
    lanes = fleet.state.shape[0]
    # Once more than there are requests: `advance` is compiled into each place that calls it, and here is only one.
    for request in range(replica.size + 1):
        now = requests.arrival_ps[request] if request < replica.size else NEVER
        for which in range(lanes):
            if fleet.state[which, WAKE] <= now:
                advance(fleet, requests, which, now)
                learn(fleet, sites, which, 0)
        if request < replica.size:
            tokens = requests.input_tokens[request] + expected(sites, 0)
            replica[request] = least_outstanding(fleet, sites, 0, 0, sites.open.size, tokens)
            append(fleet, requests, replica[request], request, tokens)


@inlined
def _send(requests: Requests, apis: Apis, group: int, visit: int, now: int) -> int:
    """Sends a visit to an API as soon as its limit lets it; the instant of its last token."""
    sent_ps, first = now, apis.first_sent[group]
    places = apis.first_sent[group + 1] - first
    if places > 0:
        place = first + apis.sent[group] % places
        sent_ps = max(now, apis.sent_ps[place] + MINUTE_PS)
        apis.sent_ps[place] = sent_ps
        apis.sent[group] += 1
    requests.first_token_ps[visit] = sent_ps + apis.first_ps[visit]
    return int(sent_ps + apis.whole_ps[visit])


@inlined
def _deliver(
    fleet: Fleet, requests: Requests, sites: Sites, network: Network, paths: Paths, due: int, now: int
) -> int:
    """The first `due` of `network.due` arrive, those that arrive together in order of their numbers.

    Where a replica has too much to do, who is sent there is refused: nothing comes of the visit. Returns how many are
    left for the caller's rules, first in `network.due`.
    """
    left = 0
    # By number, whichever lane told of them first; an insertion, since few ever fall on one picosecond.
    for i in range(1, due):
        visit, at = network.due[i], i
        while at > 0 and network.due[at - 1] > visit:
            network.due[at] = network.due[at - 1]
            at -= 1
        network.due[at] = visit
    for i in range(due):
        visit = network.due[i]
        group = network.group[visit]
        first, end = network.first_replica[group], network.first_replica[group + 1]
        if network.apis.elsewhere[group]:
            requests.arrival_ps[visit], network.replica[visit] = now, first
            _wait(paths, visit, _send(requests, network.apis, group, visit, now))
            continue
        if network.by_load[group] == OWN_RULE:
            requests.arrival_ps[visit], network.due[left] = now, visit
            left += 1
            continue
        tokens = requests.input_tokens[visit] + expected(sites, group)
        if network.by_load[group]:
            replica = least_outstanding(fleet, sites, group, first, end, tokens)
        else:
            replica = richest(sites, first, end)
        requests.arrival_ps[visit] = now
        load = fleet.state[replica, OUTSTANDING] / sites.weights[replica]
        network.replica[visit] = replica if load <= network.most_load[group] else REFUSED
        if network.replica[visit] != REFUSED:
            append(fleet, requests, replica, visit, tokens)
        else:
            network.ended[0] += 1
    return left


@inlined
def _at(borders: Floats, load: float) -> int:
    """`Ladder.at`."""
    gear = 0
    while gear < borders.size and borders[gear] < load:
        gear += 1
    return gear


@inlined
def _shift(paths: Paths, in_flight: int, now_s: float) -> int:
    """`Shift.arrival`."""
    dead_band, hold_s, capacity = paths.rule[0], paths.rule[1], paths.rule[2]
    load = in_flight / capacity
    gear, calm_since = int(paths.force[0]), paths.force[1]
    at = _at(paths.borders, load)
    if at >= gear:
        gear, calm_since = at, -1.0
    else:
        calm = _at(paths.borders, load / (1 - dead_band))
        if calm >= gear:
            calm_since = -1.0
        elif calm_since < 0:
            calm_since = now_s
        elif now_s - calm_since >= hold_s:
            gear, calm_since = calm, -1.0
    paths.force[0], paths.force[1] = gear, calm_since
    return gear


@inlined
def _set_out(network: Network, paths: Paths, request: int, now_ps: int) -> int:
    """Gives an arriving request its gear, and links its visits; the first of them."""
    # Requests are numbered as they come: as many as its number came before, and some of them have ended.
    gear = _shift(paths, request - network.ended[0], now_ps * 1e-12)
    paths.gear[request] = gear
    stage = int(paths.following[gear, 0, request])
    first = paths.visit[stage, request]
    while True:
        at = paths.visit[stage, request]
        if paths.judged[gear, stage, request]:
            if paths.verdict[stage, request] >= 0:
                network.successor[at] = paths.verdict[stage, request]
                at = paths.verdict[stage, request]
            elif paths.verdict_ps.size > 0:
                paths.wait_ps[at] = paths.verdict_ps[stage, request]
        after = int(paths.following[gear, stage + 1, request])
        if after < 0:
            network.successor[at] = -1
            paths.last_visit[request], paths.last_stage[request] = at, stage
            return int(first)
        network.successor[at] = paths.visit[after, request]
        stage = after


@inlined
def _wait(paths: Paths, visit: int, until_ps: int) -> None:
    """Puts a visit on the heap of those that wait, or ~visit, which then begins."""
    at = paths.waiting[0]
    paths.waiting[0] = at + 1
    while at > 0 and paths.later_ps[(at - 1) >> 1] > until_ps:
        paths.later_ps[at], paths.later[at] = paths.later_ps[(at - 1) >> 1], paths.later[(at - 1) >> 1]
        at = (at - 1) >> 1
    paths.later_ps[at], paths.later[at] = until_ps, visit


@inlined
def _told(paths: Paths) -> int:
    """Takes the visit that waits no longer off the heap."""
    visit = paths.later[0]
    size = paths.waiting[0] - 1
    paths.waiting[0] = size
    until_ps, moved = paths.later_ps[size], paths.later[size]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and paths.later_ps[child + 1] < paths.later_ps[child]:
            child += 1
        if paths.later_ps[child] >= until_ps:
            break
        paths.later_ps[at], paths.later[at] = paths.later_ps[child], paths.later[child]
        at = child
    paths.later_ps[at], paths.later[at] = until_ps, moved
    return int(visit)


@inlined
def _set_off(network: Network, visit: int, due: int) -> int:
    """Sets off what follows on a visit, or ends its request; returns how many visits are due then."""
    successor = network.successor[visit]
    if successor < 0:
        network.ended[0] += 1
        return due
    network.due[due] = successor
    return due + 1


@inlined
def _answered(network: Network, paths: Paths, visit: int, due: int, now: int) -> int:
    """Sets off what follows once the client has a visit's answer, and its verdict where that is a mere delay."""
    if paths.wait_ps[visit] > 0:
        _wait(paths, visit, now + paths.wait_ps[visit])
        return due
    return _set_off(network, visit, due)


@inlined
def _client_ps(requests: Requests, sites: Sites, which: int, visit: int) -> int:
    """`client.delays_ps` of a visit that ended at lane `which`."""
    fixed, steps = sites.client[which, 0], sites.client[which, 1]
    if fixed == 0 and steps == 0:
        return 0
    further = requests.output_tokens[visit] - 1
    # An answer of one token has no pace of its own: a lone sequence's stands for it.
    pace = sites.client[which, 2]
    if further > 0:
        pace = float((requests.finish_ps[visit] - requests.first_token_ps[visit]) // further)
    return int(fixed) + int(np.rint(steps * pace))


@inlined
def _next_ps(requests: Requests, network: Network, paths: Paths, wakes_ps: int) -> int:
    """The next instant at which anything is; the first lane wakes at `wakes_ps`."""
    now, entered = wakes_ps, network.entered[0]
    if entered < network.entry.size:
        now = min(now, _enters_ps(requests, network, paths, entered))
    if paths.waiting[0] > 0:
        now = min(now, paths.later_ps[0])
    for group in range(network.again_ps.size):
        now = min(now, network.again_ps[group])
    return now


@inlined
def _enters_ps(requests: Requests, network: Network, paths: Paths, at: int) -> int:
    """Arrival from outside of the visit `at` in order."""
    return int(paths.arrival_ps[at] if paths.arrival_ps.size > 0 else requests.arrival_ps[network.entry[at]])


@inlined
def _come(requests: Requests, network: Network, paths: Paths, now: int) -> int:
    """What comes from outside at `now`, or has waited until then; returns how many visits are due."""
    due, entered = 0, network.entered[0]
    while entered < network.entry.size and _enters_ps(requests, network, paths, entered) <= now:
        chooses = paths.arrival_ps.size > 0
        visit = _set_out(network, paths, entered, now) if chooses else network.entry[entered]
        looked_ps = paths.looked_ps[paths.gear[entered], entered] if paths.looked_ps.size > 0 else 0
        if looked_ps > 0:
            _wait(paths, ~visit, now + looked_ps)
        else:
            network.due[due] = visit
            due += 1
        entered += 1
    network.entered[0] = entered
    while paths.waiting[0] > 0 and paths.later_ps[0] <= now:
        visit = _told(paths)
        if visit < 0:
            network.due[due] = ~visit
            due += 1
        elif requests.finish_ps[visit] < 0:
            requests.finish_ps[visit] = now
            due = _answered(network, paths, visit, due, now)
        else:
            due = _set_off(network, visit, due)
    return due


@inlined
def _end(
    fleet: Fleet,
    requests: Requests,
    sites: Sites,
    network: Network,
    paths: Paths,
    which: int,
    due: int,
    now: int,
) -> int:
    """Sets off what follows on all that lane `which` has finished; returns how many visits are due then."""
    for i in range(fleet.state[which, FINISHED]):
        visit = fleet.finished[which, i]
        paths.wait_ps[visit] += _client_ps(requests, sites, which, visit)
        due = _answered(network, paths, visit, due, now)
    fleet.state[which, FINISHED] = 0
    group = network.serves[which]
    if network.by_load[group] != OWN_RULE:
        learn(fleet, sites, which, group)
    elif network.again_ps[group] < NEVER:
        network.again_ps[group] = now
    return due


@compiled
def together(
    fleet: Fleet, requests: Requests, sites: Sites, network: Network, paths: Paths, until_ps: int
) -> int:
    """Runs all lanes of a network of stages in step: whose client has the answer here arrives there at that instant.

    At each instant before `until_ps`: end what ends then, deliver what that sets free, and only then schedule. Between
    the last two it returns where a rule of the caller's is to be asked: for how many visits, first in `network.due`;
    called again, it goes on from there. -1 where all before `until_ps` has been.
    """
    lanes = fleet.state.shape[0]
    now, network.paused_ps[0] = network.paused_ps[0], -1
    goes_on, wakes_ps = now >= 0, NEVER
    for which in range(lanes):
        wakes_ps = min(wakes_ps, fleet.state[which, WAKE])
    while True:
        due = 0
        if not goes_on:
            now = _next_ps(requests, network, paths, wakes_ps)
            if now >= until_ps:
                return -1
            due = _come(requests, network, paths, now)
        # What ends at `now`, then, when all has come that does so too, what begins: in one loop, since `advance` is
        # compiled into each place that calls it.
        for begins in range(1 if goes_on else 0, 2):
            wakes_ps = NEVER
            for which in range(lanes):
                if fleet.state[which, WAKE] <= now:
                    # `now + 1`, for an iteration is scheduled before `until` only: these start at `now` itself.
                    advance(fleet, requests, which, now + begins)
                    if begins == 0:
                        due = _end(fleet, requests, sites, network, paths, which, due=due, now=now)
                wakes_ps = min(wakes_ps, fleet.state[which, WAKE])
            if begins == 0:
                left = _deliver(fleet, requests, sites, network, paths, due=due, now=now)
                asks = left > 0
                for group in range(network.again_ps.size):
                    asks = asks or network.again_ps[group] <= now
                if asks:
                    network.paused_ps[0] = now
                    return left
        goes_on = False
