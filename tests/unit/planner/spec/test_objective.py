"""Service levels and presets as a spec says them."""

from typing import Any

import pytest
from pydantic import ValidationError

from cascadia.domain.objective import Level
from cascadia.planner.spec.objective import PRESETS, ObjectiveSpec


def spec(**given: Any) -> ObjectiveSpec:
    return ObjectiveSpec.model_validate(given)


def test_attainment_is_another_word_for_the_quantile() -> None:
    told = [{"metric": "ttft", "max_s": 1}, {"metric": "e2e", "attainment": "99%", "max_s": 20}]
    assert spec(minimize="latency", levels=told).kept == (Level("ttft", 0.95, 1.0), Level("e2e", 0.99, 20.0))


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_needs_no_goal_and_no_latency(preset: str) -> None:
    assert spec(preset=preset).goal == "quality"
    assert spec(preset=preset, quality_min=80).goal == "cost"
    assert spec(preset=preset).kept == PRESETS[preset]  # type: ignore[index]


def test_levels_stand_in_for_a_presets() -> None:
    assert spec(preset="chat", levels=[{"metric": "tpot", "max_s": 0.2}]).kept == (Level("tpot", 0.95, 0.2),)


def test_the_values_of_presets_are_told_where_they_are_asked_for() -> None:
    told = ObjectiveSpec.model_fields["preset"].description or ""
    for name, levels in PRESETS.items():
        text = ", ".join(f"{level.name} {level.max_s:g} s" for level in levels) or "none"
        assert f"`{name}` ({text})" in told


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "or a preset such as"),
        ({"maximize": "quality"}, "`preset: batch`"),
        ({"minimize": "latency", "levels": [{"metric": "itl", "max_s": 1}]}, "ttft"),
        (
            {
                "minimize": "latency",
                "levels": [{"metric": "ttft", "max_s": 1, "quantile": 0.5, "attainment": 0.5}],
            },
            "say the same",
        ),
        (
            {
                "minimize": "latency",
                "levels": [{"metric": "ttft", "max_s": 1}, {"metric": "ttft", "max_s": 2}],
            },
            "two levels bound ttft at 0.95",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        spec(**given)
