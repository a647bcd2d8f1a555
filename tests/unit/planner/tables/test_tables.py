"""A stage's table: what a replica at level k shows is what k equal replicas behind round robin show."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cascadia.planner.tables.loads import Load
from cascadia.planner.tables.shapes import Shape
from cascadia.planner.tables.tables import STABLE_SHARE, StageTable, TableCache, levels_for, saturation_level
from cascadia_sim.cascade.stage import Replica, simulate_stage
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.build import replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.timing import PS_PER_S
from cascadia_sim.models.catalogue import architecture
from tests.unit.planner.problems import MEDIUM, traffic
from tests.unit.sim.machines import machine

QUANTILE = 0.95


def load_at(rate_rps: float, requests: int = 600, seed: int = 0) -> Load:
    trace = traffic(requests, rate_rps, seed)
    arrival = np.rint(trace.arrival_s * PS_PER_S).astype(np.int64)
    n = len(trace)
    period_ps = int(arrival[-1]) * n // (n - 1)
    nothing = np.zeros(n, np.int64)
    return Load(np.arange(n), arrival, trace.input_tokens, trace.output_tokens, nothing, period_ps)


def shape_of(tp: int, pp: int = 1) -> Shape:
    timing = replica_timing(architecture(MEDIUM), gpu("h100-sxm"), tp=tp, pp=pp, config=EngineConfig())
    return Shape("a", tp, pp, timing, 2.5 * tp * pp)


def table_of(load: Load, *shapes: Shape, most: int, quantile: float = QUANTILE) -> StageTable:
    with ThreadPoolExecutor(1) as threads:
        return TableCache(threads).table("s", shapes, load, quantile, lambda _: most)


def round_robin_s(shape: Shape, load: Load, k: int) -> float:
    run = simulate_stage(
        [Replica(shape.timing)] * k,
        "round-robin",
        load.arrival_ps,
        load.input_tokens,
        load.output_tokens,
        load.cached_tokens,
    )
    took = (run.finish_ps - load.arrival_ps) / PS_PER_S
    return float(np.quantile(took, QUANTILE, method="inverted_cdf"))


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8])
def test_an_entry_is_what_each_of_k_replicas_shows_under_round_robin(k: int) -> None:
    load, shape = load_at(8.0), shape_of(1)
    entry = table_of(load, shape, most=k).latency_s[0, -1]
    assert entry == pytest.approx(round_robin_s(shape, load, k), rel=1e-9)


@pytest.mark.parametrize("rate_rps", [2.0, 8.0])
def test_windows_of_a_pipelines_long_stream_stand_for_all_of_it(rate_rps: float) -> None:
    load, shape = load_at(rate_rps, requests=6000), shape_of(1, 2)
    assert table_of(load, shape, most=1).latency_s[0, 0] == pytest.approx(
        round_robin_s(shape, load, 1), rel=0.1
    )


def test_entries_between_simulated_levels_lie_between_their_values() -> None:
    load, shape = load_at(8.0), shape_of(1)
    table = table_of(load, shape, most=40)
    for k, entry in zip(table.levels.tolist(), table.latency_s[0].tolist(), strict=True):
        assert entry == pytest.approx(round_robin_s(shape, load, k), rel=0.03)


@pytest.mark.parametrize("seed", range(5))
def test_a_lighter_load_is_never_slower(seed: int) -> None:
    table = table_of(load_at(30.0, 300, seed), shape_of(1), shape_of(2), most=20)
    for row in table.latency_s:
        assert (np.diff(row[np.isfinite(row)]) <= 0).all()
        assert (np.diff(np.isfinite(row).astype(int)) >= 0).all()


def test_a_level_at_which_a_replica_cannot_keep_up_is_infinite() -> None:
    load = load_at(60.0, 2000)
    table = table_of(load, shape_of(1), shape_of(4), most=40)
    assert (table.saturated > 1).any()
    for row, least in zip(table.latency_s, table.saturated.tolist(), strict=True):
        assert np.isfinite(row).tolist() == (table.levels >= least).tolist()


def test_a_stage_that_no_number_of_replicas_sustains_has_no_finite_entry() -> None:
    table = table_of(load_at(3000.0, 2000), shape_of(1), most=4)
    assert not np.isfinite(table.latency_s).any()
    assert len(table.bounds_s) == 0
    assert table.shares(1e9).tolist() == [0.0]


def test_the_least_level_is_the_rate_over_a_known_throughput() -> None:
    """One request at a time, 1,001 ps for its 1-token prompt and each of 9 more tokens: 10 iterations."""
    requests, gap_ps = 1000, 4_000
    shape = Shape("a", 1, 1, machine(seqs=1), 1.0)
    load = Load(
        np.arange(requests),
        np.arange(requests) * gap_ps,
        np.ones(requests, np.int64),
        np.full(requests, 10, np.int64),
        np.zeros(requests, np.int64),
        requests * gap_ps,
    )
    service_ps, rate = 10 * 1_001, 1 / gap_ps
    assert saturation_level(shape.timing, load) == pytest.approx(rate * service_ps / STABLE_SHARE)


def test_a_stage_without_requests_takes_no_time() -> None:
    nobody = np.zeros(0, np.int64)
    table = table_of(Load(nobody, nobody, nobody, nobody, nobody, 10**12), shape_of(1), most=4)
    assert table.latency_s.tolist() == [[0.0] * 4]


def test_levels_are_dense_where_they_matter_and_six_to_a_doubling_beyond() -> None:
    assert levels_for(8).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert levels_for(0).tolist() == [1]
    many = levels_for(1000)
    assert (np.diff(many) > 0).all()
    assert (many[1:][many[1:] > 8] / many[:-1][many[1:] > 8]).max() < 1.2


def test_a_table_that_comes_again_is_not_made_again() -> None:
    load, shape = load_at(8.0, 200), shape_of(1)
    with ThreadPoolExecutor(1) as threads:
        cache = TableCache(threads)
        first = cache.table("s", (shape,), load, QUANTILE, lambda _: 4)
        assert cache.table("s", (shape,), load, QUANTILE, lambda _: 4) is first
        assert cache.table("s", (shape,), load, 0.5, lambda _: 4) is not first


def test_within_a_bound_the_largest_share_counts() -> None:
    table = StageTable(
        (shape_of(1), shape_of(2)),
        np.array([1, 2, 4]),
        np.array([[np.inf, 6.0, 3.0], [4.0, 2.0, 1.0]]),
        np.array([2.0, 1.0]),
        10,
    )
    assert table.shares(6.0).tolist() == [0.5, 1.0]
    assert table.shares(3.0).tolist() == [0.25, 0.5]
    assert table.shares(0.5).tolist() == [0.0, 0.0]
    assert table.best_level(2.0).tolist() == [-1, 1]
    assert table.bounds_s.tolist() == [1.0, 2.0, 3.0, 4.0, 6.0]
