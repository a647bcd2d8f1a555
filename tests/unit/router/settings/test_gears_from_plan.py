"""A plan's gears, as each way of serving it hands them to a router."""

from dataclasses import replace
from pathlib import Path

from cascadia.controller.local.desired import local_plan
from cascadia.domain.gear import Gear
from cascadia.domain.objective import UnderLoad
from cascadia.domain.plan import Plan, ReplicaGroup
from cascadia.files.plan_file import read_plan, write_plan
from cascadia.planner.plan import plan as planned
from cascadia.planner.problem.read import read_problem
from cascadia.planner.refinement.state import Effort
from cascadia.render.compose.router_file import router_document
from cascadia.render.engine_groups import engine_groups
from cascadia.render.helm_values import helm_values
from cascadia.router.settings.from_plan import settings_of, under_plan
from cascadia.router.settings.model import GearSettings
from cascadia.testing.plans import POOLS, plan, stage
from tests.unit.controller.machine import local, two_stages
from tests.unit.planner.specs import small_spec, write_inputs, write_spec
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


def test_what_the_spec_says_of_too_much_reaches_the_router(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    spec = write_spec(tmp_path, small_spec() | {"under_load": {"then": "refuse"}, "gears": {"count": 1}})
    effort = Effort(routings=2, combinations=20, simulated_requests=400, fewest_simulations=4)
    write_plan(planned(read_problem(spec), effort=effort).plan, tmp_path / "plan.json")
    found = read_plan(tmp_path)
    groups = [*((stage.name, stage.replicas) for stage in found.stages), ("judge", found.judge.replicas)]
    addresses = {
        name: [f"http://{name}:{i + 1}" for i in range(sum(group.count for group in several))]
        for name, several in groups
        if several
    }
    assert settings_of(found, addresses, "plan.json").when_overloaded == "refuse"


def test_every_router_of_a_plan_that_refuses_is_told(tmp_path: Path) -> None:
    refusing = replace(geared(), under_load=UnderLoad(None, "refuse"))
    assert router_document(refusing, ADDRESSES, None, 8000)["under_load"] == {"then": "refuse"}
    assert "under_load" not in router_document(geared(), ADDRESSES, None, 8000)
    told = [helm_values(each, engine_groups(each, POOLS))["cascade"] for each in (refusing, geared())]
    assert [each.get("underLoad") for each in told] == [{"then": "refuse"}, None]
    machine = two_stages(1, 1)
    here = local_plan(replace(machine, under_load=UnderLoad(None, "refuse")), local(tmp_path)).router
    assert here["under_load"] == {"then": "refuse"}
    assert "under_load" not in local_plan(machine, local(tmp_path)).router


def test_every_router_is_told_how_full_a_stage_was_planned_to_be(tmp_path: Path) -> None:
    """And the rest that a router's file says of a stage, whoever writes it."""
    limited = tuple(replace(each, max_tokens=300, balancing="earliest-finish") for each in geared().stages)
    loads = (0.8, 0.4)
    filled = [replace(each, load=load) for each, load in zip(geared().predicted.stages, loads, strict=True)]
    told = replace(geared(), stages=limited, predicted=replace(geared().predicted, stages=tuple(filled)))
    expected = [told.stage_document(each.name) for each in told.stages]
    assert tuple(each["load"] for each in expected) == loads
    settings = settings_of(told, ADDRESSES, "plan.json")
    assert [(each.load, each.max_tokens, each.balancing) for each in settings.stages] == [
        (each["load"], 300, "earliest-finish") for each in expected
    ]
    files = settings_of(geared(), ADDRESSES, "plan.json")
    bare = replace(files, stages=tuple(replace(each, load=None) for each in files.stages))
    assert [each.load for each in under_plan(bare, told).stages] == [each["load"] for each in expected]
    documents = (
        router_document(told, ADDRESSES, None, 8000)["stages"],
        [each["routing"] for each in helm_values(told, engine_groups(told, POOLS))["stages"]],
        local_plan(machine := replace(two_stages(1, 1), gears=told.gears), local(tmp_path)).router["stages"],
    )
    for stages, plan_ in zip(documents, (told, told, machine), strict=True):
        for entry, each in zip(stages, plan_.stages, strict=True):
            assert plan_.stage_document(each.name).items() <= entry.items()


def test_a_plan_that_says_nothing_of_too_much_leaves_it_to_the_files() -> None:
    files = settings_of(geared(), ADDRESSES, "plan.json")
    assert files.when_overloaded == "queue"
    refusing = under_plan(files, replace(geared(), under_load=UnderLoad(None, "refuse")))
    assert refusing.when_overloaded == "refuse"
    assert under_plan(refusing, geared()).when_overloaded == "refuse"
    assert under_plan(refusing, replace(geared(), under_load=UnderLoad(80.0))).when_overloaded == "queue"
