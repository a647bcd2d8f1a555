"""Workers that serve one batch at a time, compiled: an exact simulation from event to event.

Requests come in the order of their deadlines. Each worker has a queue of its own, dealt to in turn, or all take from
one. When a worker is free and its queue is not empty, a table says the model and the batch size, by the load, the
queued and the slack of the earliest. A size of 0 waits for another request, or for the slack at which the table says
otherwise. Times are whole picoseconds.

A queue is a stride through the requests (every `queues`-th from its number on), so that only its head is stored.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cascadia_sim.engine.kernel import compiled
from cascadia_sim.iteration.timing import Ints

Floats = NDArray[np.float64]

ARRIVALS, IN_FLIGHT = 0, 1
"""What the load is: arrivals within the window, or requests waiting and being served."""
DROPPED = -1


class Work(NamedTuple):
    """`draw` (n): which of the times that a batch may take it does, where its earliest request is this one."""

    arrival_ps: Ints
    slo_ps: int
    draw: Ints


class Workers(NamedTuple):
    """`kind` (w) of each; `latency_ps` (kind, model, batch - 1, draw)."""

    kind: Ints
    latency_ps: Ints


class Rules(NamedTuple):
    """Tables of each kind of worker: level i of kind c, for loads up to `border[first[c] + i]`.

    `row` (level, queued - 1) is where its decisions begin in the three lists, `row[..., queued]` where they end: by
    rising `slack_ps`, each with a `model` and a `batch`, and whether it `refuses` the rest. The last level of a kind is
    for any load beyond. With less slack than `lost_ps` a request is dropped; 0: none is.
    """

    load: int
    window_ps: int
    central: int
    lost_ps: int
    first: Ints
    border: Floats
    row: Ints
    slack_ps: Ints
    model: Ints
    batch: Ints
    refuses: Ints


class Served(NamedTuple):
    """Arrays by request: when it was done (-1: dropped), its model, and its batch's size."""

    finish_ps: Ints
    model: Ints
    batch: Ints


class State(NamedTuple):
    """`head` (queue): its first request; `idle` (queue): workers free, a stack where the queue is shared.

    `time_ps`, `who`: a heap of completions and wake-ups; `stamp` tells which wake-ups still count. `size` (w): what a
    worker has in hand.
    """

    head: Ints
    free: Ints
    time_ps: Ints
    who: Ints
    mark: Ints
    stamp: Ints
    size: Ints
    busy_ps: Ints


@compiled
def _push(state: State, count: int, time_ps: int, who: int, mark: int) -> int:
    at = count
    times, whos, marks = state.time_ps, state.who, state.mark
    while at > 0:
        parent = (at - 1) >> 1
        if times[parent] <= time_ps:
            break
        times[at], whos[at], marks[at] = times[parent], whos[parent], marks[parent]
        at = parent
    times[at], whos[at], marks[at] = time_ps, who, mark
    return count + 1


@compiled
def _pop(state: State, count: int) -> int:
    times, whos, marks = state.time_ps, state.who, state.mark
    count -= 1
    time_ps, who, mark = times[count], whos[count], marks[count]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and times[child + 1] < times[child]:
            child += 1
        if times[child] >= time_ps:
            break
        times[at], whos[at], marks[at] = times[child], whos[child], marks[child]
        at = child
    times[at], whos[at], marks[at] = time_ps, who, mark
    return count


@compiled
def run(work: Work, workers: Workers, rules: Rules, state: State, served: Served) -> int:
    """Plays all requests; returns how many decisions met a load beyond the last level."""
    arrival_ps, slo_ps = work.arrival_ps, work.slo_ps
    n, machines = arrival_ps.size, workers.kind.size
    queues = 1 if rules.central else machines
    longest = rules.row.shape[1] - 1
    came, left, old, events, beyond = 0, 0, 0, 0, 0
    free = 0
    if rules.central:
        for w in range(machines):
            state.free[w] = machines - 1 - w
        free = machines
    while came < n or events > 0:
        if events == 0 or (came < n and arrival_ps[came] <= state.time_ps[0]):
            now = arrival_ps[came]
            if rules.central:
                came += 1
                if free == 0:
                    continue
                w = state.free[free - 1]
            else:
                w = came % machines
                came += 1
                if state.size[w] > 0:
                    continue
        else:
            now, w, mark = state.time_ps[0], state.who[0], state.mark[0]
            events = _pop(state, events)
            if mark < 0:
                left += state.size[w]
                state.size[w] = 0
                if rules.central:
                    state.free[free] = w
                    free += 1
            # A decision since this wake-up was set makes it void; it is cheaper left in the heap than looked
            # for there.
            elif mark != state.stamp[0 if rules.central else w] or (rules.central and free == 0):
                continue
        while True:
            q = 0
            if rules.central:
                w = state.free[free - 1]
            else:
                q = w
            kind = workers.kind[w]
            head = state.head[q]
            if rules.lost_ps > 0:
                while head < came and arrival_ps[head] + slo_ps - now < rules.lost_ps:
                    served.finish_ps[head] = DROPPED
                    left += 1
                    head += queues
                state.head[q] = head
            if head >= came:
                break
            queued = (came - 1 - head) // queues + 1
            if rules.load == IN_FLIGHT:
                load = came - left
            else:
                # `old` never goes back, as time does not: the window costs one step a request in all.
                while old < came and arrival_ps[old] <= now - rules.window_ps:
                    old += 1
                load = came - old
            level, end = rules.first[kind], rules.first[kind + 1] - 1
            if rules.border[end] < load:
                beyond += 1
                level = end
            while level < end:
                middle = (level + end) >> 1
                if rules.border[middle] < load:
                    level = middle + 1
                else:
                    end = middle
            of = min(queued, longest)
            slack = arrival_ps[head] + slo_ps - now
            at, bottom = rules.row[level, of] - 1, rules.row[level, of - 1]
            while at > bottom and rules.slack_ps[at] > slack:
                at -= 1
            size = rules.batch[at]
            state.stamp[q] += 1
            if size == 0:
                # One picosecond on: at the slack of the step itself the table still says to wait.
                wake = arrival_ps[head] + slo_ps - rules.slack_ps[at] + 1
                events = _push(state, events, wake, w, state.stamp[q])
                break
            model = rules.model[at]
            lasts = workers.latency_ps[kind, model, size - 1, work.draw[head]]
            for i in range(size):
                request = head + i * queues
                served.finish_ps[request] = now + lasts
                served.model[request] = model
                served.batch[request] = size
            head += size * queues
            if rules.refuses[at]:
                while head < came:
                    served.finish_ps[head] = DROPPED
                    left += 1
                    head += queues
            state.head[q] = head
            state.size[w] = size
            state.busy_ps[w] += lasts
            events = _push(state, events, now + lasts, w, -1)
            if not rules.central:
                break
            free -= 1
            if free == 0:
                break
    return beyond
