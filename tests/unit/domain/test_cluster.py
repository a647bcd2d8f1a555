"""What a pool's GPUs cost and how much of the time they serve, by hand."""

from dataclasses import replace

import pytest

from cascadia.domain.cluster import Cluster, Pool, Spot

ON_DEMAND = Pool("a", "h100-sxm", nodes=3, gpus_per_node=8, usd_per_gpu_hour=2.0)
WITH_SPOT = replace(ON_DEMAND, spot=Spot(0.5, interruptions_per_day=36.0))
"""Of each day, 36 times 10 minutes are lost: a quarter."""


@pytest.mark.parametrize(
    ("a_day", "there"), [(0.0, 1.0), (36.0, 0.75), (72.0, 0.5), (144.0, 0.0), (288.0, 0.0)]
)
def test_each_interruption_of_a_spot_node_costs_ten_minutes_of_its_day(a_day: float, there: float) -> None:
    assert Spot(1.0, a_day).there == there


def test_on_demand_a_pool_costs_its_price_and_is_always_there() -> None:
    assert not ON_DEMAND.on_spot
    assert (ON_DEMAND.paid_usd_per_gpu_hour, ON_DEMAND.there) == (2.0, 1.0)
    assert (ON_DEMAND.usd_per_node_hour, ON_DEMAND.usd_per_unit_hour) == (16.0, 16.0)
    assert (ON_DEMAND.gpus, Cluster((ON_DEMAND, ON_DEMAND)).gpus) == (24, 48)


def test_spot_nodes_are_taken_where_they_are_cheaper_for_the_time_that_they_serve() -> None:
    assert WITH_SPOT.on_spot
    assert (WITH_SPOT.paid_usd_per_gpu_hour, WITH_SPOT.there, WITH_SPOT.usd_per_node_hour) == (0.5, 0.75, 4.0)


@pytest.mark.parametrize(("usd", "taken"), [(1.49, True), (1.5, False), (1.75, False), (2.5, False)])
def test_a_spot_price_that_saves_nothing_is_not_paid(usd: float, taken: bool) -> None:
    """$2.00 on demand for three quarters of the time are $1.50."""
    pool = replace(ON_DEMAND, spot=Spot(usd, 36.0))
    assert pool.on_spot is taken
    assert (pool.paid_usd_per_gpu_hour, pool.there) == ((usd, 0.75) if taken else (2.0, 1.0))


def test_single_gpus_are_rented_only_where_the_pool_says_so() -> None:
    single = replace(ON_DEMAND, rent="gpu")
    assert (ON_DEMAND.unit_gpus, single.unit_gpus) == (8, 1)
    assert (single.usd_per_unit_hour, single.usd_per_node_hour) == (2.0, 16.0)
