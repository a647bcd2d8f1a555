"""`pools: any`: each measured GPU at its list price, rented one by one, of which a few are searched."""

from dataclasses import replace
from pathlib import Path

import pytest

from cascadia.domain.cluster import Pool, Spot
from cascadia.domain.errors import BadInput, Infeasible
from cascadia.planner.pool.affordable import affordable
from cascadia.planner.problem.cluster import build_cluster
from cascadia.planner.spec.file import check_spec
from cascadia.planner.spec.model import ClusterSpec, Spec
from cascadia.planner.spec.overrides import Overrides
from cascadia_sim.evidence.unmeasured import is_measured
from cascadia_sim.hardware.catalogue import gpu
from tests.unit.planner.problems import MEDIUM, SMALL, problem, traffic
from tests.unit.planner.specs import changed, valid_spec


def offered(budget_usd: float | None = 12.0) -> tuple[Pool, ...]:
    spec = check_spec(changed("cluster", {"pools": "any", "budget_usd_per_hour": budget_usd}), "spec")
    return build_cluster(spec.cluster, Path(), "spec").cluster.pools


def test_any_offers_each_measured_gpu_at_its_list_price_one_by_one() -> None:
    pools = offered()
    assert {"h100-sxm", "a40", "b200-sxm"} <= {pool.gpu for pool in pools}
    for pool in pools:
        assert is_measured(pool.hardware)
        assert pool.rent == "gpu"
        assert pool.usd_per_unit_hour == gpu(pool.gpu).usd_per_hour > 0


def test_any_offers_nodes_as_they_are_sold() -> None:
    """Eight superchips with one GPU each share no NVLink."""
    size = {pool.gpu: pool.gpus_per_node for pool in offered()}
    assert (size["gh200"], size["h100-sxm"]) == (1, 8)


def test_any_needs_a_budget_and_no_other_word_will_do() -> None:
    with pytest.raises(BadInput, match=r"budget_usd_per_hour: is missing.*--budget 24"):
        offered(None)
    with pytest.raises(BadInput, match=r"cluster.pools: is 'all'; write a list of pools, or any"):
        check_spec(changed("cluster.pools", "all"), "spec")


def test_flags_offer_any_in_place_of_the_specs_pools() -> None:
    made = Overrides(budget_usd_per_hour=24.0, pools="any")(check_spec(valid_spec(), "spec"))
    assert len(made.cluster.pools) == len(offered())
    assert made.cluster.budget_usd_per_hour == 24.0
    # And once more, as the controller changes the spec that it was given.
    assert Overrides(budget_usd_per_hour=6.0)(made).cluster.pools == made.cluster.pools


def test_flags_size_a_pool_that_another_flag_offers() -> None:
    spec = check_spec(valid_spec(), "spec")
    change = Overrides((("a40", 4),), budget_usd_per_hour=24.0, pools="any")
    at_once, one_by_one = change(spec), replace(change, pools=None)(replace(change, gpus=())(spec))
    (pool,) = (each for each in at_once.cluster.pools if each.called == "a40")
    assert (pool.nodes, pool.gpus_per_node, pool.rent) == (1, 4, "gpu")
    assert at_once == one_by_one


def test_its_schema_takes_a_list_or_the_word() -> None:
    ways = Spec.model_json_schema()["$defs"][ClusterSpec.__name__]["properties"]["pools"]["anyOf"]
    assert [way.get("const", way.get("type")) for way in ways] == ["array", "any"]


def test_of_many_kinds_the_cheapest_and_the_fastest_are_searched_and_a_note_names_them() -> None:
    made = problem((SMALL, MEDIUM), pools=offered(), trace=traffic(60, 30.0))
    made = affordable(replace(made, cluster=replace(made.cluster, budget_usd_per_hour=12.0)))
    names = [pool.name for pool in made.cluster.pools]
    assert len(names) == 3
    assert "b200-sxm" in names
    assert made.notes[-1].startswith("of 9 kinds of GPU within the budget")
    assert all(name in made.notes[-1] for name in names)


def test_a_budget_below_the_cheapest_gpu_that_holds_the_model_names_its_price() -> None:
    made = problem((SMALL, MEDIUM), pools=offered(), trace=traffic(60, 30.0))
    with pytest.raises(
        Infeasible, match=r"does not buy nodes that hold s\d; the cheapest that do cost \$0\.45/h"
    ):
        affordable(replace(made, cluster=replace(made.cluster, budget_usd_per_hour=0.4)))


def test_spot_is_taken_where_it_costs_less_for_the_time_that_it_is_there() -> None:
    pool = Pool("a", "h100-sxm", 2, 8, 3.0, spot=Spot(1.0, 2.0))
    assert pool.on_spot
    assert pool.there == pytest.approx(1 - 2 * 600 / 86_400)
    assert pool.usd_per_node_hour == 8.0
    # Taken away every quarter of an hour it serves a third of the time: 1 $/h for that is no less than 3 $/h.
    rare = replace(pool, spot=Spot(1.0, 96.0))
    assert not rare.on_spot
    assert (rare.there, rare.usd_per_node_hour) == (1.0, 24.0)
