"""Composed latencies of combinations of options, held against enumeration request by request."""

from itertools import product

import numpy as np
import pytest

from cascadia.planner.allocation.demand import Replicas
from cascadia.planner.deployment.options import Option
from cascadia.planner.deployment.simulation import quantile_s
from cascadia.planner.search import composition
from cascadia.planner.search.composition import best_combinations, descend
from tests.unit.planner.instances import shape

POOLS = {"a": 7, "b": 5}
QUANTILE = 0.9
REQUESTS = 37


def case(seed: int, demands: int) -> tuple[list[np.ndarray], np.ndarray, list[list[Option]]]:
    """Rows and options of so many demands, three or four each, on two pools; and what is added to each request."""
    rng = np.random.default_rng(seed)
    rows, choices = [], []
    for _ in range(demands):
        found = []
        for _ in range(int(rng.integers(3, 5))):
            some = [
                Replicas(shape(int(rng.integers(1, 3)), pool=pool), int(rng.integers(0, 3)), 1)
                for pool in POOLS
            ]
            found.append(Option(tuple(r for r in some if r.count) or (some[0],), 0.0))
        choices.append(found)
        rows.append(rng.exponential(1.0, (len(found), REQUESTS)))
    return rows, rng.exponential(0.1, REQUESTS), choices


def enumerated(
    rows: list[np.ndarray], fixed: np.ndarray, choices: list[list[Option]]
) -> dict[tuple[int, ...], float]:
    """The quantile of every combination; infinite where it takes more of a pool than there is."""
    found = {}
    for chosen in product(*(range(len(options)) for options in choices)):
        used = dict.fromkeys(POOLS, 0)
        for options, at in zip(choices, chosen, strict=True):
            for r in options[at].replicas:
                used[r.shape.pool] += r.shape.gpus * r.count
        whole = fixed + sum(row[at] for row, at in zip(rows, chosen, strict=True))
        over = any(used[pool] > most for pool, most in POOLS.items())
        found[chosen] = np.inf if over else quantile_s(whole, QUANTILE)
    return found


@pytest.mark.parametrize("demands", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_all_combinations_are_what_enumeration_makes_of_them(seed: int, demands: int) -> None:
    rows, fixed, choices = case(seed, demands)
    grid, latency = best_combinations(rows, fixed, choices, POOLS, QUANTILE)
    expected = enumerated(rows, fixed, choices)
    assert dict(zip(map(tuple, grid.tolist()), latency.tolist(), strict=True)) == pytest.approx(
        expected, rel=1e-12
    )
    assert demands < 4 or np.isinf(latency).any()


@pytest.mark.parametrize("seed", range(4))
def test_a_descent_passes_what_fits_alone_and_ends_where_no_pair_of_demands_leads_further(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, fixed, choices = case(seed, 4)
    every = enumerated(rows, fixed, choices)
    start = min(every, key=lambda at: sum(choices[d][o].gpus for d, o in enumerate(at)))
    asked = []
    whole = best_combinations

    def noted(rows: list[np.ndarray], *others: object) -> object:
        asked.append(len(rows))
        return whole(rows, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(composition, "best_combinations", noted)
    passed, latency = descend(rows, fixed, choices, POOLS, QUANTILE, start, sweeps=20)
    # All at once would be what is too much for more than three demands.
    assert set(asked) == {2}
    told = dict(zip(map(tuple, passed.tolist()), latency.tolist(), strict=True))
    assert told == pytest.approx({at: every[at] for at in told}, rel=1e-9)
    end = min(told, key=lambda at: told[at])
    near = [at for at in every if sum(a != b for a, b in zip(at, end, strict=True)) <= 2]
    assert every[end] == pytest.approx(min(every[at] for at in near))
