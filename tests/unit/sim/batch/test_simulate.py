"""Workers that serve one batch at a time, against queueing theory and against a simulation written out in Python."""

from dataclasses import replace
from math import factorial

import numpy as np
import pytest

from cascadia_sim.batch import kernel
from cascadia_sim.batch.simulate import BatchFleet, BatchRun, Level, Step, WorkerKind, simulate_batches

pytestmark = pytest.mark.slow

ALWAYS_ONE = (Level(1e9, ((Step(0.0, 0, 1),),)),)


def fleet(count: int, queue: str, levels: tuple[Level, ...] = ALWAYS_ONE, **options: object) -> BatchFleet:
    asked = {"slo_s": 5.0, "index": "rate", "latency_s": ((1.0,),), **options}
    kinds = (WorkerKind(count, asked.pop("latency_s"), levels),)  # type: ignore[arg-type]
    return BatchFleet(kinds, queue=queue, **asked)  # type: ignore[arg-type]


def arrivals(rate_rps: float, n: int, seed: int = 0) -> np.ndarray:
    return np.cumsum(np.random.default_rng(seed).exponential(1 / rate_rps, n))


@pytest.mark.parametrize("queue", ["worker", "central"])
@pytest.mark.parametrize("load", [0.3, 0.8])
def test_one_worker_with_batches_of_one_is_an_m_d_1_queue(queue: str, load: float) -> None:
    run = simulate_batches(fleet(1, queue), arrivals(load, 400_000))
    assert run.latency_s.mean() - 1 == pytest.approx(load / (2 * (1 - load)), rel=0.03)
    assert run.busy[0] == pytest.approx(load, rel=0.01)


def test_a_central_queue_with_exponential_service_is_an_m_m_c_queue() -> None:
    servers, load, n = 5, 4.0, 400_000
    shares = (np.arange(2000) + 0.5) / 2000
    drawn_s = ((tuple((-np.log(1 - shares)).tolist()),),)
    kinds = (replace(fleet(servers, "central").kinds[0], drawn_s=drawn_s),)
    run = simulate_batches(replace(fleet(servers, "central"), kinds=kinds), arrivals(load, n))
    empty = sum(load**k / factorial(k) for k in range(servers))
    waiting = load**servers / factorial(servers) * servers / (servers - load)
    erlang_c = waiting / (empty + waiting)
    assert run.latency_s.mean() - 1 == pytest.approx(erlang_c / (servers - load), rel=0.03)


def test_requests_dealt_in_turn_never_change_queues() -> None:
    run = simulate_batches(fleet(2, "worker", latency_s=((10.0,),)), np.array([0.0, 1.0, 2.0, 11.0]))
    assert run.latency_s == pytest.approx([10, 10, 18, 10])


BATCHES = ((0.02, 0.03, 0.04, 0.05), (0.05, 0.09, 0.12, 0.15))
ROWS = (
    (Step(0.0, 0, 1), Step(0.06, 1, 1)),
    (Step(0.0, 0, 2), Step(0.1, 1, 2)),
    (Step(0.0, 0, 3),),
    (Step(0.0, 0, 4),),
)
HURRIED = tuple((Step(0.0, 0, size),) for size in (1, 2, 3, 4))
REFUSES = (ROWS[0], (Step(0.0, 0, 1, True), Step(0.05, 0, 2)), (Step(0.0, 0, 2, True),), (Step(0.0, 0, 3),))
GATHERS = ((Step(0.0, 0, 1), Step(0.04, 0, 0)), (Step(0.0, 0, 2), Step(0.04, 0, 0)), *ROWS[2:])


def ps(seconds: float) -> int:
    return round(seconds * 10**12)


def written_out(f: BatchFleet, arrival_s: np.ndarray) -> BatchRun:
    """From one moment to the next at which anything may happen, with plain lists of whole picoseconds."""
    (kind,) = f.kinds
    n, shared = len(arrival_s), f.queue == "central"
    arrival = [ps(each) for each in arrival_s]
    queues: list[list[int]] = [[] for _ in range(1 if shared else kind.count)]
    free_at = [0] * kind.count
    done, model, batch = [ps(1e6)] * n, np.full(n, -1), np.zeros(n, np.int64)
    wake: set[tuple[int, int, int]] = set()
    asked = [0] * len(queues)
    came = dropped = 0
    while came < n or wake:
        # One event at a time, an arrival before what ends with it; it concerns one queue.
        now, q, which = min([*wake, *((at, -1, 0) for at in arrival[came : came + 1])])
        if q < 0:
            q = 0 if shared else came % kind.count
            queues[q].append(came)
            came += 1
        else:
            wake.remove((now, q, which))
            if which not in (0, asked[q]):
                continue  # It has been asked since.
        queue = queues[q]
        for w in range(kind.count) if shared else [q]:
            least = max(ps(f.least_s), 1)
            while f.drops and queue and free_at[w] <= now and arrival[queue[0]] + ps(f.slo_s) - now < least:
                queue.pop(0)
                dropped += 1
            if free_at[w] > now or not queue:
                continue
            asked[q] += 1
            slack = arrival[queue[0]] + ps(f.slo_s) - now
            inside = sum(each > now - ps(f.window_s) for each in arrival[:came]) / f.window_s
            flying = came - dropped - sum(each <= now for each in done)
            load = inside if f.index == "rate" else flying
            level = next((x for x in kind.levels if x.up_to >= load), kind.levels[-1])
            row = level.rows[min(len(queue), len(level.rows)) - 1]
            step = [s for s in row if ps(s.slack_s) <= slack or s.slack_s == 0][-1]
            if step.batch == 0:
                wake.add((now + slack - ps(step.slack_s) + 1, q, asked[q]))
                continue
            taken, queue[:] = queue[: step.batch], queue[step.batch :]
            if step.refuses:
                dropped += len(queue)
                queue.clear()
            free_at[w] = now + ps(kind.latency_s[step.model][step.batch - 1])
            for each in taken:
                done[each], model[each], batch[each] = free_at[w], step.model, step.batch
            wake.add((free_at[w], q, 0))
    latency_s = np.array([(end - begin) / 1e12 for end, begin in zip(done, arrival, strict=True)])
    return BatchRun(np.where(model < 0, np.inf, latency_s), model, batch, np.zeros(kind.count), 0)


@pytest.mark.long(in_ci=12)
@pytest.mark.parametrize("queue", ["worker", "central"])
@pytest.mark.parametrize("index", ["rate", "in_flight"])
@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize("least_s", [0.0, 0.02])
@pytest.mark.parametrize("first", [ROWS, GATHERS, REFUSES], ids=["at once", "gathering", "refusing"])
def test_each_request_is_served_as_written_out(
    queue: str, index: str, drops: bool, least_s: float, first: tuple[tuple[Step, ...], ...]
) -> None:
    border = 60.0 if index == "rate" else 6.0
    levels = (Level(border, first), Level(1e6, HURRIED))
    told: dict[str, object] = {"drops": drops, "least_s": least_s}
    f = fleet(3, queue, levels, slo_s=0.15, index=index, latency_s=BATCHES, **told)
    arrival_s = arrivals(250.0 if drops else 90.0, 800, seed=5)
    got, written = simulate_batches(f, arrival_s), written_out(f, arrival_s)
    assert np.array_equal(got.model, written.model)
    assert np.array_equal(got.batch, written.batch)
    assert got.latency_s == pytest.approx(written.latency_s, abs=1e-9)
    assert np.isinf(got.latency_s).any() == (drops or first is REFUSES)


@pytest.mark.parametrize("queue", ["worker", "central"])
@pytest.mark.parametrize("first", [ROWS, GATHERS, HURRIED], ids=["at once", "gathering", "hurried"])
def test_no_list_is_read_beyond_its_end(
    queue: str, first: tuple[tuple[Step, ...], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel as Python, which checks: all comes at once, and waits for longer than the load is counted over."""
    f = fleet(1, queue, (Level(60.0, first), Level(1e6, HURRIED)), slo_s=0.15, latency_s=BATCHES)
    told = simulate_batches(f, arrivals(2000.0, 120))
    monkeypatch.setattr(kernel, "run", kernel.run.py_func)  # type: ignore[attr-defined]
    assert np.array_equal(simulate_batches(f, arrivals(2000.0, 120)).latency_s, told.latency_s)


def test_a_load_beyond_the_last_level_is_counted() -> None:
    levels = (Level(2.0, ((Step(0.0, 0, 1),),)),)
    run = simulate_batches(fleet(1, "central", levels, index="in_flight"), np.zeros(5))
    # The first is taken alone; when it is done four are left, then three, two, one.
    assert run.beyond == 2


def test_kinds_of_workers_follow_their_own_tables() -> None:
    slow = WorkerKind(1, ((2.0,),), ALWAYS_ONE)
    both = BatchFleet((replace(slow, latency_s=((1.0,),)), slow), slo_s=5.0, queue="worker", index="rate")
    assert simulate_batches(both, np.array([0.0, 0.0])).latency_s == pytest.approx([1, 2])


def test_nothing_is_served_of_nothing() -> None:
    assert simulate_batches(fleet(2, "central"), np.empty(0)).latency_s.size == 0
