"""What a token costs at each stage: by hand, and in every file of a router that a plan is made into."""

from dataclasses import replace
from pathlib import Path

import pytest

from cascadia.controller.local.desired import local_plan
from cascadia.domain.cluster import Cluster
from cascadia.domain.plan import Plan, ReplicaGroup
from cascadia.domain.prices import token_costs
from cascadia.render.compose.router_file import router_document
from cascadia.render.engine_groups import engine_groups
from cascadia.render.helm_values import helm_values
from cascadia.router.settings.from_plan import settings_of, under_plan
from cascadia.testing.plans import POOLS, plan, stage
from tests.unit.controller.machine import local, two_stages

USD = "usd-per-million-tokens"
LOADS = {"small": 0.5, "large": 0.8}


def loaded(planned: Plan, loads: dict[str, float] = LOADS) -> Plan:
    """4,000 tokens a second for each stage, at that share of what its replicas sustain."""
    stages = tuple(replace(one, load=loads.get(one.name)) for one in planned.predicted.stages)
    return replace(planned, predicted=replace(planned.predicted, stages=stages))


def priced() -> Plan:
    return loaded(
        plan(
            [
                stage("small", ReplicaGroup("l4", 1, 1, 2, 1.0)),
                stage("large", ReplicaGroup("h100", 4, 1, 1, 0.5), ReplicaGroup("h100", 2, 1, 2, 0.5)),
            ],
            POOLS,
        )
    )


# Two L4 at $0.80 do 8,000 tokens a second where they are full; eight H100 at $2.67 do 5,000.
SMALL = 1e6 * 2 * 0.8 / (8000 * 3600)
LARGE = 1e6 * 8 * 2.67 / (5000 * 3600)


def test_a_token_costs_its_gpus_time_where_they_are_as_busy_as_they_can_be() -> None:
    costs = token_costs(priced())
    assert costs is not None
    assert costs.in_usd
    assert costs.by_stage == {
        "small": pytest.approx(SMALL, rel=1e-3),
        "large": pytest.approx(LARGE, rel=1e-3),
    }


def test_where_no_gpu_has_a_price_it_is_their_time_and_where_some_have_none_nothing() -> None:
    free = Cluster(tuple(replace(pool, usd_per_gpu_hour=0.0) for pool in POOLS.pools))
    costs = token_costs(replace(priced(), cluster=free))
    assert costs is not None
    assert not costs.in_usd
    assert costs.by_stage["small"] == pytest.approx(1e6 * 2 / (8000 * 3600), rel=1e-3)
    some = Cluster((replace(POOLS.pools[0], usd_per_gpu_hour=0.0), POOLS.pools[1]))
    assert token_costs(replace(priced(), cluster=some)) is None
    assert token_costs(loaded(priced(), {"small": 0.5})) is None


def test_every_router_of_a_plan_is_told(tmp_path: Path) -> None:
    planned = priced()
    values = helm_values(planned, engine_groups(planned, planned.cluster))
    assert values["cascade"]["costUnit"] == USD
    assert [each["cost"] for each in values["stages"]] == pytest.approx([SMALL, LARGE], rel=1e-3)
    engines = {"small": ["http://h:1"] * 2, "large": ["http://h:2"] * 3}
    demo = router_document(planned, engines, None, 8000)
    assert (demo["cost_unit"], demo["stages"][0]["cost"]) == (USD, pytest.approx(SMALL, rel=1e-3))
    machine = two_stages(1, 1)
    router = local_plan(loaded(machine), local(tmp_path)).router
    costs = token_costs(loaded(machine))
    assert costs is not None
    assert {each["name"]: each["cost"] for each in router["stages"]} == costs.by_stage
    assert router.get("cost_unit") == (USD if costs.in_usd else None)


def test_another_plan_brings_its_own_prices_and_leaves_a_scale_of_the_files_alone() -> None:
    planned = priced()
    urls = {"small": ["http://h:1"] * 2, "large": ["http://h:2"] * 3}
    single = replace(planned, judge=replace(planned.judge, kind="certainty"))
    files = settings_of(single, urls, "plan.json")
    assert files.cost_unit == USD
    busier = loaded(single, {"small": 1.0, "large": 0.8})
    assert [one.cost for one in under_plan(files, busier).stages] == pytest.approx(
        [2 * SMALL, LARGE], rel=1e-3
    )
    own = replace(
        files, cost_unit=None, stages=tuple(replace(one, cost=float(i)) for i, one in enumerate(files.stages))
    )
    assert [one.cost for one in under_plan(own, busier).stages] == [0.0, 1.0]
