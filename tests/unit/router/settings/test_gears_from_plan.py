"""A plan's gears, as each way of serving it hands them to a router."""

from dataclasses import replace

from cascadia.demo.router_file import router_document
from cascadia.domain.gear import Gear
from cascadia.domain.plan import Plan, ReplicaGroup
from cascadia.router.settings.from_plan import settings_of, under_plan
from cascadia.router.settings.model import GearSettings
from cascadia.testing.plans import POOLS, plan, stage
from tests.unit.router.server.test_serve import CERTAINTY

ADDRESSES = {"small": ["http://h:1", "http://h:2"], "large": ["http://h:3"]}
EXPECTED = (
    GearSettings(0, 12.5, ("small", "large"), {"small": 50.0}),
    GearSettings(1, None, ("small",), {"small": 20.0}),
)


def geared() -> Plan:
    one = plan(
        [stage("small", ReplicaGroup("l4", 1, 1, 2, 1.0)), stage("large", ReplicaGroup("l4", 1, 1, 1, 1.0))],
        POOLS,
        CERTAINTY,
    )
    ladder = (Gear(12.5, 6.0, ("small", "large"), (50.0,)), Gear(None, None, ("small",), (20.0,)))
    return replace(one, gears=ladder)


def test_a_router_of_a_plan_has_its_gears() -> None:
    settings = settings_of(geared(), ADDRESSES, "plan.json")
    assert settings.gears == EXPECTED
    assert settings_of(replace(geared(), gears=geared().gears[1:]), ADDRESSES, "plan.json").gears == ()


def test_a_plan_that_comes_brings_its_gears_to_the_files_addresses() -> None:
    files = settings_of(replace(geared(), gears=geared().gears[1:]), ADDRESSES, "plan.json")
    assert under_plan(files, geared()).gears == EXPECTED
    assert under_plan(under_plan(files, geared()), replace(geared(), gears=geared().gears[1:])).gears == ()


def test_the_demos_router_file_has_them() -> None:
    document = router_document(geared(), ADDRESSES, None, 8000)
    assert [gear["max_in_flight"] for gear in document["gears"]] == [12.5, None]
    assert document["gears"][1]["stages"] == ["small"]
