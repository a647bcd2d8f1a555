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

`advance` stops at a time and resumes, so that several lanes can be moved together by a dispatcher that looks
at their loads. All compiled code is in this one file because numba's cache on disk does not see changes in
callees of another file.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

from cascadia_sim.kernel_arrays import Fleet, Lane, Network, Requests, Sites
from cascadia_sim.timing import Ints

F = TypeVar("F", bound=Callable[..., Any])

NEVER = np.iinfo(np.int64).max

# Columns of Fleet.limits: what a lane may do and what its steps cost.
TOKEN_AT, TOKEN_END, SEQUENCE_AT, SEQUENCE_END, CONTEXT_PS = 0, 1, 2, 3, 4
BLOCKS, BLOCK_SIZE, MAX_SEQS, MAX_TOKENS, CHUNKED, LATE_PS, MAX_LATE, LIMITS = 5, 6, 7, 8, 9, 10, 11, 12

# Columns of Fleet.state. NEXT: first request not yet admitted; TAIL: last one known. PARTIAL: the sequence
# whose prompt is computed up to PARTIAL_END. FILLED: prompts that the iteration in flight completes; it ends
# at END. WAKE: until then nothing changes unless a request joins. FINISHED: how many the last iteration
# finished. LATE_NEXT: first not yet judged for lateness.
NOW, NEXT, TAIL, RUNNING, STEP, CONTEXT, HELD, PEAK = 0, 1, 2, 3, 4, 5, 6, 7
PREEMPTED, PARTIAL, PARTIAL_END, FILLED, IN_FLIGHT, END, WAKE = 8, 9, 10, 11, 12, 13, 14
ADMISSIONS, PREEMPTIONS, BUSY, OUTSTANDING, FINISHED = 15, 16, 17, 18, 19
LATE, LATE_NEXT, STOPPED, STATE = 20, 21, 22, 23


def compiled(function: F) -> F:
    """Numba without the GIL, cached on disk where there is a place for it, else compiled in each process.

    Without Numba's runtime (`_nrt`): the kernel allocates nothing and its callers hold the arrays, while
    counting references to a lane's arrays at each call would take three quarters of the time.
    """
    options: Any = {"nogil": True, "error_model": "numpy", "_nrt": False}
    try:
        return cast(F, njit(cache=True, **options)(function))
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        return cast(F, njit(**options)(function))


@compiled
def _push(lane: Lane, step: int, request: int) -> None:
    size = lane.state[RUNNING]
    lane.state[RUNNING] = size + 1
    steps, requests = lane.finish_step, lane.running
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if steps[parent] <= step:
            break
        steps[at], requests[at] = steps[parent], requests[parent]
        at = parent
    steps[at], requests[at] = step, request


@compiled
def _remove(lane: Lane, at: int) -> None:
    """Takes place `at` out of the heap: its last entry moves there, then up or down to where it fits."""
    size = lane.state[RUNNING] - 1
    lane.state[RUNNING] = size
    if at == size:
        return
    steps, requests = lane.finish_step, lane.running
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


@compiled
def _blocks(lane: Lane, tokens: int) -> int:
    size = lane.limits[BLOCK_SIZE]
    return int((tokens + size - 1) // size)


@compiled
def _token_ps(lane: Lane, tokens: int) -> int:
    table = lane.token_ps
    last = table.size - 1
    if tokens <= last:
        return int(table[tokens])
    return int(table[last] + (tokens - last) * (table[last] - table[last - 1]))


@compiled
def _growth(lane: Lane, steps: int) -> int:
    """Blocks taken up over `steps` decode steps: one whenever a context outgrows a multiple of block_size."""
    size = lane.limits[BLOCK_SIZE]
    rounds = steps // size
    taken = rounds * lane.state[RUNNING]
    residue = (-lane.state[STEP]) % size
    for _ in range(steps - rounds * size):
        taken += lane.residues[residue]
        residue = residue - 1 if residue > 0 else size - 1
    return int(taken)


@compiled
def _steps_that_fit(lane: Lane, steps: int) -> int:
    """The most decode steps, at most `steps`, before one lacks blocks. The first one has them."""
    free = lane.limits[BLOCKS] - lane.state[HELD]
    size = lane.limits[BLOCK_SIZE]
    running = lane.state[RUNNING]
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


@compiled
def _steps_to_pass(gap_ps: int, first_ps: int, more_ps: int) -> int:
    """Fewest steps that take `gap_ps` or longer: the first takes `first_ps`, each next one `more_ps` more."""
    lead = first_ps - 0.5 * more_ps
    steps = int(2.0 * gap_ps / (lead + np.sqrt(lead * lead + 2.0 * more_ps * gap_ps)))
    while steps * first_ps + more_ps * (steps * (steps - 1) // 2) < gap_ps:
        steps += 1
    while steps > 1 and (steps - 1) * first_ps + more_ps * ((steps - 1) * (steps - 2) // 2) >= gap_ps:
        steps -= 1
    return max(steps, 1)


@compiled
def _count_late(lane: Lane, requests: Requests) -> None:
    """Counts each request once: when its limit has passed it is late, unless it had finished by then."""
    s = lane.state
    late_ps = lane.limits[LATE_PS]
    if late_ps <= 0:
        return
    request = s[LATE_NEXT]
    while request >= 0 and requests.arrival_ps[request] + late_ps < s[NOW]:
        finish = requests.finish_ps[request]
        if finish < 0 or finish - requests.arrival_ps[request] > late_ps:
            s[LATE] += 1
        request = requests.following[request]
    s[LATE_NEXT] = request
    if s[LATE] > lane.limits[MAX_LATE]:
        s[STOPPED] = 1


@compiled
def _finish(lane: Lane, requests: Requests, request: int) -> None:
    requests.finish_ps[request] = lane.state[NOW]
    lane.finished[lane.state[FINISHED]] = request
    lane.state[FINISHED] += 1
    lane.state[OUTSTANDING] -= requests.input_tokens[request] + requests.output_tokens[request]


@compiled
def _decode(lane: Lane, requests: Requests, steps: int) -> None:
    """All running sequences go `steps` tokens on, none finishing before the last; NOW is already the end."""
    s = lane.state
    size = lane.limits[BLOCK_SIZE]
    held = s[HELD] + _growth(lane, steps - 1)
    s[PEAK] = max(s[PEAK], held)
    s[HELD] = held + lane.residues[(1 - s[STEP] - steps) % size]
    s[CONTEXT] += steps * s[RUNNING]
    s[STEP] += steps
    while s[RUNNING] > 0 and lane.finish_step[0] == s[STEP]:
        request = lane.running[0]
        context = requests.input_tokens[request] + requests.output_tokens[request]
        _remove(lane, 0)
        s[CONTEXT] -= context
        s[HELD] -= _blocks(lane, context)
        lane.residues[(context - s[STEP]) % size] -= 1
        _finish(lane, requests, request)


@compiled
def _preempt(lane: Lane, requests: Requests) -> None:
    """The most recently admitted sequence gives its blocks back and goes to the front of the queue."""
    s = lane.state
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
        _remove(lane, at)
        s[CONTEXT] -= context
        s[HELD] -= _blocks(lane, context)
        lane.residues[(context - s[STEP]) % lane.limits[BLOCK_SIZE]] -= 1
    lane.preempted[s[PREEMPTED]] = request
    s[PREEMPTED] += 1
    s[PREEMPTIONS] += 1


@compiled
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
        elif tokens > 0 and tokens + chunk > budget:
            break
        if s[PARTIAL] < 0:
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
    if decoding > 0:
        duration += lane.limits[CONTEXT_PS] * s[CONTEXT]
    duration += np.int64(lane.pair_ps * pairs)
    s[BUSY] += duration
    s[END] = s[NOW] + duration
    s[IN_FLIGHT] = 1
    return True


@compiled
def _end_prefills(lane: Lane, requests: Requests) -> None:
    s = lane.state
    s[IN_FLIGHT] = 0
    s[FINISHED] = 0
    s[NOW] = s[END]
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
            _push(lane, s[STEP] + requests.output_tokens[request] - written, request)
    _count_late(lane, requests)


@compiled
def _skip(lane: Lane, requests: Requests, until_ps: int) -> bool:
    """Decodes to the next finish, lack of blocks or arrival with room; False if that is after `until_ps`."""
    s = lane.state
    running = s[RUNNING]
    first_ps = _token_ps(lane, running) + lane.sequence_ps[running] + lane.limits[CONTEXT_PS] * s[CONTEXT]
    more_ps = lane.limits[CONTEXT_PS] * running
    steps = _steps_that_fit(lane, lane.finish_step[0] - s[STEP])
    duration = steps * first_ps + more_ps * (steps * (steps - 1) // 2)
    request = s[NEXT]
    if request >= 0 and s[PREEMPTED] == 0 and running < lane.limits[MAX_SEQS]:
        gap_ps = requests.arrival_ps[request] - s[NOW]
        fits = s[HELD] + _blocks(lane, requests.input_tokens[request] + 1) <= lane.limits[BLOCKS]
        if fits and 0 < gap_ps < duration:
            steps = min(steps, _steps_to_pass(gap_ps, first_ps, more_ps))
            duration = steps * first_ps + more_ps * (steps * (steps - 1) // 2)
    if duration > until_ps - s[NOW]:
        s[WAKE] = s[NOW] + duration
        return False
    s[BUSY] += duration
    s[NOW] += duration
    s[FINISHED] = 0
    _decode(lane, requests, steps)
    _count_late(lane, requests)
    return True


@compiled
def advance(fleet: Fleet, requests: Requests, which: int, until_ps: int) -> None:
    """Moves lane `which` through every iteration that ends at `until_ps` or before.

    An iteration is scheduled only when it starts before `until_ps`, so that what arrives then can still join.
    """
    limits = fleet.limits[which]
    lane = Lane(
        fleet.token_ps[limits[TOKEN_AT] : limits[TOKEN_END]],
        fleet.sequence_ps[limits[SEQUENCE_AT] : limits[SEQUENCE_END]],
        limits,
        fleet.pair_ps[which],
        fleet.state[which],
        fleet.finish_step[which],
        fleet.running[which],
        fleet.residues[which],
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


@compiled
def append(fleet: Fleet, requests: Requests, which: int, request: int) -> None:
    """Puts `request`, which arrives no earlier than all before it, at the end of a lane's queue."""
    s = fleet.state[which]
    if s[TAIL] >= 0:
        requests.following[s[TAIL]] = request
    s[TAIL] = request
    if s[NEXT] < 0:
        s[NEXT] = request
    if s[LATE_NEXT] < 0:
        s[LATE_NEXT] = request
    s[OUTSTANDING] += requests.input_tokens[request] + requests.output_tokens[request]
    s[WAKE] = 0


@compiled
def assign(fleet: Fleet, requests: Requests, lanes: Ints) -> None:
    """Queues each request [n] at its lane."""
    for request in range(lanes.size):
        append(fleet, requests, lanes[request], request)


@compiled
def _fewest_outstanding(fleet: Fleet, sites: Sites, first: int, end: int) -> int:
    """Of the replicas `first` to `end`, the one with the fewest outstanding tokens per weight."""
    best, least = first, np.inf
    for r in range(first, end):
        outstanding = 0
        for which in range(sites.first_lane[r], sites.first_lane[r + 1]):
            outstanding += fleet.state[which, OUTSTANDING]
        load = outstanding / sites.weights[r]
        if load < least:
            best, least = r, load
    return int(best)


@compiled
def _richest(sites: Sites, first: int, end: int) -> int:
    """nginx's smooth weighted round robin: each gains its weight, the richest serves and pays the total."""
    best, total = first, 0.0
    for r in range(first, end):
        sites.credit[r] += sites.weights[r]
        total += sites.weights[r]
        if sites.credit[r] > sites.credit[best]:
            best = r
    sites.credit[best] -= total
    return int(best)


@compiled
def _send(fleet: Fleet, requests: Requests, sites: Sites, replica: int, request: int) -> None:
    """Queues a request at the replica's next lane."""
    lanes = sites.first_lane[replica + 1] - sites.first_lane[replica]
    append(fleet, requests, sites.first_lane[replica] + sites.turn[replica] % lanes, request)
    sites.turn[replica] += 1


@compiled
def weighted(sites: Sites, replica: Ints) -> None:
    """Writes which `replica` [n] gets each request by smooth weighted round robin over all replicas."""
    for request in range(replica.size):
        replica[request] = _richest(sites, 0, sites.weights.size)


@compiled
def least_loaded(fleet: Fleet, requests: Requests, sites: Sites, replica: Ints) -> None:
    """Sends each request to the least loaded replica, writes it to `replica` [n], and runs all lanes out."""
    lanes = fleet.state.shape[0]
    for request in range(replica.size):
        now = requests.arrival_ps[request]
        for which in range(lanes):
            if fleet.state[which, WAKE] <= now:
                advance(fleet, requests, which, now)
        replica[request] = _fewest_outstanding(fleet, sites, 0, sites.weights.size)
        _send(fleet, requests, sites, replica[request], request)
    for which in range(lanes):
        advance(fleet, requests, which, NEVER)


@compiled
def _deliver(fleet: Fleet, requests: Requests, sites: Sites, network: Network, due: int, now: int) -> None:
    """The first `due` of `network.due` arrive, those that arrive together in order of their numbers."""
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
        if network.by_load[group]:
            replica = _fewest_outstanding(fleet, sites, first, end)
        else:
            replica = _richest(sites, first, end)
        requests.arrival_ps[visit] = now
        network.replica[visit] = replica
        _send(fleet, requests, sites, replica, visit)


@compiled
def together(fleet: Fleet, requests: Requests, sites: Sites, network: Network) -> None:
    """Runs all lanes of a network of stages in step: who finishes here arrives there at that instant.

    At each instant: end what ends then, deliver what that sets free, and only then schedule.
    """
    lanes = fleet.state.shape[0]
    entered = 0
    while True:
        now = NEVER
        if entered < network.entry.size:
            now = requests.arrival_ps[network.entry[entered]]
        for which in range(lanes):
            now = min(now, fleet.state[which, WAKE])
        if now == NEVER:
            return
        due = 0
        while entered < network.entry.size and requests.arrival_ps[network.entry[entered]] == now:
            network.due[due] = network.entry[entered]
            due += 1
            entered += 1
        for which in range(lanes):
            if fleet.state[which, WAKE] <= now:
                advance(fleet, requests, which, now)
                for i in range(fleet.state[which, FINISHED]):
                    successor = network.successor[fleet.finished[which, i]]
                    if successor >= 0:
                        network.due[due] = successor
                        due += 1
                fleet.state[which, FINISHED] = 0
        _deliver(fleet, requests, sites, network, due, now)
        for which in range(lanes):
            if fleet.state[which, WAKE] <= now:
                advance(fleet, requests, which, now + 1)
