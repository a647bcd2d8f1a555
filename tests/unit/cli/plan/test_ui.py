"""`cascadia ui`: what its process tells of a plan that the real planner makes, and bad input."""

import io
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cascadia.cli.shared.output import plain
from cascadia.cli.ui.plan_process import made, main
from cascadia.cli.ui.sliders import sliders
from cascadia.files.plan_file import read_plan
from cascadia.whatif.asked import Asked
from cascadia.whatif.better import beats, meets
from tests.unit.cli.commands import run
from tests.unit.planner.brief import brief_searches
from tests.unit.planner.problems import LARGE, MEDIUM, problem
from tests.unit.planner.specs import small_spec, write_inputs, write_spec

pytestmark = pytest.mark.slow


class Made(NamedTuple):
    told: dict[str, Any]
    said: list[dict[str, Any]]
    folder: Path


@pytest.fixture(scope="module")
def plan_made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("ui")
    write_inputs(folder)
    write_spec(folder, small_spec())
    said: list[dict[str, Any]] = []
    with brief_searches():
        told = made(folder / "cascade.yaml", Asked(rate_rps=0.5), folder, said.append)
    return Made(told, said, folder)


@pytest.mark.long
def test_it_tells_the_plan_that_it_wrote(plan_made: Made) -> None:
    plan = read_plan(plan_made.folder)
    facts = {fact["name"]: fact["value"] for fact in plan_made.told["facts"]}
    assert facts["Cost an hour"] == plan.predicted.usd_per_hour
    assert facts["Quality, at least"] == plan.predicted.quality.lower
    assert facts["Rate"] == plan_made.told["rate_rps"] == 0.5
    assert plan_made.told["command"] == "cascadia plan cascade.yaml --rate 0.5 --out plan/"
    assert (plan_made.folder / "report.html").exists()


@pytest.mark.long
def test_what_it_tells_of_its_bounds_is_kept_by_itself(plan_made: Made) -> None:
    told = json.loads(json.dumps(plain(plan_made.told)))
    assert told["bounds"] == {
        "rate_rps": 0.5,
        "quality": read_plan(plan_made.folder).objective.quality_min,
        "latency_s": None,
        "usd_per_hour": None,
        "gpus": {"h100-sxm": 8},
    }
    assert sum(told["worth"]["gpus"].values()) == read_plan(plan_made.folder).gpus
    assert meets(told, told)
    assert not beats(told, told)


def test_the_plan_is_first_of_what_was_tried_and_nothing_told_is_beaten(plan_made: Made) -> None:
    first, *others = plan_made.told["tried"]
    assert first["chosen"]
    assert not any(point["chosen"] for point in others)
    for one in others:
        for other in others:
            keys = ("latency_s", "usd_per_hour")
            better = all(other[k] <= one[k] for k in keys) and other["quality"] >= one["quality"]
            fewer = sum(other["gpus"].values()) <= sum(one["gpus"].values())
            assert not (better and fewer and any(other[k] < one[k] for k in keys))


def test_its_sliders_come_first_and_stand_at_the_specs_values(plan_made: Made) -> None:
    told = {slider["key"]: slider for slider in plan_made.said[0]["sliders"]}
    assert set(told) == {"quality_min", "rate_rps", "gpus", "budget_usd_per_hour", "latency_max_s"}
    for slider in told.values():
        assert slider["own"] is None or slider["own"] in slider["stops"]
        assert slider["stops"] == sorted(set(slider["stops"]))
        assert 2 <= len(slider["stops"]) <= 250
    assert [line for line in plan_made.said[1:] if "step" not in line] == []


def test_the_bars_to_ask_for_go_from_the_weakest_stages_quality_to_the_best_ones() -> None:
    """And not from the hardest question's to the easiest one's: no plan reaches these."""
    given = problem((MEDIUM, LARGE), quality_min=60.0)
    bars = next(slider for slider in sliders(given) if slider["key"] == "quality_min")["stops"]
    weakest, best = given.quality.quality.mean(axis=1).tolist()
    assert weakest - 1.0 <= bars[0] <= weakest
    assert best - 0.5 <= bars[-1] <= best


def test_a_failure_is_the_commands_own_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    request = {"spec": str(tmp_path / "none.yaml"), "folder": str(tmp_path), "asked": {}}
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(request)))
    out = sys.stdout
    with pytest.raises(Exception, match="no such file"):
        main()
    sys.stdout = out
    assert "none.yaml: no such file" in json.loads(capsys.readouterr().out)["error"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("none.yaml",), "none.yaml: no such file; check the path"),
        (("x", "--port", "99999"), "99999 is not from 0 to 65535"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], said: str) -> None:
    result = run("ui", *arguments)
    assert result.exit_code == 2
    assert said in result.output
    assert result.output.count("\n") == 1
