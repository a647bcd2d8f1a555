"""A plan that was written reads back the same; anything else is refused in one line."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia.domain.errors import BadInput
from cascadia.domain.gear import Gear
from cascadia.domain.objective import UnderLoad
from cascadia.domain.plan import FORMAT_VERSION, Plan
from cascadia.files.plan_file import parse_plan, plan_json, read_plan, write_plan
from tests.examples import examples
from tests.unit.planner.plans import a_plan, plans


def scaling_of(times: list[float], **counts: list[int]) -> object:
    replicas = {"small": [3], "large": [1, 1], "judge": [1], **counts}
    return {"peaks": [], "scales": [{"times": each, "replicas": replicas} for each in times]}


def edited(path: str, value: object) -> str:
    """The plan's JSON with `value` at a path such as `stages.0.name`."""
    document = json.loads(plan_json(a_plan()))
    *way, last = [int(key) if key.isdecimal() else key for key in path.split(".")]
    place: Any = document
    for key in way:
        place = place[key]
    place[last] = value
    return json.dumps(document)


def told(text: str) -> str:
    with pytest.raises(BadInput) as caught:
        parse_plan(text, "plan.json")
    return str(caught.value)


@given(plans())
@settings(max_examples=examples(100))
def test_a_plan_reads_back_as_it_was(plan: Plan) -> None:
    assert parse_plan(plan_json(plan), "plan.json") == plan


def test_a_plan_is_read_from_its_file_or_its_folder(tmp_path: Path) -> None:
    write_plan(a_plan(), tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == read_plan(tmp_path) == a_plan()
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_a_plan_of_the_first_version_says_nothing_of_whom_to_skip() -> None:
    document = json.loads(plan_json(a_plan())) | {"version": 1}
    del document["skip_below"]
    old = parse_plan(json.dumps(document), "plan.json")
    assert old.skip_below == ()
    assert old.skips("small") is old.skips("large") is None


def test_a_stage_is_skipped_below_what_the_plan_says() -> None:
    embedding = replace(a_plan().judge, kind="embedding")
    plan = parse_plan(plan_json(replace(a_plan(), skip_below=(25.0,), judge=embedding)), "plan.json")
    assert (plan.skips("small"), plan.skips("large")) == (25.0, None)
    assert replace(plan, skip_below=(0.0,)).skips("small") is None


def test_gears_of_older_plans_are_one() -> None:
    """They named a first stage and a rate, and nothing ever switched between them."""
    plan = json.loads(plan_json(a_plan()))
    old = [{"max_rate_rps": rate, "thresholds": [62.5], "entry_stage": "large"} for rate in (6.0, 9.0)]
    (gear,) = parse_plan(json.dumps(plan | {"version": 2, "gears": old}), "plan.json").gears
    assert gear == Gear(None, 6.0, ("large",), (62.5,))


def test_what_gives_way_is_read_back_and_older_plans_say_nothing_of_it() -> None:
    known = replace(a_plan(), under_load=UnderLoad(70.0, "refuse"))
    assert parse_plan(plan_json(known), "plan.json") == known
    older = json.loads(plan_json(a_plan()))
    del older["under_load"]
    assert parse_plan(json.dumps(older), "plan.json").under_load is None


def test_a_plan_that_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    endless = replace(a_plan(), wall_s=float("inf"))
    with pytest.raises(ValueError, match="could not be read back: plan: wall_s"):
        write_plan(endless, tmp_path / "plan.json")
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="cannot be written"):
        write_plan(a_plan(), tmp_path / "file" / "plan.json")


CASES = {
    "junk": ("{", "is not JSON (EOF while parsing an object at line 1 column 1); name a plan.json that"),
    "no plan": ("[]", "is not a plan: it has no version; name a plan.json that `cascadia plan` wrote"),
    "two documents": (plan_json(a_plan()) + "{}", "is not JSON (trailing characters"),
    "a newer version": (
        edited("version", FORMAT_VERSION + 1),
        "was made by a newer version of cascadia (format 4, known: 3); upgrade cascadia, or plan anew",
    ),
    "an unknown key": (
        edited("stages.0.nmae", 1),
        "stages[0].nmae: unknown key; did you mean 'name'?; where a newer cascadia wrote it, upgrade cascadia",
    ),
    "a wrong type": (edited("seed", "7"), "seed: must be a whole number, is '7'; remove the quotes"),
    "NaN": (edited("wall_s", float("nan")), "wall_s: must be a finite number, is nan"),
    "too few thresholds": (
        edited("thresholds", []),
        "thresholds: there are 0 for 2 stages; every stage but the last has one",
    ),
    "too many stages that may be skipped": (
        edited("skip_below", [20.0, 0.0]),
        "skip_below: there are 2 for 2 stages; every stage but the last has one",
    ),
    "a promise beyond what there is": (
        edited("skip_below", [101.0]),
        "skip_below[0]: is 101; write 0 to skip none, at most 100",
    ),
    "a judge that foresees nothing": (
        edited("skip_below", [20.0]),
        "skip_below[0]: needs foresight, or a judge of kind embedding; the plan's is of kind llm; write 0",
    ),
    "a negative threshold": (
        edited("thresholds.0", -5),
        "thresholds[0]: is -5; write 0 to accept all, above 100 to accept none",
    ),
    "a first border at nothing": (
        edited("gears.0.max_in_flight", 0.0),
        "gears[0].max_in_flight: does not rise; list gears by rising borders",
    ),
    "a gear without a border before the last": (
        edited("gears.0.max_in_flight", None),
        "gears[0].max_in_flight: is missing; give each gear but the last a border",
    ),
    "a border of the last gear": (
        edited("gears.1.max_in_flight", 50.0),
        "gears[1].max_in_flight: is set; write null: the last has no border",
    ),
    "a gear that asks a stage without replicas": (
        edited("gears.0.stages", ["small", "huge"]),
        "gears[0].stages: 'huge' is not a stage; choose of: small, large",
    ),
    "a gear that asks backwards": (
        edited("gears.0.stages", ["large", "small"]),
        "gears[0].stages: are not in the plan's order; write each once, in the plan's order",
    ),
    "a lighter gear that asks more": (
        edited(
            "gears.1",
            {"max_in_flight": None, "max_rate_rps": None, "stages": ["small", "large"], "thresholds": [70.0]},
        ),
        "gears[1]: asks more of the replicas than gears[0], at more load; list gears from heavy to light",
    ),
    "a gear that asks nobody": (
        edited("gears.1.stages", []),
        "gears[1].stages: is empty; name the stages that are asked, in order",
    ),
    "an unknown pool": (
        edited("stages.0.replicas.0.pool", "a100"),
        "stages[0].replicas[0].pool: 'a100' is not a pool of the cluster; plan anew, or undo the edit",
    ),
    "too many GPUs": (
        edited("stages.0.replicas.0.count", 10**40),
        "stages: replicas take more GPUs than pool 'h100-sxm' has (16); plan anew, or undo the edit",
    ),
    "a mixture beside gears": (
        edited("mixture", {"share": 0.5, "thresholds": [40.0], "skip_below": [0.0]}),
        "mixture: stands beside gears, which bring thresholds of their own; keep one of them",
    ),
    "shares of a gear's own": (
        edited("gears.1.shares", {"small": [1.0]}),
        "gears[1].shares: are set, and a gear's work goes by the replicas' own; write {}",
    ),
    "replicas of a rate that does not rise": (
        edited("scaling", scaling_of([1.0, 1.0])),
        "scaling.scales[1].times: is 1, and not above 1; plan anew, or undo the edit",
    ),
    "replicas of a group that the stage has not": (
        edited("scaling", scaling_of([1.0], large=[1])),
        "scaling.scales[0].replicas.large: has other groups than the stage; plan anew, or undo the edit",
    ),
    "replicas of a stage that the plan has not": (
        edited("scaling", scaling_of([1.0], tiny=[1])),
        "scaling.scales[0].replicas.tiny: has other groups than the stage; plan anew, or undo the edit",
    ),
    "a rate for which a stage has no replica": (
        edited("scaling", scaling_of([1.0], large=[0, 0])),
        "scaling.scales[0].replicas.large: is no number of replicas of each group, one at least in all; plan anew, "
        "or undo the edit",
    ),
    "a burst below the mean": (
        edited("scaling", {"peaks": [{"span_s": 30.0, "times": 0.5}], "scales": []}),
        "scaling.peaks[0]: is no rate above the mean within some seconds; plan anew, or undo the edit",
    ),
    "a floor that is no quality": (
        edited("under_load", {"quality_floor": 101.0, "then": "queue"}),
        "under_load.quality_floor: is 101; write 0 to 100",
    ),
    "another end of all gears": (
        edited("under_load", {"quality_floor": None, "then": "drop"}),
        "under_load.then: is 'drop', which is not known; write 'queue' or 'refuse'",
    ),
    "shares that do not add up": (
        edited("stages.1.replicas.0.share", 0.5),
        "stages[1].replicas: their shares do not add up to 1; plan anew, or undo the edit",
    ),
    "a stage twice": (
        edited("stages.0.name", "large"),
        "stages: 'large' is there 2 times; plan anew, or undo the edit",
    ),
    "zero GPUs": (
        edited("cluster.pools.0.nodes", 0),
        "cluster.pools[0]: nodes and gpus_per_node must be at least 1 and plausible; "
        "plan anew, or undo the edit",
    ),
}


@pytest.mark.parametrize(("text", "line"), CASES.values(), ids=CASES.keys())
def test_what_is_refused_is_told_in_one_line(text: str, line: str) -> None:
    told_line = told(text)
    prefix = "plan.json: "
    assert told_line.startswith(prefix + line)
    assert "\n" not in told_line


@given(st.text(max_size=200))
def test_any_text_is_a_plan_or_refused(text: str) -> None:
    with contextlib.suppress(BadInput):
        parse_plan(text, "plan.json")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _places(value: Any, path: str = "") -> list[str]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, entry in inner for place in _places(entry, f"{path}.{key}"))]


@given(st.sampled_from(_places(json.loads(plan_json(a_plan())))[1:]), _JSON)
@settings(max_examples=examples(300))
def test_any_value_at_any_place_is_accepted_or_refused(place: str, value: object) -> None:
    with contextlib.suppress(BadInput):
        parse_plan(edited(place.removeprefix("."), value), "plan.json")


@given(st.integers(0, len(plan_json(a_plan())) - 3))
@settings(max_examples=examples(50))
def test_a_truncated_plan_is_refused(length: int) -> None:
    assert told(plan_json(a_plan())[:length]).startswith("plan.json: ")
