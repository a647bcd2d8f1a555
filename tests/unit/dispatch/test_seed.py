"""First coefficients of a latency model: the least squares of a simulation, written down anew request by request."""

import numpy as np
import pytest

from cascadia.dispatch.latency_model import SCALE, LatencyModel, Seen
from cascadia.dispatch.seed import seed_of
from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.iteration.timing import ReplicaTiming
from tests.unit.sim.machines import machine

S = 10**12
MS = S // 1000


def steady() -> ReplicaTiming:
    """An iteration takes 10 ms, whatever is in it: 70 tokens at most."""
    return machine(token_ps=np.full(300, 10 * MS, np.int64), seqs=64, kv=100_000, budget=70)


def slower_when_full() -> ReplicaTiming:
    """It takes a tenth of a millisecond for each token in it, and 1 ms for each sequence, besides."""
    tokens = np.arange(300, dtype=np.int64)
    return machine(token_ps=10 * MS + tokens * MS // 10, sequence_ps=MS, seqs=8, kv=100_000, budget=200)


def simulated(timing: ReplicaTiming, read: np.ndarray, wrote: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Terms of each request, at four shares of what the replica sustains; and the seconds that it took."""
    n, zeros = read.size, np.zeros(read.size, np.int64)
    ended = sorted(simulate_replica(timing, zeros, read, wrote, zeros).finish_ps.tolist())
    each_s = ended[n * 9 // 10] / S / (n * 9 // 10)
    gaps = np.random.default_rng(0).exponential(size=n)
    rows, seconds = [], []
    for share in (0.2, 0.5, 0.8, 0.95):
        came = np.rint(np.cumsum(gaps) * each_s / share * S).astype(np.int64)
        left = simulate_replica(timing, came, read, wrote, zeros).finish_ps
        for i in range(n):
            others = [k for k in range(i) if left[k] > came[i]]
            load = len(others) + sum(int(read[k] + wrote[k]) for k in others) / 4096
            rows.append((1.0, read[i], wrote[i], wrote[i] * load))
            seconds.append((left[i] - came[i]) / S)
    return np.array(rows, float), np.array(seconds)


def fitted(rows: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """By relative errors."""
    return np.linalg.lstsq(rows / seconds[:, None], np.ones(len(rows)), rcond=None)[0]


def test_a_model_begins_with_the_line_through_what_was_simulated() -> None:
    rng = np.random.default_rng(1)
    read, wrote = rng.integers(10, 1000, 100), rng.integers(5, 100, 100)
    line = fitted(*simulated(steady(), read, wrote))
    assert (line > 0).all()
    assert seed_of(steady(), read, wrote) == pytest.approx(line.tolist(), rel=1e-6)


def test_what_would_speed_a_request_up_is_left_out_of_the_line() -> None:
    rng = np.random.default_rng(3)
    read, wrote = rng.integers(10, 1000, 200), rng.integers(5, 200, 200)
    rows, seconds = simulated(slower_when_full(), read, wrote)
    assert (fitted(rows, seconds) < 0).tolist() == [True, False, False, False]
    line = fitted(rows[:, 1:], seconds).tolist()
    found = seed_of(slower_when_full(), read, wrote)
    assert found == pytest.approx([1e-6 * SCALE[0], *line], rel=1e-6)
    told = [
        LatencyModel(found).seconds(Seen(int(r[1]), r[3] / r[2]), r[2]) / s
        for r, s in zip(rows, seconds, strict=True)
    ]
    assert np.mean(told) == pytest.approx(1.0, abs=0.1)


def test_only_so_many_requests_are_looked_at() -> None:
    read, wrote = np.full(1600, 20), np.tile([3, 5], 800)
    first = seed_of(machine(), read[:1500], wrote[:1500])
    wrote[1500:] = 200
    assert seed_of(machine(), read, wrote) == first


def test_a_single_request_is_enough() -> None:
    assert min(seed_of(machine(), np.array([20]), np.array([5]))) > 0
